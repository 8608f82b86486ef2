"""Each kind of damage is mended once, told in the audit, and a second run finds nothing (1-dispatch §1.8)."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from uuid import UUID

import asyncpg
import pytest

from domain.hub_port import ClientIdentity
from domain.lanes import Lane
from domain.messages import BatchRef, DatabaseFixes, DatabaseReconciled
from store import batches, leases, reconcile
from store.database import Pool
from store.reconcile import reconcile_database
from tests.support.clicks import rounds, whole
from tests.support.legacy import LegacyHands, legacy_task, number_of, offered
from tests.support.world import Desktop, Lease, World, ago

NOTHING = DatabaseReconciled()


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


@pytest.fixture
async def client(world: World) -> Desktop:
    return await world.client(max_concurrent=4)


async def mended(world: World, **kinds: int) -> None:
    """One run mends exactly this and leaves everything whole; the next run, and the audit, agree."""
    first = await reconcile_database(world.pool)
    assert first == DatabaseReconciled(fixed=DatabaseFixes(**kinds))
    assert await reconcile_database(world.pool) == NOTHING
    assert await audited(world) == {f"reconcile.{kind}": count for kind, count in kinds.items()}
    assert await whole(world)


async def audited(world: World) -> dict[str, int]:
    rows = await world.pool.fetch(
        "select action, count(*) as n from audit_events where actor = 'reconcile' and tenant_id = $1 group by 1",
        world.tenant_id,
    )
    return {row["action"]: row["n"] for row in rows}


async def age(world: World, seconds: float = 61) -> None:
    """As if nothing had been written for so long."""
    moved = f"- interval '{seconds} seconds'"
    await world.pool.execute(f"update monitoring_collect_tasks set updated_at = updated_at {moved}")
    await world.pool.execute(
        f"update desktop_tasks set updated_at = updated_at {moved}, created_at = created_at {moved}"
    )


async def in_request(world: World, client: Desktop, *, status: str = "queued", tasks: int = 1) -> tuple[UUID, Lease]:
    request = await world.request(client_id=client.id, tasks=tasks)
    return request, await world.leased(client, status=status, lane=Lane.HIGH, request_id=request)


# --- held by nothing -----------------------------------------------------------------------------------------


async def over(world: World, lease: Lease) -> None:
    """The execution task ended, and its business task was not told."""
    await world.set("desktop_tasks", lease.task_id, status="aborted", lease_expires_at=None)
    await world.set("desktop_task_attempts", lease.attempt_id, ended_at=datetime.now(UTC), outcome="cancelled")


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


# --- blocked picks and orphans -------------------------------------------------------------------------------


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


async def unwanted(world: World, client: Desktop, **columns: object) -> Lease:
    """An execution task whose business task is finished."""
    lease = await world.leased(client, status="in_progress")
    await world.set("monitoring_collect_tasks", lease.business_id, status="skipped", active_task_id=None)
    await world.set("desktop_tasks", lease.task_id, **columns)
    return lease


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


# --- the legacy path -----------------------------------------------------------------------------------------


async def zombie(world: World, client: Desktop, **columns: object) -> int:
    """A pulled legacy task whose lease ran out unnoticed."""
    pulled = await LegacyHands(world, client).pull_one()
    task = number_of(pulled)
    await world.set("monitoring_collect_tasks", task, lease_expires_at=ago(seconds=1))
    if columns:
        await world.set("monitoring_collect_tasks", task, **columns)
    return task


async def test_a_zombie_lease_of_the_legacy_path_is_cleared(world: World, client: Desktop) -> None:
    task = await zombie(world, client)
    await mended(world, legacy_leases=1)
    row = await world.business(task)
    assert (row["status"], row["leased_to_executor"], row["dispatch_attempts"]) == ("pending", None, 0)


async def test_a_legacy_lease_whose_attempt_is_over_is_cleared_too(world: World, client: Desktop) -> None:
    task = await zombie(world, client)
    await world.pool.execute("update desktop_task_attempts set ended_at = now(), outcome = 'replaced'")
    await mended(world, legacy_leases=1)
    assert (await world.business(task))["status"] == "pending"


async def test_a_legacy_lease_that_runs_is_left_alone(world: World, client: Desktop) -> None:
    await LegacyHands(world, client).pull_one()
    assert await reconcile_database(world.pool) == NOTHING


async def test_advice_to_stop_for_a_request_that_is_over_is_withdrawn(world: World, client: Desktop) -> None:
    task = number_of(await LegacyHands(world, client).pull_one())
    request = await world.request(client_id=client.id, status="succeeded", tasks=0)
    await world.set("monitoring_collect_tasks", task, legacy_interrupt_request_id=request)
    await mended(world, interrupts=1)
    assert (await world.business(task))["legacy_interrupt_request_id"] is None


async def test_legacy_work_bound_for_nobody_goes_to_anybody_but_an_offer_stands(world: World, client: Desktop) -> None:
    bound, standing = await world.business_task(client_id=client.id, owner="legacy"), await legacy_task(world)
    await offered(world, client, standing)
    await mended(world, stray_tasks=1)
    assert (await world.business(bound))["target_client_id"] is None
    assert (await world.business(standing))["target_client_id"] == client.id


# --- ends ----------------------------------------------------------------------------------------------------


async def unknown(world: World, client: Desktop, **columns: object) -> Lease:
    lease = await world.leased(client, status="in_progress")
    await world.set("desktop_tasks", lease.task_id, status="unknown", lease_expires_at=ago(seconds=1))
    await world.set("desktop_tasks", lease.task_id, updated_at=ago(seconds=60), **columns)
    return lease


async def test_an_unknown_task_that_its_online_client_does_not_name_is_retried(world: World, client: Desktop) -> None:
    lease = await unknown(world, client)
    await mended(world, unknown=1)
    task = await world.business(lease.business_id)
    assert (task["dispatch_lane"], task["dispatch_attempts"], task["active_task_id"]) == ("retry", 1, None)


async def test_an_unknown_task_whose_client_is_gone_is_retried_elsewhere(world: World, client: Desktop) -> None:
    lease = await unknown(world, client)
    gone = {"online": False, "last_heartbeat_at": ago(seconds=90), "lost_at": ago(seconds=60)}
    await world.set("desktop_clients", client.id, **gone)
    other = await world.client()
    await mended(world, unknown=1)
    assert await rounds(world.pool) == 1
    active = (await world.business(lease.business_id))["active_task_id"]
    assert (await world.execution(active))["target_client_id"] == other.id


async def test_an_unknown_task_whose_attempts_are_used_up_fails(world: World, client: Desktop) -> None:
    lease = await unknown(world, client)
    await world.set("monitoring_collect_tasks", lease.business_id, dispatch_attempts=2)
    await mended(world, unknown=1)
    assert (await world.business(lease.business_id))["status"] == "failed"


async def test_an_unknown_task_that_its_client_still_names_runs_on(world: World, client: Desktop) -> None:
    lease = await unknown(world, client)
    identity = ClientIdentity(client.id, world.tenant_id)
    await leases.extend(world.pool, leases.LeaseRef(identity, lease.task_id, lease.token))
    assert await reconcile_database(world.pool) == NOTHING
    assert (await world.execution(lease.task_id))["status"] == "in_progress"


async def test_an_unknown_task_of_a_silent_client_waits_until_it_is_lost(world: World, client: Desktop) -> None:
    await unknown(world, client)
    await world.set("desktop_clients", client.id, online=False, last_heartbeat_at=ago(seconds=61))
    assert await reconcile_database(world.pool) == NOTHING


async def test_an_unknown_task_that_was_never_leased_waits_again_uncounted(world: World, client: Desktop) -> None:
    task = await world.business_task()
    execution = await world.execution_task(task, client.id)
    await world.set("desktop_tasks", execution, status="unknown", updated_at=ago(seconds=60))
    await mended(world, unknown=1)
    assert (await world.business(task))["dispatch_attempts"] == 0


async def test_a_result_whose_message_is_gone_is_asked_again(world: World, client: Desktop) -> None:
    lease = await world.leased(client, status="in_progress")
    received = await world.leased(client, status="in_progress")
    await world.set("desktop_tasks", lease.task_id, result_received_at=ago(seconds=901))
    await world.set("desktop_tasks", received.task_id, result_received_at=ago(seconds=60))
    await mended(world, never_ingested=1)
    assert (await world.business(lease.business_id))["dispatch_lane"] == "retry"


# --- what a request left behind ------------------------------------------------------------------------------


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


# --- counters ------------------------------------------------------------------------------------------------


async def test_counters_of_an_open_request_that_differ_are_recounted(world: World) -> None:
    request = await world.request(tasks=7)
    done = await world.business_task(request_id=request, lane=Lane.HIGH)
    await world.business_task(request_id=request, lane=Lane.HIGH)
    await world.set("monitoring_collect_tasks", done, status="failed")
    await mended(world, request_counters=1)
    row = await world.row("monitoring_collect_requests", request)
    assert (row["requested_task_count"], row["failed_task_count"], row["status"]) == (2, 1, "running")


async def test_an_open_request_with_nothing_left_to_do_ends(world: World) -> None:
    request = await world.request(tasks=1)
    task = await world.business_task(request_id=request)
    await world.set("monitoring_collect_tasks", task, status="failed")
    await world.set("monitoring_collect_requests", request, failed_task_count=1)
    await mended(world, request_counters=1)
    assert (await world.row("monitoring_collect_requests", request))["status"] == "failed"
    [told] = await world.outbox("tasks_terminal")
    assert told["key"] == f"collect-now/{request}"


@pytest.mark.parametrize("status", ["running", "paused", "cancelling"])
async def test_counters_of_an_open_batch_that_differ_are_recounted_and_its_workflow_told(
    world: World, status: str
) -> None:
    batch = await world.batch(expected=9, status=status)
    await world.set("monitoring_collect_tasks", await world.business_task(batch_id=batch), status="expired")
    await world.set("monitoring_collect_tasks", await world.business_task(batch_id=batch), status="skipped")
    await mended(world, batch_counters=1)
    row = await world.row("scheduled_batches", batch)
    assert (row["expected_count"], row["expired_count"], row["skipped_count"]) == (2, 1, 1)
    [told] = await world.outbox("progress")
    assert told["payload"] == {"settled": 2, "dispatched": 0, "expected": 2}


async def test_a_finished_request_and_a_finished_batch_are_history(world: World) -> None:
    request, batch = await world.request(tasks=3, status="succeeded"), await world.batch(status="completed")
    assert await reconcile_database(world.pool) == NOTHING
    assert (await world.row("monitoring_collect_requests", request))["requested_task_count"] == 3
    assert (await world.row("scheduled_batches", batch))["expected_count"] == 10


# --- the whole run -------------------------------------------------------------------------------------------


async def test_effects_that_no_pump_took_are_counted_and_the_pumps_woken(world: World, pool: Pool) -> None:
    await pool.execute(
        "insert into outbox (channel, kind, key, payload, created_at, delivered_at) values"
        " ('amqp', 'x', 'y', '{}', now() - interval '2 minutes', null),"
        " ('amqp', 'x', 'y', '{}', now() - interval '2 minutes', now()), ('signal', 'x', 'y', '{}', now(), null)"
    )
    heard: list[str] = []
    async with pool.acquire() as listening:
        for channel in ("giveway_outbox_amqp", "giveway_outbox_signal"):
            await listening.add_listener(channel, lambda *told: heard.append(told[2]))
        assert (await reconcile_database(pool)).found.outbox_waiting == 1
        await listening.execute("select 1")
        assert sorted(heard) == ["giveway_outbox_amqp", "giveway_outbox_signal"]
        await listening.reset()


async def test_all_kinds_at_once_are_mended_by_one_run(world: World, client: Desktop) -> None:
    _, held = await in_request(world, client)
    await over(world, held)
    blocked = await world.leased(client)
    await world.set("monitoring_collect_tasks", blocked.business_id, active_task_id=None)
    await unwanted(world, client, status="queued")
    lost = await world.leased(client, status="in_progress")
    await world.set("desktop_tasks", lost.task_id, result_received_at=ago(seconds=901))
    victim = await world.leased(client, status="in_progress")
    await world.interrupt(victim.task_id, await world.request(generation=9, status="failed", tasks=0), 9)
    await world.business_task(lane=Lane.HIGH)
    request = await world.request(tasks=3)
    await world.business_task(request_id=request, lane=Lane.HIGH)
    batch = await world.batch(expected=5)
    await world.business_task(batch_id=batch)
    await age(world)
    await unknown(world, client)
    await mended(
        world,
        freed_tasks=1,
        blocked_tasks=1,
        orphans=1,
        unknown=1,
        never_ingested=1,
        interrupts=1,
        stray_tasks=1,
        request_counters=1,
        batch_counters=1,
    )


async def test_damage_beyond_one_transaction_is_mended_in_several(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile, "STEP_LIMIT", 2)
    for _ in range(5):
        await world.business_task(lane=Lane.HIGH)
    beats = 0

    def beat() -> None:
        nonlocal beats
        beats += 1

    assert (await reconcile_database(world.pool, beat=beat)).fixed.stray_tasks == 5
    assert beats >= 4


async def test_a_kind_that_meets_an_error_does_not_stop_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_pool: Pool, _limit: int) -> int:
        raise asyncpg.DivisionByZeroError("a test")

    steps = [(kind, broken if kind == "unknown" else step) for kind, step in reconcile.STEPS]
    monkeypatch.setattr(reconcile, "STEPS", steps)
    await world.business_task(lane=Lane.HIGH)
    done = await reconcile_database(world.pool)
    assert (done.found.failed, done.fixed.stray_tasks) == (("unknown",), 1)


async def test_another_tenants_tasks_are_mended_for_that_tenant(world: World) -> None:
    other = await World.create(world.pool, "Other")
    await world.business_task(lane=Lane.HIGH)
    task = await other.business_task(lane=Lane.HIGH)
    await reconcile_database(world.pool)
    rows = await world.pool.fetch("select tenant_id, subject from audit_events order by id")
    assert (other.tenant_id, f"task {task}") in [tuple(row) for row in rows]
    assert {row["tenant_id"] for row in rows} == {world.tenant_id, other.tenant_id}


def test_a_kind_has_one_name_in_steps_and_answer() -> None:
    assert {kind for kind, _ in reconcile.STEPS} == set(DatabaseFixes.model_fields)
