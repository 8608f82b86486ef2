"""What a cut-off left is collected afterwards, once; the first batch's numbers stay (1-dispatch §1.6)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from domain.messages import BatchCounters
from store import batch_starts, batches
from store.database import Pool
from tests.support.batches import materialise, planned, ref, tasks_of, twice, with_tasks
from tests.support.clicks import Hands, accepted, rounds, whole
from tests.support.world import Desktop, World


@pytest.fixture
async def world(pool: Pool) -> World:
    """A tenant with nothing planned."""
    return await World.create(pool)


@pytest.fixture
async def client(world: World) -> Desktop:
    """A desktop that is online."""
    return await world.client()


async def answer_one(world: World, client: Desktop) -> None:
    await rounds(world.pool)
    frame, *_ = await Hands(world, client).take()
    await Hands(world, client).run(frame)


async def cut_off(world: World, batch: int) -> BatchCounters:
    """The cut-off and the end that follows when nothing runs."""
    await batches.expire_batch(world.pool, ref(world, batch))
    return await batches.finish_batch(world.pool, ref(world, batch))


async def backfill_of(world: World, batch: int) -> dict[str, Any]:
    row = await world.pool.fetchrow("select * from scheduled_batches where backfill_of = $1", batch)
    assert row is not None
    return dict(row)


async def test_what_a_cut_off_left_is_taken_over_by_one_backfill_in_the_retry_lane(
    world: World, client: Desktop
) -> None:
    batch = await with_tasks(world, 4)
    await answer_one(world, client)
    await cut_off(world, batch)
    first = await world.row("scheduled_batches", batch)
    backfill = await backfill_of(world, batch)
    assert (backfill["status"], backfill["business_date"]) == ("planned", first["business_date"])
    assert backfill["slot"] == f"{first['slot']}-backfill"
    assert backfill["workflow_id"].endswith(f"/{first['business_date']}/{first['slot']}-backfill")
    assert [start.batch_id for start, _ in await batch_starts.find_planned(world.pool)] == [backfill["id"]]
    assert await materialise(world, backfill["id"], size=2) == [2, 1]
    assert await materialise(world, backfill["id"], size=2) == [0]
    taken = await tasks_of(world, backfill["id"])
    assert {(row["status"], row["dispatch_lane"], row["dispatch_priority"]) for row in taken} == {
        ("pending", "retry", 30)
    }
    counters = await batches.read_batch(world.pool, ref(world, backfill["id"]))
    assert (counters.status, counters.expected, counters.backfill_of) == ("running", 3, batch)
    assert await world.row("scheduled_batches", batch) == first
    assert (first["completed_count"], first["expired_count"], first["expected_count"]) == (1, 3, 4)
    assert await rounds(world.pool) > 0
    assert await whole(world)


async def test_a_backfill_gives_way_like_any_scheduled_work(world: World, client: Desktop) -> None:
    batch = await with_tasks(world, 1)
    await cut_off(world, batch)
    await materialise(world, (await backfill_of(world, batch))["id"])
    await rounds(world.pool)
    [frame] = await Hands(world, client).take()
    await Hands(world, client).start(frame)
    answer = await accepted(world, question_ids=[(await world.question()).id])
    assert answer.interrupt_requested_count == 1
    assert await whole(world)


async def test_a_backfill_starts_no_other_one(world: World) -> None:
    batch = await with_tasks(world, 2)
    await cut_off(world, batch)
    backfill = (await backfill_of(world, batch))["id"]
    await materialise(world, backfill)
    counters = await cut_off(world, backfill)
    assert (counters.status, counters.expired, counters.backfill_id) == ("completed", 2, None)
    assert (await batches.read_batch(world.pool, ref(world, batch))).backfill_id == backfill
    assert await world.pool.fetchval("select count(*) from scheduled_batches") == 2
    assert await whole(world)


async def test_finishing_again_plans_nothing_more(world: World) -> None:
    batch = await with_tasks(world, 2)
    await batches.expire_batch(world.pool, ref(world, batch))
    await twice(world, batches.finish_batch, ref(world, batch))
    assert await world.pool.fetchval("select count(*) from scheduled_batches") == 2


async def test_a_batch_that_left_nothing_or_was_cancelled_has_no_backfill(world: World, client: Desktop) -> None:
    done, cancelled = await with_tasks(world, 1), await with_tasks(world, 2)
    await answer_one(world, client)
    await batches.cancel_batch(world.pool, ref(world, cancelled))
    for batch in (done, cancelled):
        await batches.finish_batch(world.pool, ref(world, batch))
    assert await world.pool.fetchval("select count(*) from scheduled_batches where backfill_of is not null") == 0
    assert await whole(world)


@pytest.mark.parametrize(
    ("cut_off_at", "ends_at"),
    [
        # In Shanghai: midnight, then 06:10; 06:10, then midnight.
        (datetime(2099, 4, 20, 16, 0, tzinfo=UTC), datetime(2099, 4, 20, 22, 10, tzinfo=UTC)),
        (datetime(2099, 4, 20, 22, 10, tzinfo=UTC), datetime(2099, 4, 21, 16, 0, tzinfo=UTC)),
    ],
)
async def test_a_backfill_ends_with_the_next_end_of_a_day(
    world: World, cut_off_at: datetime, ends_at: datetime
) -> None:
    batch = await with_tasks(world, 1)
    await world.set("scheduled_batches", batch, cut_off_at=cut_off_at)
    await cut_off(world, batch)
    assert (await backfill_of(world, batch))["cut_off_at"] == ends_at


async def test_a_backfill_whose_own_end_has_passed_is_not_started(world: World) -> None:
    batch = await with_tasks(world, 1)
    await world.set("scheduled_batches", batch, cut_off_at=datetime.now(UTC) - timedelta(days=2))
    assert (await cut_off(world, batch)).expired == 1
    assert await world.pool.fetchval("select count(*) from scheduled_batches") == 1


async def test_the_backfill_of_a_paused_batch_waits_for_its_own_resume(world: World, client: Desktop) -> None:
    batch = await with_tasks(world, 2)
    await batches.pause_batch(world.pool, ref(world, batch))
    assert (await cut_off(world, batch)).status == "completed"
    backfill = await backfill_of(world, batch)
    assert backfill["status"] == "paused"
    assert [start.batch_id for start, _ in await batch_starts.find_planned(world.pool)] == [backfill["id"]]
    await materialise(world, backfill["id"])
    counters = await batches.read_batch(world.pool, ref(world, backfill["id"]))
    assert (counters.status, counters.held) == ("paused", 2)
    assert await batch_starts.find_planned(world.pool) == []
    assert await rounds(world.pool) == 0
    await batches.resume_batch(world.pool, ref(world, backfill["id"]))
    assert await rounds(world.pool) > 0
    assert await whole(world)


async def test_what_a_person_has_asked_for_meanwhile_or_nobody_wants_any_more_is_not_taken(
    world: World, client: Desktop
) -> None:
    batch = await with_tasks(world, 3)
    await cut_off(world, batch)
    asked, unwanted, left = await tasks_of(world, batch)
    await accepted(world, question_ids=[asked["question_id"]])
    await world.set("questions", unwanted["question_id"], active=False)
    backfill = (await backfill_of(world, batch))["id"]
    await materialise(world, backfill)
    assert [row["id"] for row in await tasks_of(world, backfill)] == [left["id"]]
    assert (await world.business(unwanted["id"]))["status"] == "expired"
    assert await whole(world)


async def test_only_the_batchs_own_day_is_rebuilt(world: World) -> None:
    batch = await with_tasks(world, 1)
    await cut_off(world, batch)
    backfill = await backfill_of(world, batch)
    await world.pool.execute("delete from projection_rebuild_queue")
    await materialise(world, backfill["id"])
    marked = await world.pool.fetch("select brand_id, business_date from projection_rebuild_queue")
    assert [tuple(row) for row in marked] == [(world.brand_id, backfill["business_date"])]


async def test_a_finished_batchs_numbers_stay_when_a_click_asks_its_tasks_again(world: World, client: Desktop) -> None:
    batch = await with_tasks(world, 2)
    await answer_one(world, client)
    await cut_off(world, batch)
    before = await world.row("scheduled_batches", batch)
    answer = await accepted(world)
    await answer_one(world, client)
    await answer_one(world, client)
    assert (await world.row("monitoring_collect_requests", answer.request_id))["completed_task_count"] == 2
    assert await world.row("scheduled_batches", batch) == before
    assert [row for row in await world.outbox("progress") if row["created_at"] > before["finished_at"]] == []
    assert await whole(world)


async def test_a_later_batch_of_the_day_leaves_a_finished_ones_numbers(world: World) -> None:
    one = await with_tasks(world, 2)
    await cut_off(world, one)
    before = await world.row("scheduled_batches", one)
    two = await planned(world, 0, ("qwen",))
    await materialise(world, two)
    assert (await batches.read_batch(world.pool, ref(world, two))).expected == 2
    assert await world.row("scheduled_batches", one) == before
    assert await whole(world)
