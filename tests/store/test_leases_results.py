"""A result on its way: 2-desktop §2.2."""

import pytest

from domain.errors import LeaseLost
from store import leases, results
from store.database import Pool
from tests.support.lease_calls import identity, ref, result
from tests.support.world import Desktop, Lease, World, ago


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


async def _target(world: World, client: Desktop, lease: Lease, outcome: str = "succeeded") -> results.ResultTarget:
    return await results.find_attempt_for_result(
        world.pool, identity(world, client), lease.task_id, result(lease, outcome)
    )  # fmt: skip


async def _take_away(world: World, lease: Lease, outcome: str) -> None:
    await world.set("desktop_tasks", lease.task_id, status="failed")
    await world.set("desktop_task_attempts", lease.attempt_id, ended_at=ago(seconds=1), outcome=outcome)
    await world.set("monitoring_collect_tasks", lease.business_id, active_task_id=None)


async def test_a_received_result_ends_the_lease_and_settles_the_interrupt(world: World) -> None:
    client = await world.client()
    victim = await world.leased(client, status="in_progress")
    request = await world.request(client_id=client.id, generation=5)
    await world.interrupt(victim.task_id, request, 5)
    target = await _target(world, client, victim)
    assert target.monitor_task_id == victim.business_id
    assert await results.mark_result_received(world.pool, target, {"WAITING": 1500.0})
    assert (await world.execution(victim.task_id))["result_received_at"] is not None
    assert (await world.attempt(victim.attempt_id))["phase_times"] == {"WAITING": 1500.0}
    assert (await world.row("monitoring_collect_requests", request))["interrupt_settled_count"] == 1
    with pytest.raises(LeaseLost):
        await leases.extend(world.pool, ref(world, client, victim))


async def test_a_result_brings_the_longest_wait_between_two_safe_points(world: World) -> None:
    """For the weekly tuning: work that nobody interrupted is measured too."""
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    target = await _target(world, client, lease)
    await results.mark_result_received(world.pool, target, {}, 8250.0)
    assert (await world.attempt(lease.attempt_id))["safe_point_interval_ms"] == 8250.0


async def test_a_result_sent_again_is_a_duplicate(world: World) -> None:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    first = await _target(world, client, lease)
    assert await results.mark_result_received(world.pool, first, {})
    assert (await _target(world, client, lease)).duplicate
    assert not await results.mark_result_received(world.pool, first, {})


async def test_a_result_of_a_task_never_started_is_refused(world: World) -> None:
    client = await world.client()
    lease = await world.leased(client)
    with pytest.raises(LeaseLost):
        await _target(world, client, lease)


async def test_a_result_under_another_attempts_id_is_refused(world: World) -> None:
    client = await world.client()
    mine, other = await world.leased(client, status="in_progress"), await world.leased(client, status="in_progress")
    forged = result(mine).model_copy(update={"attempt_id": other.attempt_id})
    with pytest.raises(LeaseLost):
        await results.find_attempt_for_result(world.pool, identity(world, client), mine.task_id, forged)


@pytest.mark.parametrize("outcome", ["preempted", "returned", "cancelled", "failed"])
async def test_a_success_of_work_that_was_given_up_is_refused(world: World, outcome: str) -> None:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    await _take_away(world, lease, outcome)
    with pytest.raises(LeaseLost):
        await _target(world, client, lease)


@pytest.mark.parametrize("outcome", ["revoked", "lease_expired"])
async def test_a_success_after_the_lease_was_taken_away_is_taken(world: World, outcome: str) -> None:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    await _take_away(world, lease, outcome)
    assert not (await _target(world, client, lease)).duplicate


async def test_a_failure_after_the_lease_was_taken_away_is_not(world: World) -> None:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    await _take_away(world, lease, "lease_expired")
    with pytest.raises(LeaseLost):
        await _target(world, client, lease, "failed")


async def test_a_late_success_is_refused_once_the_business_task_is_terminal(world: World) -> None:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    await _take_away(world, lease, "revoked")
    await world.set("monitoring_collect_tasks", lease.business_id, status="completed")
    with pytest.raises(LeaseLost):
        await _target(world, client, lease)


@pytest.mark.parametrize("adopted", [True, False])
async def test_a_late_success_from_before_the_accept_counts_only_if_adopted(world: World, adopted: bool) -> None:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    await _take_away(world, lease, "revoked")
    request = await world.request(client_id=client.id)
    await world.set("monitoring_collect_tasks", lease.business_id, collect_request_id=request)
    if adopted:
        await world.set("desktop_tasks", lease.task_id, source="collect_now")
        assert not (await _target(world, client, lease)).duplicate
    else:
        with pytest.raises(LeaseLost):
            await _target(world, client, lease)


async def test_marking_after_ingest_was_faster_reopens_nothing(world: World) -> None:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    target = await _target(world, client, lease)
    await world.set("desktop_tasks", lease.task_id, status="succeeded")
    await results.mark_result_received(world.pool, target, {})
    assert (await world.execution(lease.task_id))["status"] == "succeeded"
