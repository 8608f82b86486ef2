"""A rebuild reads the facts of its own day by key, however many there are (3-results §3.4)."""

from datetime import date, timedelta

import pytest

from bench.projections import SQL as SEEDS
from store.database import Pool
from store.projection_tables import PROJECTIONS
from store.projections import SQL, DayKey
from tests.support.backlog import explain
from tests.support.projecting import rebuild_rows
from tests.support.world import World

FACTS = {
    "monitoring_collect_tasks",
    "question_monitor_runs",
    "question_monitor_parse_results",
    "monitoring_citation_facts",
    "monitoring_platform_question_daily",
    "citation_page_days",
}
DAYS = 100
CITATIONS = 4


@pytest.fixture
async def day(pool: Pool) -> DayKey:
    """The last of a hundred days of a brand with 20 answers each."""
    brand = await pool.fetchrow(SEEDS["seed_brand"])
    assert brand is not None
    days = [
        DayKey(brand["tenant_id"], brand["brand_id"], date(2026, 4, 1) + timedelta(days=number))
        for number in range(DAYS)
    ]
    for each in days:
        await pool.execute(SEEDS["seed_runs"], each.tenant_id, each.brand_id, 20, CITATIONS, each.business_date)
    await pool.execute("analyze")
    for each in days:
        await rebuild_rows(pool, each)
    await pool.execute("analyze")
    return days[-1]


async def test_a_rebuild_reads_its_own_days_facts_alone(pool: Pool, day: DayKey) -> None:
    for each in PROJECTIONS:
        plan = await explain(pool, each.sync, day.tenant_id, day.brand_id, day.business_date)
        assert not plan.seq_scans & FACTS, each.table
        assert plan.discarded <= 2_000, each.table


async def test_a_day_that_the_statistics_do_not_know_yet_is_not_read_for_each_of_its_rows(pool: Pool) -> None:
    brand = await pool.fetchrow(SEEDS["seed_brand"])
    assert brand is not None
    owner = brand["tenant_id"], brand["brand_id"]
    await pool.execute(SEEDS["seed_runs"], *owner, 50, 1, date(2026, 4, 1))
    await pool.execute("analyze")
    today = date(2026, 4, 2)
    await pool.execute(SEEDS["seed_runs"], *owner, 1_000, 1, today)
    for each in PROJECTIONS:
        plan = await explain(pool, each.sync, *owner, today)
        assert plan.discarded <= 10_000, each.table


async def test_a_claim_reads_the_oldest_marks_alone(pool: Pool) -> None:
    await World.create(pool)
    await pool.execute(
        "insert into projection_rebuild_queue (tenant_id, brand_id, business_date, marked_at)"
        " select tenant_id, id, date '2020-01-01' + n, now() - make_interval(mins => n)"
        " from brands, generate_series(1, 10000) n"
    )
    await pool.execute("analyze projection_rebuild_queue")
    plan = await explain(pool, SQL["claim_mark"])
    assert "projection_rebuild_queue" not in plan.seq_scans
    assert plan.pages < 100
