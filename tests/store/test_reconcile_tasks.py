"""Contradictions between tasks are mended once, told in the audit, and never found again (1-dispatch §1.8)."""

from collections.abc import Awaitable, Callable

import pytest

from domain.lanes import Lane
from domain.messages import BatchRef, DatabaseFixes
from store import batches
from store.database import Pool
from store.reconcile import reconcile_database
from tests.support.clicks import rounds
from tests.support.reconciling import NOTHING, age, audited, in_request, mended, over, unwanted
from tests.support.world import Desktop, Lease, World, ago


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


@pytest.fixture
async def client(world: World) -> Desktop:
    return await world.client(max_concurrent=4)


# --- held by nothing --------------------------------------------------------------------------------------------------


async def missing(world: World, lease: Lease) -> None:
    await world.pool.execute("delete from desktop_tasks where id = $1", lease.task_id)


async def anothers(world: World, lease: Lease) -> None:
    """It names a task that is another's: its own is over."""
    await over(world, lease)
    other = await world.leased(await world.client(), platform="doubao")
    await world.set("monitoring_collect_tasks", lease.business_id, active_task_id=other.task_id)


@pytest.mark.parametrize("damage", [over, missing, anothers])
async def test_a_task_held_by_nothing_that_lives_is_dispatched_again(
    world: World, client: Desktop, damage: Callable[[World, Lease], Awaitable[None]]
) -> None:
    request, lease = await in_request(world, client)
    await damage(world, lease)
    assert await reconcile_database(world.pool) == NOTHING, "60 s have not passed"
    await age(world)
    await mended(world, freed_tasks=1)
    task = await world.business(lease.business_id)
    assert (task["status"], task["dispatch_lane"], task["collect_request_id"]) == ("pending", "high", request)
    assert await rounds(world.pool) == 1


async def test_a_waiting_backlog_is_no_damage(world: World, client: Desktop) -> None:
    await world.business_task()
    await world.leased(client)
    await in_request(world, client, status="in_progress")
    await age(world)
    await world.pool.execute("update monitoring_collect_requests set status = 'running'")
    assert await reconcile_database(world.pool) == NOTHING


async def test_a_task_of_a_cancelled_batch_that_is_freed_is_skipped_and_counted_there(
    world: World, client: Desktop
) -> None:
    batch = await world.batch(expected=1, status="cancelling")
    lease = await world.leased(client, batch_id=batch)
    await over(world, lease)
    await age(world)
    await mended(world, freed_tasks=1)
    assert (await world.business(lease.business_id))["status"] == "skipped"
    assert (await world.row("scheduled_batches", batch))["skipped_count"] == 1


async def paused_batch(world: World) -> tuple[int, int]:
    """A paused batch with one waiting task, held."""
    batch = await world.batch(expected=1)
    task = await world.business_task(batch_id=batch)
    await batches.pause_batch(world.pool, BatchRef(batch_id=batch, tenant_id=world.tenant_id))
    assert (await world.business(task))["active_task_id"] is not None
    return batch, task


async def test_what_a_paused_batch_holds_is_no_damage(world: World) -> None:
    await paused_batch(world)
    await age(world)
    assert await reconcile_database(world.pool) == NOTHING


async def test_what_the_pause_of_a_batch_that_goes_on_still_holds_is_let_go(world: World, client: Desktop) -> None:
    await paused_batch(world)
    batch, task = await paused_batch(world)
    await paused_batch(world)
    await world.set("scheduled_batches", batch, status="running")
    await age(world)
    await mended(world, freed_tasks=1)
    assert await rounds(world.pool) == 1
    assert (await world.execution((await world.business(task))["active_task_id"]))["target_client_id"] == client.id


# --- blocked picks and orphans ----------------------------------------------------------------------------------------


async def test_a_pick_that_could_never_be_inserted_is_dispatched(world: World, client: Desktop) -> None:
    lease = await world.leased(client)
    await world.set("monitoring_collect_tasks", lease.business_id, active_task_id=None)
    assert await rounds(world.pool) == 0
    await age(world)
    await mended(world, blocked_tasks=1)
    assert (await world.execution(lease.task_id))["status"] == "aborted"
    [control] = await world.outbox("task_control")
    assert (control["payload"]["task_id"], control["payload"]["control"]) == (str(lease.task_id), "canceled")
    assert await rounds(world.pool) == 1


@pytest.mark.parametrize("status", ["in_progress", "unknown"])
async def test_what_a_desktop_may_be_running_becomes_its_business_tasks_again(
    world: World, client: Desktop, status: str
) -> None:
    lease = await world.leased(client, status="in_progress")
    await world.set("desktop_tasks", lease.task_id, status=status)
    await world.set("monitoring_collect_tasks", lease.business_id, active_task_id=None)
    await world.set("desktop_clients", client.id, last_heartbeat_at=ago(seconds=100), online=False)
    await age(world)
    await mended(world, blocked_tasks=1)
    assert (await world.business(lease.business_id))["active_task_id"] == lease.task_id


@pytest.mark.parametrize("status", ["queued", "in_progress", "unknown"])
async def test_an_execution_task_for_nobody_is_closed_once_nobody_can_be_running_it(
    world: World, client: Desktop, status: str
) -> None:
    lease = await unwanted(world, client, status=status, lease_expires_at=ago(seconds=1), updated_at=ago(seconds=-9))
    await mended(world, orphans=1)
    assert (await world.execution(lease.task_id))["status"] == "aborted"
    assert (await world.attempt(lease.attempt_id))["outcome"] == "cancelled"
    assert [row["payload"]["control"] for row in await world.outbox("task_control")] == ["canceled"]


async def test_an_execution_task_for_nobody_that_may_run_is_reported_once_and_left_alone(
    world: World, client: Desktop
) -> None:
    lease = await unwanted(world, client, status="in_progress")
    for _ in range(2):
        done = await reconcile_database(world.pool)
        assert (done.fixed, done.found.orphans_running) == (DatabaseFixes(), 1)
    assert (await world.execution(lease.task_id))["status"] == "in_progress"
    assert await audited(world) == {"reconcile.orphans_running": 1}


# --- what a request left behind ---------------------------------------------------------------------------------------


async def test_a_high_task_of_no_open_request_returns_to_the_lane_it_came_from(world: World, client: Desktop) -> None:
    request = await world.request(status="timed_out", tasks=2)
    bound = await world.business_task(lane=Lane.HIGH, request_id=request, client_id=client.id)
    unbound = await world.business_task(lane=Lane.HIGH, request_id=request)
    nobodys = await world.business_task(lane=Lane.HIGH)
    await world.set("monitoring_collect_tasks", bound, origin_lane="retry", origin_priority=60)
    await mended(world, stray_tasks=3)
    rows = [await world.business(task) for task in (bound, unbound, nobodys)]
    assert [(row["dispatch_lane"], row["dispatch_priority"]) for row in rows] == [
        ("retry", 60),
        ("normal", 100),
        ("normal", 100),
    ]
    assert (await world.row("monitoring_collect_requests", request))["returned_task_count"] == 2
    assert {(row["target_client_id"], row["collect_request_id"], row["origin_lane"]) for row in rows} == {
        (None, None, None)
    }


async def test_a_high_task_of_an_open_request_stays(world: World, client: Desktop) -> None:
    request = await world.request(client_id=client.id, tasks=2)
    await world.business_task(lane=Lane.HIGH, request_id=request, client_id=client.id)
    await world.business_task(lane=Lane.HIGH, request_id=request)
    assert await reconcile_database(world.pool) == NOTHING


async def test_scheduled_work_bound_to_a_client_for_nobody_goes_to_whoever_is_free(
    world: World, client: Desktop
) -> None:
    task = await world.business_task(client_id=client.id)
    await mended(world, stray_tasks=1)
    assert (await world.business(task))["target_client_id"] is None


async def test_a_stray_task_of_a_cancelled_batch_is_skipped(world: World) -> None:
    batch = await world.batch(expected=1, status="cancelling")
    task = await world.business_task(lane=Lane.HIGH, batch_id=batch)
    await mended(world, stray_tasks=1)
    assert (await world.business(task))["status"] == "skipped"


async def test_an_order_to_stop_for_a_request_that_is_over_is_withdrawn_with_a_newer_generation(
    world: World, client: Desktop
) -> None:
    victim, other = await world.leased(client, status="in_progress"), await world.leased(client, status="in_progress")
    await world.interrupt(victim.task_id, await world.request(generation=5, status="failed", tasks=0), 5)
    request = await world.request(generation=6)
    await world.business_task(lane=Lane.HIGH, request_id=request)
    await world.interrupt(other.task_id, request, 6)
    await mended(world, interrupts=1)
    row = await world.execution(victim.task_id)
    assert (row["interrupt_generation"], row["control_flags"], row["status"]) == (7, {}, "in_progress")
    [control] = await world.outbox("task_control")
    assert (control["payload"]["control"], control["payload"]["interrupt_generation"]) == ("interrupt_withdrawn", 7)
    assert (await world.execution(other.task_id))["control_flags"]["interrupt_requested"]
