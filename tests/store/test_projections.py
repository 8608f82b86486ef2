"""A brand-day's summary: completeness first, and equal to a rebuild from scratch (3-results §3.4)."""

from collections.abc import Sequence
from typing import Any

import pytest

from activities.interpret import interpret
from store.database import Pool, transaction
from store.facts import read_brands, read_contexts, write_facts
from store.projections import DayKey, claim_mark, mark_day, postpone, rebuild_day, rebuild_marked
from store.residents import take
from store.settlement import mark_projections
from tests.support.results import chat_answer, failure, result
from tests.support.world import BUSINESS_DATE, Desktop, Lease, World

NAME = "projection/0"


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


@pytest.fixture
async def client(world: World) -> Desktop:
    return await world.client()


def day_of(world: World) -> DayKey:
    return DayKey(world.tenant_id, world.brand_id, BUSINESS_DATE)


async def store(world: World, lease: Lease, client: Desktop, text: str | None, *urls: str) -> None:
    """The facts of one result: an answer with this text, or a failure for None."""
    answer = result(world, lease, client, raw=chat_answer(text or "", urls=urls))
    message = failure(world, lease, client) if text is None else answer
    context = (await read_contexts(world.pool, [(lease.attempt_id, world.tenant_id)]))[lease.attempt_id]
    brands = await read_brands(world.pool, [(world.tenant_id, world.brand_id)])
    async with transaction(world.pool) as connection:
        await write_facts(connection, [interpret(message, context, brands[world.brand_id], None).fact])


async def rebuild(world: World) -> dict[str, Any] | None:
    """The brand's row of the standard mode after a rebuild."""
    async with transaction(world.pool) as connection:
        await rebuild_day(connection, day_of(world))
    row = await world.pool.fetchrow("select * from monitoring_brand_daily where run_mode = 'api_standard'")
    return None if row is None else dict(row)


def counts(row: dict[str, Any] | None) -> tuple[int, ...]:
    """expected, collected, failed, missing."""
    assert row is not None
    return row["expected_count"], row["collected_count"], row["failed_count"], row["missing_count"]


async def test_expected_tasks_without_runs_are_missing(world: World, client: Desktop) -> None:
    await world.business_task()
    await world.business_task(platform="doubao")
    row = await rebuild(world)
    assert counts(row) == (2, 0, 0, 2)
    platforms = await world.pool.fetch(
        "select ai_platform_id, missing_count from monitoring_brand_platform_daily order by 1"
    )
    assert [tuple(each) for each in platforms] == [("doubao", 1), ("qwen", 1)]


async def test_a_failed_run_is_failed_and_not_an_answer_without_the_brand(world: World, client: Desktop) -> None:
    await store(world, await world.leased(client), client, None)
    await store(world, await world.leased(client), client, "Nobody knows.")
    row = await rebuild(world)
    assert row is not None
    assert counts(row) == (2, 1, 1, 0)
    assert row["mentioned_count"] == 0


async def test_a_failed_task_without_a_run_is_failed(world: World) -> None:
    await world.set("monitoring_collect_tasks", await world.business_task(), status="failed")
    await world.set("monitoring_collect_tasks", await world.business_task(), status="expired")
    assert counts(await rebuild(world)) == (2, 0, 1, 1)


async def test_an_answer_stays_when_a_later_asking_of_its_question_is_skipped(world: World, client: Desktop) -> None:
    lease = await world.leased(client)
    await store(world, lease, client, "Acme is fine")
    await world.set("monitoring_collect_tasks", lease.business_id, status="skipped")
    assert counts(await rebuild(world)) == (1, 1, 0, 0)


async def test_skipped_tasks_are_not_expected_and_ui_samples_never_enter(world: World, client: Desktop) -> None:
    await world.set("monitoring_collect_tasks", await world.business_task(), status="skipped")
    sample = await world.leased(client)
    await world.set("monitoring_collect_tasks", sample.business_id, run_mode="ui_sample")
    await store(world, sample, client, "Acme.")
    assert await rebuild(world) is None
    assert await world.pool.fetchval("select count(*) from monitoring_brand_daily") == 0


async def test_mentions_positions_and_citations_are_summed(world: World, client: Desktop) -> None:
    await world.pool.execute("update brands set domains = '{acme.com}'")
    await world.pool.execute(
        "insert into competitors (tenant_id, brand_id, name) values ($1, $2, 'Globex')", world.tenant_id, world.brand_id
    )
    await store(
        world, await world.leased(client), client, "Acme beats Globex. Acme!", "https://acme.com/", "https://x.org/"
    )
    await store(world, await world.leased(client), client, "Globex, then Acme.")
    await store(world, await world.leased(client), client, "Globex alone.")
    row = await rebuild(world)
    assert row is not None
    assert counts(row) == (3, 3, 0, 0)
    assert (row["mentioned_count"], row["first_count"]) == (2, 1)
    assert (row["position_sum"], row["positioned_count"]) == (3, 2)
    assert (row["brand_mentions"], row["competitor_mentions"]) == (3, 3)
    assert (row["citation_count"], row["own_citation_count"]) == (2, 1)


async def both_collectors(world: World, client: Desktop, desktop: str | None, api: str | None) -> None:
    """The same question on the same platform, collected both ways."""
    first = await world.leased(client)
    second = await world.leased(client)
    question = (await world.business(first.business_id))["question_id"]
    version = (await world.business(first.business_id))["question_version_id"]
    await world.set(
        "monitoring_collect_tasks", second.business_id,
        collector_type="api", question_id=question, question_version_id=version,
    )  # fmt: skip
    await store(world, first, client, desktop)
    await store(world, second, client, api)


@pytest.mark.parametrize(
    ("desktop", "api", "plan", "mentioned"),
    [
        pytest.param(None, "Acme.", "desktop", 1, id="succeeded-over-failed"),
        pytest.param("Acme.", "Nobody.", "desktop", 1, id="then-the-plans-collector"),
        pytest.param("Acme.", "Nobody.", "api", 0, id="also-when-that-is-api"),
    ],
)
async def test_where_both_collectors_ran_the_better_run_counts_once(
    world: World, client: Desktop, desktop: str | None, api: str, plan: str, mentioned: int
) -> None:
    await world.set("monitoring_plans", await world.plan(), collector_type=plan)
    await both_collectors(world, client, desktop, api)
    row = await rebuild(world)
    assert row is not None
    assert counts(row) == (1, 1, 0, 0)
    assert row["mentioned_count"] == mentioned


async def test_an_answer_to_an_older_wording_is_missing_for_the_present_one(world: World, client: Desktop) -> None:
    lease = await world.leased(client)
    await store(world, lease, client, "Acme.")
    other = await world.question()
    await world.set("monitoring_collect_tasks", lease.business_id, question_version_id=other.version_id)
    assert counts(await rebuild(world)) == (1, 0, 0, 1)


async def test_a_rebuild_equals_a_rebuild_from_scratch(world: World, client: Desktop) -> None:
    for text in ("Acme.", None, "Nobody."):
        await store(world, await world.leased(client), client, text)
        await rebuild(world)
    await world.set("monitoring_collect_tasks", await world.business_task(platform="doubao"), status="skipped")
    await rebuild(world)
    tables = ("monitoring_brand_daily", "monitoring_brand_platform_daily")

    async def picture() -> Sequence[Any]:
        rows = [await world.pool.fetch(f"select * from {table} order by 1, 2, 3, 4, 5") for table in tables]
        return [[{**row, "rebuilt_at": None} for row in each] for each in rows]

    grown = await picture()
    for table in tables:
        await world.pool.execute(f"delete from {table}")
    await rebuild(world)
    assert await picture() == grown


async def test_another_brands_day_is_left_alone(world: World, pool: Pool) -> None:
    await world.business_task()
    await rebuild(world)
    other = await World.create(pool, "Other")
    await other.business_task()
    async with transaction(pool) as connection:
        await rebuild_day(connection, day_of(other))
    assert await pool.fetchval("select count(*) from monitoring_brand_daily") == 2


async def test_readers_see_the_old_rows_until_the_rebuild_commits(world: World, pool: Pool) -> None:
    await world.business_task()
    await rebuild(world)
    await world.business_task()
    async with transaction(pool) as connection:
        await rebuild_day(connection, day_of(world))
        assert await pool.fetchval("select expected_count from monitoring_brand_daily") == 1
    assert await pool.fetchval("select expected_count from monitoring_brand_daily") == 2


async def mark(world: World, task: int) -> None:
    async with transaction(world.pool) as connection:
        await mark_projections(connection, [task])


async def test_a_mark_goes_only_at_the_version_that_was_rebuilt(world: World, pool: Pool) -> None:
    epoch = await take(pool, NAME, "test")
    task = await world.business_task()
    await mark(world, task)
    claimed = await claim_mark(pool, NAME, epoch)
    assert claimed is not None
    await mark(world, task)
    assert await rebuild_marked(pool, NAME, epoch, claimed) is False
    await pool.execute("update projection_rebuild_queue set not_before = now()")
    again = await claim_mark(pool, NAME, epoch)
    assert again is not None
    assert await rebuild_marked(pool, NAME, epoch, again) is True
    assert await pool.fetchval("select count(*) from projection_rebuild_queue") == 0


async def test_a_claimed_mark_is_not_claimed_twice_and_blocks_no_result(world: World, pool: Pool) -> None:
    epoch = await take(pool, NAME, "test")
    task = await world.business_task()
    await mark(world, task)
    assert await claim_mark(pool, NAME, epoch) is not None
    assert await claim_mark(pool, NAME, epoch) is None
    async with transaction(pool) as connection:
        await connection.execute("set local lock_timeout = '2s'")
        await mark_projections(connection, [task])


async def test_many_results_are_one_mark(world: World, pool: Pool) -> None:
    tasks = [await world.business_task() for _ in range(3)]
    for task in tasks:
        await mark(world, task)
    assert await pool.fetchval("select array_agg(version) from projection_rebuild_queue") == [3]


async def test_a_day_that_cannot_be_rebuilt_is_parked_until_its_data_change(world: World, pool: Pool) -> None:
    epoch = await take(pool, NAME, "test")
    task = await world.business_task()
    await mark(world, task)
    for _ in range(2):
        await pool.execute("update projection_rebuild_queue set not_before = now()")
        claimed = await claim_mark(pool, NAME, epoch)
        assert claimed is not None
        await postpone(pool, NAME, epoch, claimed, "numeric overflow", max_tries=2)
    row = await pool.fetchrow(
        "select not_before = 'infinity' as parked, tries, last_error from projection_rebuild_queue"
    )
    assert row is not None
    assert tuple(row) == (True, 2, "numeric overflow")
    assert await claim_mark(pool, NAME, epoch) is None
    await mark(world, task)
    assert await claim_mark(pool, NAME, epoch) is not None


async def test_an_operators_mark_is_due_at_once(world: World, pool: Pool) -> None:
    epoch = await take(pool, NAME, "test")
    async with transaction(pool) as connection:
        await mark_day(connection, day_of(world))
    claimed = await claim_mark(pool, NAME, epoch)
    assert claimed is not None
    assert claimed.day == day_of(world)
