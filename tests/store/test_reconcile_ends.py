"""Leases and results whose end is certain, on both paths (1-dispatch §1.8)."""

import pytest

from domain.hub_port import ClientIdentity
from store import leases
from store.database import Pool
from store.reconcile import reconcile_database
from tests.support.clicks import rounds
from tests.support.legacy import LegacyHands, legacy_task, number_of, offered
from tests.support.reconciling import NOTHING, mended, unknown
from tests.support.world import Desktop, World, ago


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


@pytest.fixture
async def client(world: World) -> Desktop:
    return await world.client(max_concurrent=4)


# --- the legacy path --------------------------------------------------------------------------------------------------


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


# --- ends -------------------------------------------------------------------------------------------------------------


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
