"""A paused batch dispatches nothing new, whatever comes back to it, and goes on as it was (1-dispatch §1.6)."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from domain.lanes import Lane
from domain.messages import BatchCounters, RequestRef
from store import batches, requests
from store.catalog import Reach, change_question
from store.database import Pool, transaction
from store.releases import Release, lock_executions, release
from tests.support.batches import Effect, materialise, planned, ref, rows_of, tasks_of, twice, with_tasks
from tests.support.clicks import Hands, accepted, finish, lanes_of, rounds, whole
from tests.support.world import Desktop, Lease, World


@pytest.fixture
async def world(pool: Pool) -> World:
    """A tenant with nothing planned."""
    return await World.create(pool)


@pytest.fixture
async def client(world: World) -> Desktop:
    """A desktop that is online."""
    return await world.client()


async def held(world: World, batch: int) -> list[bool]:
    """Of each unfinished task of the batch, by id."""
    return [row["held"] for row in await tasks_of(world, batch) if row["status"] == "pending"]


async def blocked(pool: Pool) -> bool:
    """Whether some statement waits for a lock."""
    query = (
        "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')"
    )
    found: bool = await pool.fetchval(query)
    return found


async def until_blocked(pool: Pool, order: asyncio.Task[BatchCounters]) -> None:
    """Until the order waits for somebody's lock, which it must."""
    while not await blocked(pool):
        assert not order.done(), "it did not wait for whoever has the task"
        await asyncio.sleep(0.01)


async def test_what_waits_is_held_also_from_a_desktops_queue_and_what_runs_finishes(
    world: World, client: Desktop
) -> None:
    batch = await world.batch(expected=4)
    running = await world.leased(client, status="in_progress", batch_id=batch)
    queued = await world.leased(client, platform="doubao", batch_id=batch)
    for platform in ("kimi", "openai"):
        await world.business_task(platform=platform, batch_id=batch)
    counters = await twice(world, batches.pause_batch, ref(world, batch))
    assert (counters.status, counters.touched, counters.held, counters.running) == ("paused", 3, 3, 1)
    assert (await world.execution(queued.task_id))["status"] == "aborted"
    [control] = await world.outbox("task_control")
    assert (control["payload"]["control"], control["payload"]["task_id"]) == ("canceled", str(queued.task_id))
    assert await rounds(world.pool) == 0
    await finish(world, running.attempt_id)
    counters = await batches.read_batch(world.pool, ref(world, batch))
    assert (counters.completed, counters.held, counters.running) == (1, 3, 0)
    assert await whole(world)


async def test_a_resume_restores_lane_priority_and_age(world: World, client: Desktop) -> None:
    batch = await world.batch(expected=3)
    lanes = (Lane.NORMAL_BOOSTED, Lane.NORMAL, Lane.RETRY)
    tasks = [await world.business_task(lane=lane, batch_id=batch) for lane in lanes]
    await world.set("monitoring_collect_tasks", tasks[0], dispatch_priority=1234)
    columns = ("dispatch_lane", "dispatch_priority", "enqueued_at", "dispatch_attempts")
    before = [[row[name] for name in columns] for row in await tasks_of(world, batch)]
    await batches.pause_batch(world.pool, ref(world, batch))
    counters = await twice(world, batches.resume_batch, ref(world, batch))
    assert (counters.status, counters.touched, counters.held) == ("running", 3, 0)
    assert [[row[name] for name in columns] for row in await tasks_of(world, batch)] == before
    assert await rounds(world.pool) > 0


async def fails(world: World, lease: Lease) -> None:
    await finish(world, lease.attempt_id, succeeded=False)


async def is_given_back(world: World, lease: Lease) -> None:
    async with transaction(world.pool) as connection:
        await lock_executions(connection, [lease.task_id])
        await release(connection, [lease.task_id], Release.PREEMPTED)


Undo = Callable[[World, Lease], Awaitable[None]]


@pytest.mark.parametrize("undo", [fails, is_given_back])
async def test_what_comes_back_undone_to_a_paused_batch_is_held(world: World, client: Desktop, undo: Undo) -> None:
    batch = await world.batch(expected=1)
    lease = await world.leased(client, status="in_progress", batch_id=batch)
    await batches.pause_batch(world.pool, ref(world, batch))
    await undo(world, lease)
    assert await held(world, batch) == [True]
    assert await rounds(world.pool) == 0
    assert await whole(world)
    await batches.resume_batch(world.pool, ref(world, batch))
    assert await rounds(world.pool) == 1


async def test_a_task_that_is_just_coming_back_is_seen_by_the_pause_or_by_whoever_brings_it(
    world: World, client: Desktop
) -> None:
    batch = await world.batch(expected=1)
    lease = await world.leased(client, status="in_progress", batch_id=batch)
    async with transaction(world.pool) as connection:
        await lock_executions(connection, [lease.task_id])
        await release(connection, [lease.task_id], Release.RETURNED)
        pausing = asyncio.create_task(batches.pause_batch(world.pool, ref(world, batch)))
        await until_blocked(world.pool, pausing)
    assert (await pausing).held == 1
    assert await held(world, batch) == [True]
    assert await whole(world)


async def test_a_task_that_is_just_being_held_is_let_go_by_the_resume(world: World, client: Desktop) -> None:
    batch = await world.batch(expected=1)
    lease = await world.leased(client, status="in_progress", batch_id=batch)
    await batches.pause_batch(world.pool, ref(world, batch))
    async with transaction(world.pool) as connection:
        await lock_executions(connection, [lease.task_id])
        await release(connection, [lease.task_id], Release.RETURNED)
        resuming = asyncio.create_task(batches.resume_batch(world.pool, ref(world, batch)))
        await until_blocked(world.pool, resuming)
    assert (await resuming).held == 0
    assert await held(world, batch) == [False]
    assert await whole(world)


async def test_a_live_requests_task_goes_on_and_is_held_when_it_comes_back(world: World, client: Desktop) -> None:
    batch = await world.batch(expected=2)
    request = await world.request(client_id=client.id)
    await world.business_task(lane=Lane.HIGH, batch_id=batch, request_id=request, client_id=client.id)
    await world.business_task(batch_id=batch, platform="kimi")
    assert (await batches.pause_batch(world.pool, ref(world, batch))).held == 1
    assert await held(world, batch) == [False, True]
    assert await rounds(world.pool) == 1
    await requests.cancel_request(world.pool, RequestRef(request_id=request, tenant_id=world.tenant_id))
    assert await held(world, batch) == [True, True]
    assert await rounds(world.pool) == 0
    assert await whole(world)


async def test_a_click_on_a_paused_batchs_tasks_is_served(world: World, client: Desktop) -> None:
    batch = await with_tasks(world, 2)
    await batches.pause_batch(world.pool, ref(world, batch))
    first = (await tasks_of(world, batch))[0]
    answer = await accepted(world, question_ids=[first["question_id"]])
    assert (answer.promoted_task_count, await held(world, batch)) == (1, [False, True])
    assert await lanes_of(world, answer.request_id) == {"high": 1}
    assert await rounds(world.pool) == 1
    [frame] = await Hands(world, client).take()
    await Hands(world, client).run(frame)
    assert (await world.row("monitoring_collect_requests", answer.request_id))["status"] == "succeeded"
    counters = await batches.read_batch(world.pool, ref(world, batch))
    assert (counters.status, counters.completed, counters.held) == ("paused", 1, 1)
    assert (await tasks_of(world, batch))[0]["enqueued_at"] == first["enqueued_at"]
    assert await whole(world)


async def test_tasks_that_are_made_during_the_pause_are_held(world: World, client: Desktop) -> None:
    batch = await planned(world, 3, ("qwen",))
    answer = await accepted(world, question_ids=[(await world.question()).id])
    await requests.cancel_request(world.pool, RequestRef(request_id=answer.request_id, tenant_id=world.tenant_id))
    await batches.pause_batch(world.pool, ref(world, batch))
    assert await materialise(world, batch) == [3, 0]
    assert await held(world, batch) == [True] * 4
    counters = await batches.read_batch(world.pool, ref(world, batch))
    assert (counters.status, counters.expected, counters.held) == ("paused", 4, 4)
    assert await rounds(world.pool) == 0
    await batches.resume_batch(world.pool, ref(world, batch))
    assert await held(world, batch) == [False] * 4
    assert await whole(world)


async def test_a_new_text_reaches_what_is_held_and_what_is_asked_again(world: World, client: Desktop) -> None:
    batch = await with_tasks(world, 2)
    await rounds(world.pool)
    [frame] = await Hands(world, client).take()
    await Hands(world, client).run(frame)
    await batches.pause_batch(world.pool, ref(world, batch))
    reach = Reach(world.tenant_id, (world.workspace_id,))
    versions = [
        (await change_question(world.pool, reach, row["question_id"], {"text": f"anew {row['id']}"}))[
            "current_version_id"
        ]
        for row in await tasks_of(world, batch)
    ]
    assert await held(world, batch) == [True, True]
    await batches.resume_batch(world.pool, ref(world, batch))
    assert [row["question_version_id"] for row in await tasks_of(world, batch)] == versions
    assert await whole(world)


@pytest.mark.parametrize(
    ("end", "status", "settled"),
    [(batches.expire_batch, "paused", "expired"), (batches.cancel_batch, "cancelling", "skipped")],
)
async def test_the_end_of_a_paused_batch_settles_what_is_held(
    world: World, end: Effect, status: str, settled: str
) -> None:
    batch = await with_tasks(world, 3)
    await batches.pause_batch(world.pool, ref(world, batch))
    counters = await twice(world, end, ref(world, batch))
    assert (counters.status, getattr(counters, settled), counters.held) == (status, 3, 0)
    assert {row["active_task_id"] for row in await tasks_of(world, batch)} == {None}


@pytest.mark.parametrize("status", ["completed", "cancelling", "cancelled"])
async def test_a_batch_that_is_over_takes_no_orders(world: World, client: Desktop, status: str) -> None:
    batch = await world.batch(expected=0, status=status)
    await world.leased(client, batch_id=batch)
    before = await rows_of(world)
    for effect in (batches.pause_batch, batches.resume_batch):
        assert (await effect(world.pool, ref(world, batch))).status == status
    assert await rows_of(world) == before


async def test_orders_are_carried_out_page_by_page_and_audited_once(
    world: World, client: Desktop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "PAGE", 2)
    batch = await with_tasks(world, 5)
    for effect in (batches.pause_batch, batches.resume_batch, batches.cancel_batch):
        counters = await twice(world, effect, ref(world, batch, actor="user 7"))
        assert counters.touched == 5
    audited = await world.pool.fetch("select actor, action, subject from audit_events order by id")
    actions = ["batch_paused", "batch_resumed", "batch_cancelled"]
    assert [tuple(row) for row in audited] == [("user 7", action, f"batch {batch}") for action in actions]


async def test_a_page_of_the_pause_that_comes_after_the_resume_holds_nothing(world: World) -> None:
    batch = await with_tasks(world, 2)
    await batches.pause_batch(world.pool, ref(world, batch))
    await batches.resume_batch(world.pool, ref(world, batch))
    ids = [row["id"] for row in await tasks_of(world, batch)]
    assert await world.pool.fetch(batches.SQL["hold_waiting"], batch, ids) == []
    await world.pool.execute("update scheduled_batches set status = 'paused' where id = $1", batch)
    assert len(await world.pool.fetch(batches.SQL["hold_waiting"], batch, ids)) == 2


_CLAIM_INDEXES = """
select c.relname as name, pg_get_expr(i.indpred, i.indrelid) as predicate
from pg_index i join pg_class c on c.oid = i.indexrelid
where i.indrelid = 'monitoring_collect_tasks'::regclass
  and pg_get_expr(i.indpred, i.indrelid) like '%active_task_id IS NULL%'
"""


async def test_what_is_held_is_in_no_index_that_a_round_looks_for_work_in(world: World) -> None:
    batch = await with_tasks(world, 3)
    found = await world.pool.fetch(_CLAIM_INDEXES)
    assert {"collect_tasks_claim", "collect_tasks_claim_bound"} <= {row["name"] for row in found}

    async def entries() -> dict[str, int]:
        query = "select count(*)::int from monitoring_collect_tasks where "
        return {row["name"]: await world.pool.fetchval(query + row["predicate"]) for row in found}

    assert (await entries())["collect_tasks_claim"] == 3
    await batches.pause_batch(world.pool, ref(world, batch))
    assert set((await entries()).values()) == {0}
