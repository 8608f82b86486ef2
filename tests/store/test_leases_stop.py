"""Cancel, interrupt-ack and the end of interrupts: 2-desktop §2.2, dispatch §10.2."""

from uuid import UUID

import pytest

from domain.desktop_calls import CancelCall
from domain.errors import LeaseLost, StaleGeneration
from domain.lanes import Lane
from store import leases, results
from store.database import Pool, transaction
from store.interrupts import resume_batches, settle_interrupts
from tests.support.lease_calls import ack, identity, ref, result
from tests.support.world import Desktop, World


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


async def test_cancel_before_the_start_returns_the_task_and_counts_nothing(world: World) -> None:
    client = await world.client()
    lease = await world.leased(client)
    before = await world.business(lease.business_id)
    call = CancelCall(lease_token=lease.token, reason="queue_full")
    answer = await leases.cancel(world.pool, ref(world, client, lease), call)
    after = await world.business(lease.business_id)
    assert answer.result == "requeued"
    assert (await world.execution(lease.task_id))["status"] == "aborted"
    assert (await world.attempt(lease.attempt_id))["outcome"] == "returned"
    assert (after["status"], after["active_task_id"], after["dispatch_attempts"]) == ("pending", None, 0)
    assert (after["dispatch_lane"], after["enqueued_at"]) == (before["dispatch_lane"], before["enqueued_at"])


async def test_what_only_waits_is_given_back_whatever_the_generation(world: World) -> None:
    """ADR 0055: nothing has run that an order could be about; refused, the task would be nobody's for a while."""
    client = await world.client()
    lease = await world.leased(client)
    await world.set("desktop_tasks", lease.task_id, interrupt_generation=7)
    call = CancelCall(lease_token=lease.token, reason="queue_full")
    assert (await leases.cancel(world.pool, ref(world, client, lease), call)).result == "requeued"
    assert (await world.business(lease.business_id))["active_task_id"] is None


async def test_a_released_token_used_again_changes_nothing(world: World) -> None:
    client = await world.client()
    lease = await world.leased(client)
    call = CancelCall(lease_token=lease.token, reason="queue_full")
    await leases.cancel(world.pool, ref(world, client, lease), call)
    before = await world.execution(lease.task_id), await world.business(lease.business_id)
    for again in (
        leases.cancel(world.pool, ref(world, client, lease), call),
        leases.start(world.pool, ref(world, client, lease)),
        leases.extend(world.pool, ref(world, client, lease)),
        results.find_attempt_for_result(world.pool, identity(world, client), lease.task_id, result(lease)),
    ):
        with pytest.raises(LeaseLost):
            await again
    assert (await world.execution(lease.task_id), await world.business(lease.business_id)) == before


async def test_ack_of_an_interrupt_preempts_and_records_where_it_stopped(world: World) -> None:
    client = await world.client()
    batch = await world.batch()
    victim = await world.leased(client, status="in_progress", batch_id=batch)
    request = await world.request(client_id=client.id, generation=7)
    await world.interrupt(victim.task_id, request, 7)
    answer = await leases.acknowledge_interrupt(world.pool, identity(world, client), victim.task_id, ack(victim, 7))
    row, attempt = await world.execution(victim.task_id), await world.attempt(victim.attempt_id)
    business = await world.business(victim.business_id)
    assert answer.result == "preempted"
    assert (row["status"], row["interrupt_reason"], row["safe_point"]) == (
        "aborted",
        "collect_now_preempt",
        "before_input",
    )
    assert (attempt["outcome"], attempt["safe_point_interval_ms"]) == ("preempted", 1234.5)
    assert attempt["phase_times"] == {"PREPARING": 10, "NAVIGATING": 20}
    assert (business["active_task_id"], business["dispatch_attempts"], business["preemptions"]) == (None, 0, 1)
    assert (business["dispatch_lane"], business["status"]) == ("normal", "pending")


async def test_cancel_after_an_interrupt_preempts_too(world: World) -> None:
    client = await world.client()
    victim = await world.leased(client, status="in_progress")
    await world.interrupt(victim.task_id, await world.request(client_id=client.id, generation=2), 2)
    call = CancelCall(lease_token=victim.token, reason="collect_now_preempt", interrupt_generation=2)
    assert (await leases.cancel(world.pool, ref(world, client, victim), call)).result == "preempted"


async def test_a_desktop_that_gives_up_without_an_order_returns_the_task_uncounted(world: World) -> None:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    call = CancelCall(lease_token=lease.token, reason="browser_crashed")
    answer = await leases.cancel(world.pool, ref(world, client, lease), call)
    business = await world.business(lease.business_id)
    assert answer.result == "requeued"
    assert (business["active_task_id"], business["dispatch_attempts"], business["preemptions"]) == (None, 0, 0)
    assert (await world.attempt(lease.attempt_id))["error"] == "browser_crashed"


async def test_a_stale_callback_is_recorded_not_applied_and_the_order_sent_again(world: World) -> None:
    client = await world.client()
    victim = await world.leased(client, status="in_progress")
    await world.interrupt(victim.task_id, await world.request(client_id=client.id, generation=8), 8)
    before = await world.execution(victim.task_id)
    with pytest.raises(StaleGeneration):
        await leases.acknowledge_interrupt(world.pool, identity(world, client), victim.task_id, ack(victim, 7))
    [audit] = await world.pool.fetch("select * from audit_events where action = 'stale_callback'")
    [order] = await world.outbox("task_control")
    assert await world.execution(victim.task_id) == before
    assert audit["detail"] == {"generation": 7, "current_generation": 8, "reason": "collect_now_preempt"}
    assert (order["payload"]["control"], order["payload"]["interrupt_generation"]) == ("interrupt_requested", 8)
    assert (order["payload"]["reason"], order["key"]) == ("collect_now_preempt", f"monitor.normal.{client.id}")


async def test_a_late_stop_of_an_adopted_task_is_stale_and_answered_with_the_withdrawal(world: World) -> None:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    await world.set("desktop_tasks", lease.task_id, interrupt_generation=9, source="collect_now")
    with pytest.raises(StaleGeneration):
        await leases.acknowledge_interrupt(world.pool, identity(world, client), lease.task_id, ack(lease, 8))
    [order] = await world.outbox("task_control")
    assert order["payload"]["control"] == "interrupt_withdrawn"


async def test_ack_without_a_token_for_work_that_ended_is_already_settled(world: World) -> None:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    await world.set("desktop_tasks", lease.task_id, status="succeeded")
    answer = await leases.acknowledge_interrupt(world.pool, identity(world, client), lease.task_id, ack(None, 3))
    assert answer.result == "already_settled"


async def test_ack_without_a_token_frees_the_slot_of_a_victim_the_desktop_no_longer_runs(world: World) -> None:
    client = await world.client()
    victim = await world.leased(client, status="in_progress")
    request = await world.request(client_id=client.id, generation=3)
    await world.interrupt(victim.task_id, request, 3)
    answer = await leases.acknowledge_interrupt(world.pool, identity(world, client), victim.task_id, ack(None, 3))
    assert answer.result == "already_settled"
    assert (await world.execution(victim.task_id))["status"] == "aborted"
    assert (await world.row("monitoring_collect_requests", request))["interrupt_settled_count"] == 1


async def test_ack_without_a_token_leaves_uninterrupted_work_alone(world: World) -> None:
    client = await world.client()
    running = await world.leased(client, status="in_progress")
    await leases.acknowledge_interrupt(world.pool, identity(world, client), running.task_id, ack(None, 3))
    assert (await world.execution(running.task_id))["status"] == "in_progress"


# --- interrupts and batches ----------------------------------------------------------------------------------


async def test_each_victim_that_stops_signals_the_totals_of_its_generation(world: World) -> None:
    client = await world.client()
    victims = [await world.leased(client, status="in_progress", platform=name) for name in ("qwen", "kimi")]
    request = await world.request(client_id=client.id, generation=5)
    for victim in victims:
        await world.interrupt(victim.task_id, request, 5)
    for victim in victims:
        await leases.acknowledge_interrupt(world.pool, identity(world, client), victim.task_id, ack(victim, 5))
    signals = await world.outbox("interrupt_settled")
    assert [row["key"] for row in signals] == [f"collect-now/{request}"] * 2
    assert [(row["payload"]["settled"], row["payload"]["outstanding"]) for row in signals] == [(1, 1), (2, 0)]
    assert (await world.row("monitoring_collect_requests", request))["interrupt_settled_count"] == 2


async def test_an_interrupt_settles_once(world: World) -> None:
    client = await world.client()
    victim = await world.leased(client, status="in_progress")
    request = await world.request(client_id=client.id, generation=5)
    await world.interrupt(victim.task_id, request, 5)
    counts = []
    for _ in range(2):
        async with transaction(world.pool) as connection:
            counts.append(await settle_interrupts(connection, [victim.task_id]))
    assert counts == [1, 0]
    assert len(await world.outbox("interrupt_settled")) == 1


async def _yielded(world: World, client: Desktop, batch: int, request: UUID, generation: int) -> None:
    await world.pool.execute(
        "insert into batch_yields (batch_id, client_id, tenant_id, generation, request_id, task_count)"
        " values ($1, $2, $3, $4, $5, 1)",
        batch, client.id, world.tenant_id, generation, request,
    )  # fmt: skip


async def test_batches_resume_when_the_clients_last_high_task_is_gone(world: World) -> None:
    client = await world.client()
    batch, request = await world.batch(), await world.request(client_id=client.id, generation=5)
    await _yielded(world, client, batch, request, 5)
    high = [await world.leased(client, lane=Lane.HIGH, request_id=request) for _ in range(2)]
    for lease in high:
        assert await world.outbox("resumed") == []
        await leases.cancel(
            world.pool, ref(world, client, lease), CancelCall(lease_token=lease.token, reason="stopped")
        )  # fmt: skip
        await world.set("monitoring_collect_tasks", lease.business_id, target_client_id=None)
    async with transaction(world.pool) as connection:
        assert await resume_batches(connection) == 1
        assert await resume_batches(connection) == 0
    [signal] = await world.outbox("resumed")
    assert signal["payload"] == {"client_id": str(client.id), "generation": 5}
    assert signal["key"] == (await world.row("scheduled_batches", batch))["workflow_id"]
