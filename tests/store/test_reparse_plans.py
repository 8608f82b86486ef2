"""A reparse looks at the runs of a few days at a time, however many there are (3-results §3.3)."""

from datetime import date

import pytest

from domain.ids import new_uuid
from store.database import Pool
from store.reparse import DAYS, SQL
from tests.support.backlog import explain
from tests.support.world import World

LARGE = {
    "question_monitor_runs",
    "question_monitor_parse_results",
    "monitoring_citation_facts",
    "monitoring_parse_badcases",
}

_RUNS = """
with made as (
    insert into question_monitor_runs (tenant_id, brand_id, question_id, question_version_id, ai_platform_id,
        collector_type, run_mode, business_date, status, raw_answer_key, attempt_id, extractor_version)
    select $1, $2, $3, $4, 'qwen', 'desktop', 'mode-' || n, date '2026-01-01' + n % 100, 'succeeded', 'key', $5, 'v0'
    from generate_series(1, 20000) n
    returning id, tenant_id
), parsed as (
    insert into question_monitor_parse_results (run_id, tenant_id, run_mode, brand_mentioned, brand_mention_count)
    select id, tenant_id, 'm', false, 0 from made
), cases as (
    insert into monitoring_parse_badcases (tenant_id, run_id, reason) select tenant_id, id, 'low_confidence' from made
)
insert into monitoring_citation_facts (run_id, ordinal, tenant_id, page_url, citation_hash, owner)
select id, 1, tenant_id, 'u', 'h', 'other' from made
"""


@pytest.fixture
async def world(pool: Pool) -> World:
    """20,000 runs on a hundred days."""
    world = await World.create(pool)
    question = await world.question()
    await pool.execute(_RUNS, world.tenant_id, world.brand_id, question.id, question.version_id, new_uuid())
    await pool.execute("vacuum analyze")
    return world


async def test_a_step_reads_the_runs_of_its_days_and_a_chunk_its_own(world: World) -> None:
    middle = (world.tenant_id, world.brand_id, date(2026, 2, 1))
    step = (*middle, 2**63 - 1, 2**63 - 1, DAYS, None, None, False, "v2", None, False, False)
    assert len(await world.pool.fetch(SQL["next_days"], *step)) == DAYS
    plan = await explain(world.pool, SQL["next_days"], *step)
    assert not plan.seq_scans & LARGE
    assert plan.discarded <= 100
    ids = [row["id"] for row in await world.pool.fetch("select id from question_monitor_runs limit 100")]
    for name, arguments in {"read_runs": (ids,), "close_cases": (ids, [None] * len(ids))}.items():
        assert not (await explain(world.pool, SQL[name], *arguments)).seq_scans & LARGE, name
