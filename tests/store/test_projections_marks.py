"""Marks of brand-days: coalesced, kept until served, paced, parked when a day cannot be rebuilt (3-results §3.4)."""

import asyncio

import asyncpg
import pytest

from store.catalog import NewQuestion, Reach, add_questions, change_question, create_competitor, delete_competitor
from store.database import Pool, transaction
from store.gauges import read_gauges
from store.projection_tables import SQL as TABLES
from store.projections import (
    DayKey,
    Mark,
    Pace,
    claim_mark,
    mark_brand,
    mark_day,
    mark_unbuilt,
    parked_marks,
    postpone,
    rebuild_marked,
    replay_mark,
)
from store.residents import take
from store.settlement import mark_projections
from tests.support.projecting import counts, day_of, rebuild, rows_of, store, topic
from tests.support.result_queues import until
from tests.support.world import BUSINESS_DATE, World, ago

NAME = "projection/0"

WAITING = """
select exists (select from pg_locks l join pg_database d on d.oid = l.database
    where d.datname = current_database() and l.locktype = 'advisory' and not l.granted)
"""


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


async def mark(world: World, task: int) -> None:
    async with transaction(world.pool) as connection:
        await mark_projections(connection, [task])


async def claimed(pool: Pool, epoch: int) -> Mark:
    found = await claim_mark(pool, NAME, epoch)
    assert found is not None
    return found


async def rested(pool: Pool) -> None:
    await pool.execute("update projection_rebuilds set rest_until = now()")


async def lag(pool: Pool) -> float:
    return (await read_gauges(pool)).projection_lag_ms / 1000


async def test_a_mark_goes_only_at_the_version_that_was_rebuilt(world: World, pool: Pool) -> None:
    epoch = await take(pool, NAME, "test")
    task = await world.business_task()
    await mark(world, task)
    first = await claimed(pool, epoch)
    await mark(world, task)
    assert await rebuild_marked(pool, NAME, epoch, first) is False
    await rested(pool)
    assert await rebuild_marked(pool, NAME, epoch, await claimed(pool, epoch)) is True
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
    await fail(pool, epoch, 2)
    row = await pool.fetchrow(
        "select not_before = 'infinity' as parked, tries, last_error from projection_rebuild_queue"
    )
    assert row is not None
    assert tuple(row) == (True, 2, "numeric overflow")
    assert await claim_mark(pool, NAME, epoch) is None
    await mark(world, task)
    assert await claim_mark(pool, NAME, epoch) is not None


async def fail(pool: Pool, epoch: int, times: int) -> None:
    """So many failed tries, of two."""
    for _ in range(times):
        await pool.execute("update projection_rebuild_queue set not_before = now()")
        await postpone(pool, NAME, epoch, await claimed(pool, epoch), "numeric overflow", max_tries=2)


async def test_failed_tries_do_not_make_a_mark_younger(world: World, pool: Pool) -> None:
    epoch = await take(pool, NAME, "test")
    await mark(world, await world.business_task())
    await pool.execute("update projection_rebuild_queue set marked_at = now() - interval '50 seconds'")
    await fail(pool, epoch, 1)
    assert await lag(pool) >= 50


async def test_a_kept_mark_is_as_old_as_what_it_waits_for(world: World, pool: Pool) -> None:
    """What came while its day was being rebuilt has waited since then, and not since the mark before."""
    epoch = await take(pool, NAME, "test")
    task = await world.business_task()
    await mark(world, task)
    await pool.execute("update projection_rebuild_queue set marked_at = now() - interval '1 hour'")
    first = await claimed(pool, epoch)
    await mark(world, task)
    await rebuild_marked(pool, NAME, epoch, first)
    same = "select q.marked_at = b.rebuilt_at from projection_rebuild_queue q, projection_rebuilds b"
    assert await pool.fetchval(same) is True


async def test_parked_days_are_listed_and_replayed(world: World, pool: Pool) -> None:
    epoch = await take(pool, NAME, "test")
    await mark(world, await world.business_task())
    assert await replay_mark(pool, day_of(world)) is False
    await fail(pool, epoch, 2)
    [parked] = await parked_marks(pool, 10)
    assert (parked.day, parked.tries, parked.error) == (day_of(world), 2, "numeric overflow")
    assert parked.failed_at is not None
    assert parked.failed_at >= parked.marked_at
    assert await replay_mark(pool, parked.day) is True
    assert await parked_marks(pool, 10) == []
    assert (await claimed(pool, epoch)).tries == 0


async def test_an_operators_mark_is_due_at_once(world: World, pool: Pool) -> None:
    epoch = await take(pool, NAME, "test")
    async with transaction(pool) as connection:
        await mark_day(connection, day_of(world))
    assert (await claimed(pool, epoch)).day == day_of(world)


async def test_a_day_rests_in_proportion_to_its_last_rebuild(world: World, pool: Pool) -> None:
    epoch = await take(pool, NAME, "test")
    task = await world.business_task()
    rest = "select extract(epoch from rest_until - rebuilt_at)::float8 * 1000 - took_ms from projection_rebuilds"
    for pace, shortest, longest in (
        (Pace(times=0, least_ms=60_000, most_ms=90_000), 60_000, 61_000),
        (Pace(times=1e9, least_ms=0, most_ms=90_000), 90_000, 91_000),
    ):
        await mark(world, task)
        await rebuild_marked(pool, NAME, epoch, await claimed(pool, epoch), pace)
        assert shortest <= await pool.fetchval(rest) < longest
        await mark(world, task)
        assert await claim_mark(pool, NAME, epoch) is None
        await rested(pool)


async def test_a_resting_day_holds_up_no_other(world: World, pool: Pool) -> None:
    epoch = await take(pool, NAME, "test")
    task = await world.business_task()
    await mark(world, task)
    await rebuild_marked(pool, NAME, epoch, await claimed(pool, epoch), Pace(least_ms=60_000, most_ms=60_000))
    await mark(world, task)
    other = await World.create(pool, "Other")
    await mark(other, await other.business_task())
    assert (await claimed(pool, epoch)).day == day_of(other)


async def test_the_first_result_of_a_request_ends_its_days_rest(world: World, pool: Pool) -> None:
    epoch = await take(pool, NAME, "test")
    client = await world.client()
    request = await world.request(client_id=client.id)
    task = await world.business_task(request_id=request)
    await mark(world, task)
    await rebuild_marked(pool, NAME, epoch, await claimed(pool, epoch), Pace(least_ms=60_000, most_ms=60_000))
    await world.set("monitoring_collect_requests", request, first_result_at=ago(minutes=1))
    await mark(world, task)
    assert await claim_mark(pool, NAME, epoch) is None
    await pool.execute("update monitoring_collect_requests set first_result_at = now()")
    assert (await claimed(pool, epoch)).day == day_of(world)


async def test_a_rebuild_reads_the_facts_of_one_moment(world: World, pool: Pool) -> None:
    """A result that comes between two of its statements is in none of the tables; its mark brings the next rebuild."""
    epoch, client = await take(pool, NAME, "test"), await world.client()
    late = await world.leased(client)
    await mark(world, late.business_id)
    first = await claimed(pool, epoch)
    async with transaction(pool) as connection:
        await connection.execute(TABLES["begin_rebuild"], first.day.tenant_id, first.day.brand_id, BUSINESS_DATE)
        rebuilding = asyncio.create_task(rebuild_marked(pool, NAME, epoch, first))

        async def waits() -> bool:
            return bool(await pool.fetchval(WAITING))

        await until(waits)
        await store(world, late, client, "Acme.", "https://x.org/")
        await mark(world, late.business_id)
    assert await rebuilding is False
    assert [counts(row) for row in await rows_of(world, "monitoring_brand_daily")] == [(1, 0, 0, 1)]
    assert await rows_of(world, "citation_page_days") == []


async def test_a_rebuild_that_dies_midway_leaves_the_old_rows_and_the_mark(world: World, pool: Pool) -> None:
    epoch = await take(pool, NAME, "test")
    await rebuild(world)
    await rested(pool)
    await mark(world, await world.business_task())
    await pool.execute(
        "create function die() returns trigger language plpgsql as"
        " $$ begin perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(5); return new; end $$"
    )
    await pool.execute(
        "create trigger die before insert on monitoring_brand_impression for each row execute function die()"
    )
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await rebuild_marked(pool, NAME, epoch, await claimed(pool, epoch))
    assert await rows_of(world, "monitoring_platform_question_daily") == []
    assert await pool.fetchval("select array_agg(tries) from projection_rebuild_queue") == [0]
    await pool.execute("drop trigger die on monitoring_brand_impression")
    await pool.execute("update projection_rebuild_queue set not_before = now()")
    assert await rebuild_marked(pool, NAME, epoch, await claimed(pool, epoch)) is True
    assert len(await rows_of(world, "monitoring_brand_impression")) == 1


async def test_days_from_before_there_were_ten_tables_are_marked_once(world: World, pool: Pool) -> None:
    epoch = await take(pool, NAME, "test")
    await world.business_task()
    await rebuild(world)
    await mark_unbuilt(pool, NAME, epoch)
    assert await claim_mark(pool, NAME, epoch) is None
    await pool.execute("delete from projection_rebuilds")
    await mark_unbuilt(pool, NAME, epoch)
    assert (await claimed(pool, epoch)).day == day_of(world)


async def days_of(world: World, pool: Pool, count: int) -> None:
    """So many days that have rows."""
    await pool.execute(
        "insert into monitoring_brand_daily select tenant_id, brand_id, business_date - n, run_mode, 1, 1, 0, 0, 0, 0,"
        " 0, 0, 0, 0, 0, 0 from monitoring_brand_daily, generate_series(1, $1::int - 1) n",
        count,
    )


async def test_all_days_of_a_brand_are_rebuilt_one_a_second_the_newest_first(world: World, pool: Pool) -> None:
    epoch = await take(pool, NAME, "test")
    await world.business_task()
    await rebuild(world)
    await rested(pool)
    await days_of(world, pool, 4)
    async with transaction(pool) as connection:
        await mark_brand(connection, world.tenant_id, world.brand_id)
    due = await pool.fetch("select marked_at, not_before from projection_rebuild_queue order by business_date desc")
    assert [(row["not_before"] - due[0]["not_before"]).total_seconds() for row in due] == [0, 1, 2, 3]
    assert [row["marked_at"] for row in due] == [row["not_before"] for row in due]
    assert (await claimed(pool, epoch)).day == day_of(world)
    assert await claim_mark(pool, NAME, epoch) is None
    assert 0 <= await lag(pool) < 5


async def test_changes_of_competitors_topics_and_texts_mark_the_days_they_concern(world: World, pool: Pool) -> None:
    reach = Reach(world.tenant_id, (world.workspace_id,))
    question = await world.question()
    task = await world.business_task(question=question)
    await rebuild(world)

    async def marked() -> list[DayKey]:
        rows = await pool.fetch("delete from projection_rebuild_queue returning tenant_id, brand_id, business_date")
        return [DayKey(*row) for row in rows]

    rival = await create_competitor(pool, reach, world.brand_id, "Globex", [], [])
    assert await marked() == [day_of(world)]
    await delete_competitor(pool, reach, world.brand_id, rival["id"])
    assert await marked() == [day_of(world)]
    await change_question(pool, reach, question.id, {"topic_id": await topic(world, "prices")})
    assert await marked() == [day_of(world)]
    await change_question(pool, reach, question.id, {"text": "Anew?"})
    assert await marked() == [day_of(world)]
    await world.set("monitoring_collect_tasks", task, status="completed")
    await change_question(pool, reach, question.id, {"text": "And again?"})
    assert await marked() == []
    await add_questions(pool, reach, world.brand_id, [NewQuestion("Another?")])
    assert await marked() == []
