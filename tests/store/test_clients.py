"""Desktop clients and their tokens: 2-desktop §2.1."""

from uuid import uuid4

import pytest

from domain.errors import NotFound
from domain.hub_port import ClientIdentity
from store import clients
from store.database import Pool
from tests.support.world import World, digest


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


async def _register(world: World) -> clients.RegisteredClient:
    return await clients.register_client(
        world.pool, tenant_id=world.tenant_id, workspace_id=world.workspace_id, user_id=7, name="desk", version="1.2"
    )


async def test_a_registered_token_authenticates_and_only_its_hash_is_kept(world: World) -> None:
    registered = await _register(world)
    identity = await clients.authenticate_device(world.pool, registered.token)
    assert identity == ClientIdentity(registered.client_id, world.tenant_id)
    row = await world.row("desktop_clients", registered.client_id)
    assert row["token_hash"] == digest(registered.token)
    assert registered.token not in repr(row)


@pytest.mark.parametrize("token", ["", "unknown", "\x00", "\ud800"])
async def test_an_unknown_token_is_nobody(world: World, token: str) -> None:
    assert await clients.authenticate_device(world.pool, token) is None


async def test_another_tenants_workspace_is_missing(world: World) -> None:
    stranger = await World.create(world.pool, "Stranger")
    with pytest.raises(NotFound):
        await clients.register_client(
            world.pool, tenant_id=world.tenant_id, workspace_id=stranger.workspace_id, user_id=7, name="desk"
        )


async def test_a_list_shows_the_tenants_own_clients_with_their_work(world: World) -> None:
    stranger = await World.create(world.pool, "Stranger")
    await stranger.client()
    client = await world.client()
    await world.leased(client)
    await world.leased(client, status="in_progress")
    [view] = await clients.list_clients(world.pool, world.tenant_id)
    assert (view.id, view.running, view.queued) == (client.id, 1, 1)
    assert await clients.list_clients(world.pool, world.tenant_id, [stranger.workspace_id]) == []


async def test_a_revoked_client_is_closed_and_its_waiting_work_returned(world: World) -> None:
    client = await world.client()
    waiting, running = await world.leased(client), await world.leased(client, status="in_progress")
    await clients.revoke_client(world.pool, world.tenant_id, client.id)
    [event] = await world.outbox("client_control")
    assert await clients.authenticate_device(world.pool, client.token) is None
    assert event["payload"] == {"type": "client_control", "client_id": str(client.id), "code": 4508, "epoch": None}
    assert (await world.execution(waiting.task_id))["status"] == "aborted"
    assert (await world.business(waiting.business_id))["active_task_id"] is None
    assert (await world.execution(running.task_id))["status"] == "in_progress"
    assert not (await world.row("desktop_clients", client.id))["online"]


async def test_another_tenants_client_cannot_be_revoked(world: World) -> None:
    stranger = await World.create(world.pool, "Stranger")
    client = await stranger.client()
    for tenant, client_id in ((world.tenant_id, client.id), (world.tenant_id, uuid4())):
        with pytest.raises(NotFound):
            await clients.revoke_client(world.pool, tenant, client_id)
    assert await clients.authenticate_device(world.pool, client.token) is not None
