"""A batch's tasks are created once, and it ends with true counters (1-dispatch §1.6)."""

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from domain.lanes import Lane
from domain.messages import MaterialiseChunk
from store import batch_tasks, batches
from store.database import Pool
from tests.support.batches import Effect, materialise, planned, ref, rows_of, twice
from tests.support.clicks import Hands, accepted, click, finish, rounds, whole
from tests.support.world import BUSINESS_DATE, Desktop, World


@pytest.fixture
async def world(pool: Pool) -> World:
    """A tenant without plans."""
    return await World.create(pool)


async def test_tasks_are_created_in_chunks_and_only_once(world: World) -> None:
    batch = await planned(world)
    assert await materialise(world, batch) == [4, 4, 2]
    assert await materialise(world, batch) == [0, 0, 0]
    counters = await batches.read_batch(world.pool, ref(world, batch))
    assert (counters.status, counters.expected, counters.settled) == ("running", 10, 0)
    row = await world.pool.fetchrow("select * from monitoring_collect_tasks order by id limit 1")
    assert row is not None
    assert (row["dispatch_lane"], row["dispatch_priority"], row["trigger_source"]) == ("normal", 100, "automatic")
    assert await whole(world)


async def test_a_repeated_chunk_creates_nothing_more(world: World) -> None:
    batch = await planned(world)
    chunk = MaterialiseChunk(batch_id=batch, tenant_id=world.tenant_id, offset=0, size=4)
    first = await batch_tasks.materialise(world.pool, chunk)
    again = await batch_tasks.materialise(world.pool, chunk)
    assert (first.created, again.created, again.next_offset, again.expected) == (4, 0, 4, 4)


async def test_a_chunk_and_a_click_at_once_create_each_task_once(world: World) -> None:
    batch = await planned(world, platforms=("qwen",))
    await asyncio.gather(materialise(world, batch, 2), click(world, platforms=["qwen"]), materialise(world, batch, 3))
    counters = await batches.read_batch(world.pool, ref(world, batch))
    assert counters.expected == await world.pool.fetchval("select count(*) from monitoring_collect_tasks") == 5
    assert await whole(world)


async def test_tasks_of_a_collect_now_are_taken_into_the_batch_with_what_they_settled(world: World) -> None:
    client = await world.client()
    batch = await planned(world, 2, ("qwen",))
    answer = await accepted(world)
    await rounds(world.pool)
    [frame] = await Hands(world, client).take()
    await Hands(world, client).run(frame)
    assert await materialise(world, batch) == [0]
    counters = await batches.read_batch(world.pool, ref(world, batch))
    assert (counters.expected, counters.completed) == (2, 1)
    row = await world.row("monitoring_collect_requests", answer.request_id)
    assert (row["status"], row["requested_task_count"]) == ("running", 2)
    assert await whole(world)


async def test_a_task_of_another_batch_stays_there(world: World) -> None:
    one = await planned(world, 2, ("qwen",))
    await materialise(world, one)
    two = await planned(world, 0, ("qwen",))
    assert await materialise(world, two) == [0]
    assert (await batches.read_batch(world.pool, ref(world, two))).expected == 0
    assert await whole(world)


async def test_what_a_batch_that_is_over_left_is_the_next_ones_and_what_it_settled_is_not(world: World) -> None:
    client, one = await world.client(), await planned(world, 3, ("qwen",))
    await materialise(world, one)
    await rounds(world.pool)
    frame, *_ = await Hands(world, client).take()
    await Hands(world, client).run(frame)
    await batches.cancel_batch(world.pool, ref(world, one))
    two = await planned(world, 0, ("qwen",))
    assert await materialise(world, two) == [0]
    await batches.finish_batch(world.pool, ref(world, one))
    former, next_one = [await batches.read_batch(world.pool, ref(world, batch)) for batch in (one, two)]
    assert (former.status, former.expected, former.completed, former.skipped) == ("cancelled", 1, 1, 0)
    assert (next_one.status, next_one.expected, next_one.settled) == ("running", 2, 0)
    assert await rounds(world.pool) == 1
    assert await whole(world)


async def test_what_a_cut_off_expired_is_the_next_batchs(world: World) -> None:
    one = await planned(world, 2, ("qwen",))
    await materialise(world, one)
    await batches.expire_batch(world.pool, ref(world, one))
    two = await planned(world, 0, ("qwen",))
    await materialise(world, two)
    assert (await batches.read_batch(world.pool, ref(world, two))).expected == 0
    await batches.finish_batch(world.pool, ref(world, one))
    await materialise(world, two)
    counters = await batches.read_batch(world.pool, ref(world, two))
    assert (counters.expected, counters.expired) == (2, 0)
    rows = await world.pool.fetch("select status, finished_at from monitoring_collect_tasks")
    assert [tuple(row) for row in rows] == [("pending", None)] * 2
    assert await whole(world)


async def test_a_question_without_a_text_does_not_stop_the_batch(world: World) -> None:
    batch = await planned(world, 2, ("qwen",))
    await world.pool.execute(
        "insert into questions (tenant_id, brand_id, text) values ($1, $2, 'half made')",
        world.tenant_id,
        world.brand_id,
    )
    assert await materialise(world, batch) == [2]


class Scene:
    """A batch of six: one done, one running, one leased, one a live request's, two waiting."""

    def __init__(self, world: World, client: Desktop, batch: int) -> None:
        self.world, self.client, self.batch = world, client, batch
        self.running = UUID(int=0)
        self.leased = UUID(int=0)

    async def build(self) -> "Scene":
        world = self.world
        request = await world.request(client_id=await self._elsewhere())
        await world.business_task(lane=Lane.HIGH, batch_id=self.batch, request_id=request)
        self.running = (await world.leased(self.client, status="in_progress", batch_id=self.batch)).task_id
        self.leased = (await world.leased(self.client, platform="doubao", batch_id=self.batch)).task_id
        for _ in range(2):
            await world.business_task(batch_id=self.batch)
        done = await world.business_task(batch_id=self.batch)
        await world.set("monitoring_collect_tasks", done, status="skipped", finished_at=datetime.now(UTC))
        return self

    async def _elsewhere(self) -> UUID:
        return (await self.world.client()).id


@pytest.fixture
async def scene(world: World) -> Scene:
    """The batch above."""
    batch = await world.batch(expected=6)
    await world.set("scheduled_batches", batch, skipped_count=1, business_date=BUSINESS_DATE)
    return await Scene(world, await world.client(), batch).build()


@pytest.mark.parametrize(
    ("effect", "expected"),
    [
        (batches.expire_batch, {"status": "running", "skipped": 1, "expired": 3}),
        (batches.cancel_batch, {"status": "cancelling", "skipped": 4, "expired": 0}),
    ],
)
async def test_an_end_settles_what_waits_and_leaves_live_requests_and_running_tasks(
    scene: Scene, effect: Effect, expected: dict[str, Any]
) -> None:
    world = scene.world
    counters = await twice(world, effect, ref(world, scene.batch))
    assert counters.model_dump(include={"status", "skipped", "expired"}) == expected
    assert (counters.touched, counters.running, counters.settled) == (3, 1, 4)
    assert (await world.execution(scene.running))["status"] == "in_progress"
    leased = await world.execution(scene.leased)
    assert (leased["status"], leased["lease_expires_at"]) == ("aborted", None)
    assert (await world.attempt(leased["attempt_id"]))["outcome"] == "cancelled"
    [control] = await world.outbox("task_control")
    assert control["payload"] == {
        "type": "task_control",
        "client_id": str(scene.client.id),
        "task_id": str(scene.leased),
        "control": "canceled",
        "reason": "batch_released",
        "interrupt_generation": 0,
    }
    live = await world.pool.fetchrow("select status from monitoring_collect_tasks where dispatch_lane = 'high'")
    assert live is not None
    assert live["status"] == "pending"
    reasons = {row["skip_reason"] for row in await world.pool.fetch("select skip_reason from monitoring_collect_tasks")}
    assert reasons == ({None, "batch_cancelled"} if effect is batches.cancel_batch else {None})


async def end_requests(world: World, status: str) -> None:
    """Over, with what they held given back."""
    await world.pool.execute(
        "update monitoring_collect_requests set status = $1, finished_at = now(),"
        " returned_task_count = requested_task_count",
        status,
    )


@pytest.mark.parametrize("status", ["succeeded", "timed_out"])
async def test_a_task_whose_request_is_over_is_settled_like_the_others(scene: Scene, status: str) -> None:
    await end_requests(scene.world, status)
    await scene.world.pool.execute(
        "update monitoring_collect_tasks set dispatch_lane = 'normal', dispatch_priority = 100"
        " where dispatch_lane = 'high'"
    )
    counters = await twice(scene.world, batches.expire_batch, ref(scene.world, scene.batch))
    assert counters.expired == 4


async def test_a_client_that_does_not_resume_loses_what_waits_there_and_nothing_else(scene: Scene) -> None:
    world = scene.world
    bound = await world.business_task(platform="kimi", batch_id=scene.batch, client_id=scene.client.id)
    await world.set("scheduled_batches", scene.batch, expected_count=7)
    counters = await twice(world, batches.rebalance_batch, ref(world, scene.batch, client_id=scene.client.id))
    assert (counters.touched, counters.settled) == (2, 1)
    assert (await world.business(bound))["target_client_id"] is None
    assert (await world.execution(scene.leased))["status"] == "aborted"
    assert (await world.execution(scene.running))["status"] == "in_progress"


async def test_rebalancing_another_client_changes_nothing(scene: Scene) -> None:
    before = await rows_of(scene.world)
    other = await scene.world.client()
    await batches.rebalance_batch(scene.world.pool, ref(scene.world, scene.batch, client_id=other.id))
    assert await rows_of(scene.world) == before


@pytest.mark.parametrize(
    ("effect", "status"), [(batches.expire_batch, "completed"), (batches.cancel_batch, "cancelled")]
)
async def test_a_batch_finishes_when_the_last_task_is_settled_and_not_before(
    scene: Scene, effect: Effect, status: str
) -> None:
    world = scene.world
    await effect(world.pool, ref(world, scene.batch))
    assert (await batches.finish_batch(world.pool, ref(world, scene.batch))).touched == 0
    await end_requests(world, "failed")
    await world.pool.execute(
        "update monitoring_collect_tasks set dispatch_lane = 'normal', dispatch_priority = 100"
        " where dispatch_lane = 'high'"
    )
    running = (await world.execution(scene.running))["attempt_id"]
    await finish(world, running)
    await effect(world.pool, ref(world, scene.batch))
    counters = await twice(world, batches.finish_batch, ref(world, scene.batch))
    assert (counters.status, counters.touched, counters.completed) == (status, 1, 1)
    assert counters.settled == counters.expected == 6


async def test_what_waited_on_a_client_that_does_not_resume_is_run_by_another(world: World) -> None:
    busy = await world.client()
    batch = await planned(world, 1)
    await materialise(world, batch)
    await rounds(world.pool)
    assert len(await Hands(world, busy).take()) == 2
    request = await world.request(client_id=busy.id)
    await world.leased(busy, status="in_progress", platform="kimi", lane=Lane.HIGH, request_id=request)
    free = await world.client()
    assert await rounds(world.pool) == 0
    counters = await twice(world, batches.rebalance_batch, ref(world, batch, client_id=busy.id))
    assert counters.touched == 2
    await rounds(world.pool)
    frames = await Hands(world, free).take()
    for frame in frames:
        await Hands(world, free).run(frame)
    counters = await batches.finish_batch(world.pool, ref(world, batch))
    assert (counters.status, counters.completed) == ("completed", 2)
    assert await whole(world)


async def test_a_question_that_is_switched_off_between_chunks_hides_no_other_one(world: World) -> None:
    batch = await planned(world, 4, ("qwen",))
    first = await batch_tasks.materialise(
        world.pool, MaterialiseChunk(batch_id=batch, tenant_id=world.tenant_id, size=2)
    )
    assert first.after is not None
    await world.set("questions", first.after[0], active=False)
    chunk = MaterialiseChunk(
        batch_id=batch, tenant_id=world.tenant_id, size=2, offset=first.next_offset, after=first.after
    )
    second = await batch_tasks.materialise(world.pool, chunk)
    assert (first.created, second.created, second.expected) == (2, 2, 4)


async def test_a_run_that_began_without_a_cursor_goes_on_by_position_and_has_one_then(world: World) -> None:
    batch = await planned(world, 5, ("qwen",))
    chunk = MaterialiseChunk(batch_id=batch, tenant_id=world.tenant_id, size=2)
    await batch_tasks.materialise(world.pool, chunk)
    second = await batch_tasks.materialise(world.pool, chunk.model_copy(update={"offset": 2}))
    assert (second.created, second.next_offset, second.after is not None) == (2, 4, True)
    third = await batch_tasks.materialise(world.pool, chunk.model_copy(update={"offset": 4, "after": second.after}))
    assert (third.created, third.done, third.expected) == (1, True, 5)


async def test_a_cancelled_batch_gets_no_tasks(world: World) -> None:
    batch = await planned(world, 2, ("qwen",))
    await batches.cancel_batch(world.pool, ref(world, batch))
    assert await materialise(world, batch) == [0]
    assert await world.pool.fetchval("select count(*) from monitoring_collect_tasks") == 0
