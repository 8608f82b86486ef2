"""Due plans become batches once; tasks are created once; a batch ends with true counters (1-dispatch §1.6)."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import asyncpg
import pytest

from domain.lanes import Lane
from domain.messages import BatchCounters, BatchRef, MaterialiseChunk
from store import batches
from store.database import Pool
from tests.support.clicks import Hands, accepted, click, finish, rounds, whole
from tests.support.world import BUSINESS_DATE, Desktop, World, ago

SHANGHAI = ZoneInfo("Asia/Shanghai")
Effect = Callable[[Pool, BatchRef], Awaitable[BatchCounters]]


@pytest.fixture
async def world(pool: Pool) -> World:
    """A tenant without plans."""
    return await World.create(pool)


def local(*parts: int) -> datetime:
    """A wall time in Shanghai."""
    return datetime(*parts, tzinfo=SHANGHAI)  # type: ignore[misc, arg-type]


def plan_row(**more: Any) -> Any:
    """A due plan as `claim_due_plans` returns it; daily at 06:00 in Shanghai unless told."""
    given = {
        "id": 7,
        "cadence_kind": "cron",
        "cadence": "0 6 * * *",
        "time_zone": "Asia/Shanghai",
        "business_date_rule": "today",
        "next_run_at": local(2026, 4, 20, 6, 0),
    }
    return {**given, **more}


@pytest.mark.parametrize(
    ("rule", "cadence", "at", "day", "cut_off"),
    [
        ("today", "0 6 * * *", (6, 0), date(2026, 4, 20), local(2026, 4, 21, 0, 0)),
        ("today", "30 23 * * *", (23, 30), date(2026, 4, 20), local(2026, 4, 21, 0, 0)),
        ("previous_day", "0 1 * * *", (1, 0), date(2026, 4, 19), local(2026, 4, 20, 6, 10)),
        ("previous_day", "0 7 * * *", (7, 0), date(2026, 4, 19), local(2026, 4, 21, 0, 0)),
    ],
)
def test_business_date_and_cut_off_follow_the_plans_rule_in_its_zone(
    rule: str, cadence: str, at: tuple[int, int], day: date, cut_off: datetime
) -> None:
    due = local(2026, 4, 20, *at)
    plan = plan_row(business_date_rule=rule, cadence=cadence, next_run_at=due)
    claimed = batches.slot_of(plan, due + timedelta(seconds=3))
    assert (claimed.business_date, claimed.cut_off_at, claimed.scheduled_for) == (day, cut_off, due)
    assert (claimed.slot, claimed.skipped) == (f"p7-{at[0]:02}{at[1]:02}00", 0)


def test_a_missed_schedule_catches_up_once_and_says_how_many_slots_it_skipped() -> None:
    claimed = batches.slot_of(plan_row(cadence="0 * * * *"), local(2026, 4, 20, 9, 59))
    assert (claimed.scheduled_for, claimed.skipped) == (local(2026, 4, 20, 9, 0), 3)


async def due_plans(world: World, number: int) -> list[int]:
    return [await world.plan(next_run_at=ago(minutes=5)) for _ in range(number)]


async def test_scans_at_once_plan_each_batch_once(world: World) -> None:
    plans = await due_plans(world, 12)
    claimed = await asyncio.gather(*(batches.claim_due_plans(world.pool, limit=5) for _ in range(3)))
    assert sum(claimed) == 12
    rows = await world.pool.fetch("select plan_id, status from scheduled_batches order by plan_id")
    assert [tuple(row) for row in rows] == [(plan, "planned") for plan in plans]
    assert await world.pool.fetchval("select count(*) from monitoring_plans where next_run_at <= now()") == 0
    assert await batches.claim_due_plans(world.pool) == 0


async def test_a_scan_does_not_wait_for_a_plan_that_another_holds(world: World) -> None:
    held, free = await due_plans(world, 2)
    async with world.pool.acquire() as other, other.transaction():
        await other.execute("select id from monitoring_plans where id = $1 for update", held)
        assert await asyncio.wait_for(batches.claim_due_plans(world.pool), 5) == 1
    assert [row["plan_id"] for row in await world.pool.fetch("select plan_id from scheduled_batches")] == [free]


async def test_a_scan_goes_on_past_one_transactions_worth(world: World) -> None:
    await due_plans(world, 7)
    assert await batches.claim_due_plans(world.pool, limit=3) == 7


async def test_a_cadence_that_cannot_be_read_does_not_stop_the_others(world: World) -> None:
    broken, good = await due_plans(world, 2)
    await world.set("monitoring_plans", broken, cadence="every day or so")
    await batches.claim_due_plans(world.pool)
    rows = await world.pool.fetch("select plan_id from scheduled_batches")
    assert [row["plan_id"] for row in rows] == [good]
    assert (await world.row("monitoring_plans", broken))["next_run_at"] is None


async def test_the_same_slot_claimed_again_is_one_batch(world: World) -> None:
    [plan] = await due_plans(world, 1)
    await batches.claim_due_plans(world.pool)
    first = await batches.find_planned(world.pool)
    scheduled_for = await world.pool.fetchval("select scheduled_for from scheduled_batches")
    await world.set("monitoring_plans", plan, next_run_at=scheduled_for)
    await batches.claim_due_plans(world.pool)
    assert await batches.find_planned(world.pool) == first
    assert len(first) == 1


async def planned(world: World, questions: int = 5, platforms: tuple[str, ...] = ("qwen", "doubao")) -> int:
    """A planned batch over new questions; returns it."""
    for _ in range(questions):
        await world.question()
    plan = await world.plan(platforms=platforms)
    batch: int = await world.pool.fetchval(
        "insert into scheduled_batches (tenant_id, brand_id, plan_id, business_date, slot, run_mode, collector_type,"
        " workflow_id, scheduled_for, cut_off_at) select $1, $2, $3, (now() at time zone 'Asia/Shanghai')::date,"
        " 's' || $3::bigint,"
        " 'api_standard', 'desktop', 'batch/' || $3::bigint, now(), now() + interval '6 hours' returning id",
        world.tenant_id, world.brand_id, plan,
    )  # fmt: skip
    return batch


async def materialise(world: World, batch: int, size: int = 4) -> list[int]:
    """Every chunk; returns how many each created."""
    created, offset, done = [], 0, False
    while not done:
        chunk = MaterialiseChunk(batch_id=batch, tenant_id=world.tenant_id, offset=offset, size=size)
        answer = await batches.materialise(world.pool, chunk)
        created.append(answer.created)
        offset, done = answer.next_offset, answer.done
    return created


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
    first = await batches.materialise(world.pool, chunk)
    again = await batches.materialise(world.pool, chunk)
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


async def test_planned_batches_are_found_page_by_page(world: World) -> None:
    made = [await world.batch(status="planned") for _ in range(5)]
    found, last = [], 0
    while page := await batches.find_planned(world.pool, last, limit=2):
        assert len(page) <= 2
        found += [start.batch_id for start, _ in page]
        last = found[-1]
    assert found == made


async def test_a_question_without_a_text_does_not_stop_the_batch(world: World) -> None:
    batch = await planned(world, 2, ("qwen",))
    await world.pool.execute(
        "insert into questions (tenant_id, brand_id, text) values ($1, $2, 'half made')",
        world.tenant_id,
        world.brand_id,
    )
    assert await materialise(world, batch) == [2]


def ref(world: World, batch: int, **more: Any) -> BatchRef:
    return BatchRef(batch_id=batch, tenant_id=world.tenant_id, **more)


async def rows_of(world: World) -> list[list[asyncpg.Record]]:
    tables = ("scheduled_batches", "monitoring_collect_tasks", "desktop_tasks", "outbox", "projection_rebuild_queue")
    return [await world.pool.fetch(f"select * from {table} order by 1") for table in tables]


async def twice(world: World, effect: Effect, given: BatchRef) -> BatchCounters:
    """Apply the effect; the second time must change nothing."""
    first = await effect(world.pool, given)
    before = await rows_of(world)
    again = await effect(world.pool, given)
    assert again.touched == 0
    assert await rows_of(world) == before
    assert await whole(world)
    return first


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


@pytest.mark.parametrize("status", ["succeeded", "timed_out"])
async def test_a_task_whose_request_is_over_is_settled_like_the_others(scene: Scene, status: str) -> None:
    await scene.world.pool.execute("update monitoring_collect_requests set status = $1, finished_at = now()", status)
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
    await world.pool.execute("update monitoring_collect_requests set status = 'failed'")
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
