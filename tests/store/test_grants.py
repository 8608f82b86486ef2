"""A grant of many clients waits for nobody: 2-desktop §2.2, and the lock order of store/snapshots.py."""

import asyncio
from uuid import UUID

import pytest

from domain.hub_port import ClientIdentity, GrantRequest, HubBackend
from domain.lanes import Lane
from domain.protocol import Hello
from store.database import Pool, transaction
from store.hub_backend import StoreHubBackend
from tests.support.granting import grant
from tests.support.world import Desktop, World


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


@pytest.fixture
def hub(pool: Pool) -> HubBackend:
    return StoreHubBackend(pool)


def request(world: World, client: Desktop, *tasks: UUID) -> GrantRequest:
    return GrantRequest(ClientIdentity(client.id, world.tenant_id), 1, tasks)


async def waiting(world: World, client: Desktop) -> UUID:
    return await world.execution_task(await world.business_task(), client.id)


HELD = (
    "select from desktop_clients where id = $1 for no key update",
    "select from desktop_tasks where target_client_id = $1 for no key update",
)


@pytest.mark.parametrize("held", HELD)
async def test_what_another_transaction_holds_is_busy_and_the_others_are_served(
    world: World, hub: HubBackend, held: str
) -> None:
    one, other = await world.client(), await world.client()
    busy, free = await waiting(world, one), await waiting(world, other)
    requests = [request(world, one, busy), request(world, other, free)]
    async with transaction(world.pool) as connection, asyncio.timeout(20):
        await connection.execute(held, one.id)
        first, second = await hub.grant(requests)
    assert (first.frames, first.busy) == ([], (busy,))
    assert ([frame.task_id for frame in second.frames], second.busy) == ([str(free)], ())
    [again] = await hub.grant(requests[:1])
    assert ([frame.task_id for frame in again.frames], again.busy) == ([str(busy)], ())


async def test_a_revoked_client_among_many_gets_nothing_and_costs_the_others_nothing(
    world: World, hub: HubBackend
) -> None:
    revoked, other = await world.client(), await world.client()
    lost, task = await waiting(world, revoked), await waiting(world, other)
    await world.pool.execute("update desktop_clients set revoked_at = now() where id = $1", revoked.id)
    first, second = await hub.grant([request(world, revoked, lost), request(world, other, task)])
    assert (first.frames, first.busy, len(second.frames)) == ([], (), 1)
    assert (await world.execution(lost))["lease_token_hash"] is None


async def test_each_clients_frames_come_most_urgent_first(world: World, hub: HubBackend) -> None:
    clients = [await world.client() for _ in range(3)]
    requests = []
    for client in clients:
        low = await waiting(world, client)
        high = await world.execution_task(await world.business_task(lane=Lane.HIGH), client.id)
        requests.append(request(world, client, low, high))
    for client, answer in zip(clients, await hub.grant(requests), strict=True):
        assert [frame.lane for frame in answer.frames] == ["high", "normal"]
        assert {frame.target_client_id for frame in answer.frames} == {str(client.id)}
        assert len({frame.lease_token for frame in answer.frames}) == 2


async def test_grants_and_connections_of_the_same_clients_at_once_lease_each_task_once_and_never_deadlock(
    world: World, hub: HubBackend
) -> None:
    clients = [await world.client() for _ in range(6)]
    tasks = [(client, await waiting(world, client)) for client in clients for _ in range(4)]
    requests = [request(world, client, task) for client, task in tasks]

    async def connect(client: Desktop) -> None:
        await hub.connected(ClientIdentity(client.id, world.tenant_id), Hello(id="h1"))

    async with asyncio.timeout(30):
        await asyncio.gather(
            hub.grant(requests), hub.grant(requests[::-1]), *map(connect, clients[::2]), hub.grant(requests[::3])
        )
        for client, task in tasks:
            epoch = (await world.row("desktop_clients", client.id))["connection_epoch"]
            await grant(hub, ClientIdentity(client.id, world.tenant_id), epoch, [task])
    rows = await world.pool.fetch("select attempt, status from desktop_tasks")
    assert {(row["attempt"], row["status"]) for row in rows} == {(1, "queued")}
    assert await world.pool.fetchval("select count(*) from desktop_task_attempts") == len(tasks)
