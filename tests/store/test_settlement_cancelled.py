"""What comes back undone to a cancelled batch is skipped, not dispatched again (1-dispatch §1.6)."""

from collections.abc import Awaitable, Callable

import pytest

from domain.lanes import Lane
from domain.messages import BatchRef, RequestRef
from store import batches, requests
from store.database import Pool, transaction
from store.releases import Release, lock_executions, release
from tests.support.clicks import finish, rounds, whole
from tests.support.world import Lease, World

Undo = Callable[[World, Lease], Awaitable[None]]


@pytest.fixture
async def world(pool: Pool) -> World:
    """A tenant with nothing planned."""
    return await World.create(pool)


async def fails(world: World, lease: Lease) -> None:
    await finish(world, lease.attempt_id, succeeded=False)


async def is_given_back(world: World, lease: Lease) -> None:
    async with transaction(world.pool) as connection:
        await lock_executions(connection, [lease.task_id])
        await release(connection, [lease.task_id], Release.RETURNED)


def ref(world: World, batch: int) -> BatchRef:
    return BatchRef(batch_id=batch, tenant_id=world.tenant_id)


async def settled(world: World, batch: int) -> bool:
    """Nothing is dispatched again and the batch ends cancelled, its one task skipped."""
    assert await rounds(world.pool) == 0
    counters = await batches.finish_batch(world.pool, ref(world, batch))
    assert (counters.status, counters.skipped, counters.expected) == ("cancelled", 1, 1)
    [task] = await world.pool.fetch("select status, skip_reason from monitoring_collect_tasks")
    assert tuple(task) == ("skipped", "batch_cancelled")
    return await whole(world)


@pytest.mark.parametrize("undo", [fails, is_given_back])
async def test_what_ran_when_its_batch_was_cancelled_is_not_asked_again(world: World, undo: Undo) -> None:
    batch = await world.batch(expected=1)
    lease = await world.leased(await world.client(), status="in_progress", batch_id=batch)
    assert (await batches.cancel_batch(world.pool, ref(world, batch))).running == 1
    await undo(world, lease)
    assert await settled(world, batch)
    [progress] = await world.outbox("progress")
    assert progress["payload"] == {"settled": 1, "dispatched": 0, "expected": 1}


@pytest.mark.parametrize("undo", [fails, is_given_back])
async def test_a_live_requests_task_of_a_cancelled_batch_is_asked_again_for_the_request(
    world: World, undo: Undo
) -> None:
    batch, client = await world.batch(expected=1), await world.client()
    request = await world.request(client_id=client.id)
    lease = await world.leased(client, status="in_progress", lane=Lane.HIGH, batch_id=batch, request_id=request)
    await batches.cancel_batch(world.pool, ref(world, batch))
    await undo(world, lease)
    assert await rounds(world.pool) == 1
    assert await whole(world)


async def test_what_a_request_returns_to_a_cancelled_batch_is_skipped(world: World) -> None:
    batch, client = await world.batch(expected=1), await world.client()
    request = await world.request(client_id=client.id)
    await world.business_task(lane=Lane.HIGH, batch_id=batch, request_id=request)
    await batches.cancel_batch(world.pool, ref(world, batch))
    await requests.cancel_request(world.pool, RequestRef(request_id=request, tenant_id=world.tenant_id))
    assert await settled(world, batch)


async def test_what_a_cancelled_request_lets_go_of_is_skipped_in_its_cancelled_batch(world: World) -> None:
    batch, client = await world.batch(expected=1), await world.client()
    request = await world.request(client_id=client.id)
    lease = await world.leased(client, status="in_progress", lane=Lane.HIGH, batch_id=batch, request_id=request)
    await requests.cancel_request(world.pool, RequestRef(request_id=request, tenant_id=world.tenant_id))
    await batches.cancel_batch(world.pool, ref(world, batch))
    await fails(world, lease)
    assert await settled(world, batch)
