"""Desktop clients and their tokens: 2-desktop §2.1."""

import asyncio
from uuid import uuid4

import pytest

from domain.errors import Conflict, NotFound, TooManyClients, TooManyRequests, Unauthorized
from domain.hub_port import ClientIdentity, ConnectionEnd
from domain.protocol import HeldAttempt, Hello
from store import clients
from store.client_history import read_history
from store.database import Pool, transaction
from store.fleet import read_client
from store.hub_backend import StoreHubBackend
from store.releases import lock_executions
from store.settings import write_dispatch_setting
from tests.support.waiting import until_blocked
from tests.support.world import World, ago, digest


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


async def test_a_revoked_client_is_closed_and_all_that_it_has_is_returned_without_an_attempt_counted(
    world: World,
) -> None:
    """Also what runs: no answer of it can come without a token (ADR 0053). A result that is here already stays."""
    client = await world.client()
    waiting, running = await world.leased(client), await world.leased(client, status="in_progress", platform="kimi")
    received = await world.leased(client, status="in_progress", platform="doubao")
    await world.set("desktop_tasks", received.task_id, result_received_at=ago(seconds=0))
    await clients.revoke_client(world.pool, world.tenant_id, client.id, actor="user:7")
    [event] = await world.outbox("client_control")
    assert await clients.authenticate_device(world.pool, client.token) is None
    assert event["payload"] == {"type": "client_control", "client_id": str(client.id), "code": 4508, "epoch": None}
    for lease in (waiting, running):
        assert (await world.execution(lease.task_id))["status"] == "aborted"
        business = await world.business(lease.business_id)
        assert (business["active_task_id"], business["dispatch_attempts"]) == (None, 0)
    assert (await world.execution(received.task_id))["status"] == "in_progress"
    row = await world.row("desktop_clients", client.id)
    assert (row["online"], row["last_close_code"]) == (False, 4508)


async def test_a_result_that_is_received_while_its_client_is_revoked_stays(world: World) -> None:
    """It was read as running before, and its row was locked by who received the result."""
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    async with transaction(world.pool) as connection:
        await lock_executions(connection, [lease.task_id])
        revoking = asyncio.create_task(clients.revoke_client(world.pool, world.tenant_id, client.id))
        await until_blocked(world.pool)
        await connection.execute("update desktop_tasks set result_received_at = now() where id = $1", lease.task_id)
    await revoking
    assert (await world.execution(lease.task_id))["status"] == "in_progress"


async def test_revoking_twice_keeps_the_first_time_and_is_audited_once(world: World) -> None:
    client = await world.client()
    await clients.revoke_client(world.pool, world.tenant_id, client.id, actor="user:7")
    first = (await world.row("desktop_clients", client.id))["revoked_at"]
    await clients.revoke_client(world.pool, world.tenant_id, client.id, actor="user:8")
    assert (await world.row("desktop_clients", client.id))["revoked_at"] == first
    audit = await world.pool.fetch("select actor, subject from audit_events where action = 'client_revoked'")
    assert [tuple(row) for row in audit] == [("user:7", f"client {client.id}")]
    assert [event["kind"] for event in await read_history(world.pool, client.id, 9)] == ["revoked"]


async def test_a_rotated_token_ends_the_old_one_and_keeps_the_desktop_its_tasks_and_leases(world: World) -> None:
    client = await world.client()
    running, waiting = await world.leased(client, status="in_progress"), await world.leased(client, platform="kimi")
    made = await clients.rotate_token(world.pool, world.tenant_id, client.id, actor="user:7")
    assert made.client_id == client.id
    assert await clients.authenticate_device(world.pool, client.token) is None
    identity = await clients.authenticate_device(world.pool, made.token)
    assert identity == ClientIdentity(client.id, world.tenant_id)
    # The old connection is closed, a newer one is not: it may be there before the order is.
    [event] = await world.outbox("client_control")
    epoch = (await world.row("desktop_clients", client.id))["connection_epoch"]
    assert (event["payload"]["code"], event["payload"]["epoch"]) == (4508, epoch)
    held = HeldAttempt(task_id=str(running.task_id), attempt_id=str(running.attempt_id))
    assert await StoreHubBackend(world.pool).connected(identity, Hello(id="1", held=[held])) > epoch
    assert (await world.execution(running.task_id))["status"] == "in_progress"
    assert (await world.execution(waiting.task_id))["status"] == "queued"
    kinds = [event["kind"] for event in await read_history(world.pool, client.id, 9)]
    assert kinds == ["connected", "token_rotated"]


async def test_who_authenticated_with_a_token_that_is_rotated_meanwhile_does_not_come_in(world: World) -> None:
    """The order to close is for connections that are there, and this one has no epoch yet."""
    registered, backend = await _register(world), StoreHubBackend(world.pool)
    thief = await backend.authenticate(registered.token)
    made = await clients.rotate_token(world.pool, world.tenant_id, registered.client_id)
    assert thief is not None
    with pytest.raises(Unauthorized):
        await backend.connected(thief, Hello(id="1"))
    owner = await backend.authenticate(made.token)
    assert owner is not None
    assert await backend.connected(owner, Hello(id="1"))


async def test_a_desktop_that_is_switched_off_stays_so_when_its_token_is_rotated(world: World) -> None:
    client = await world.client(online=False)
    backend = StoreHubBackend(world.pool)
    epoch = await backend.connected(ClientIdentity(client.id, world.tenant_id), Hello(id="1"))
    await backend.disconnected([ConnectionEnd(client.id, epoch, 1001)])
    await world.set("desktop_clients", client.id, last_heartbeat_at=ago(days=1), lost_at=ago(hours=23))
    before = await world.row("desktop_clients", client.id)
    await clients.rotate_token(world.pool, world.tenant_id, client.id)
    after = await world.row("desktop_clients", client.id)
    for name in ("last_close_code", "disconnected_at"):
        assert after[name] == before[name]
    async with world.pool.acquire() as connection:
        assert (await read_client(connection, client.id))["state"] == "offline"


async def test_a_revoked_client_gets_neither_a_token_nor_a_name(world: World) -> None:
    client = await world.client()
    await clients.revoke_client(world.pool, world.tenant_id, client.id)
    with pytest.raises(Conflict):
        await clients.rotate_token(world.pool, world.tenant_id, client.id)
    with pytest.raises(Conflict):
        await clients.rename_client(world.pool, world.tenant_id, client.id, "again")


async def test_a_name_is_changed_and_noted_once(world: World) -> None:
    client = await world.client()
    for _ in range(2):
        await clients.rename_client(world.pool, world.tenant_id, client.id, "front desk", actor="user:7")
    assert (await world.row("desktop_clients", client.id))["name"] == "front desk"
    [event] = await read_history(world.pool, client.id, 9)
    assert (event["kind"], event["detail"]["changed"]["name"][1]) == ("settings_changed", "front desk")


async def test_a_tenant_has_no_more_desktops_than_its_limit_revoked_ones_aside(world: World) -> None:
    await limit_clients(world, 3)
    first, second = await _register(world), await _register(world)
    await world.pool.execute("update desktop_clients set created_at = now() - interval '61 minutes'")
    await world.client()
    with pytest.raises(TooManyClients):
        await _register(world)
    await clients.revoke_client(world.pool, world.tenant_id, first.client_id)
    third = await _register(world)
    assert len({first.client_id, second.client_id, third.client_id}) == 3
    stranger = await World.create(world.pool, "Stranger")
    await _register(stranger)


async def test_registering_and_revoking_in_a_loop_ends_with_the_hour(world: World) -> None:
    await limit_clients(world, 2)
    for _ in range(2):
        await clients.revoke_client(world.pool, world.tenant_id, (await _register(world)).client_id)
    with pytest.raises(TooManyRequests) as refused:
        await _register(world)
    assert refused.value.retry_after
    await world.pool.execute("update desktop_clients set created_at = now() - interval '61 minutes'")
    await _register(world)


async def limit_clients(world: World, limit: int) -> None:
    async with transaction(world.pool) as connection:
        await write_dispatch_setting(connection, "clients_per_tenant", limit, actor="test")


async def test_another_tenants_client_can_neither_be_revoked_nor_changed(world: World) -> None:
    stranger = await World.create(world.pool, "Stranger")
    client = await stranger.client()
    for client_id in (client.id, uuid4()):
        with pytest.raises(NotFound):
            await clients.revoke_client(world.pool, world.tenant_id, client_id)
        with pytest.raises(NotFound):
            await clients.rotate_token(world.pool, world.tenant_id, client_id)
        with pytest.raises(NotFound):
            await clients.rename_client(world.pool, world.tenant_id, client_id, "mine")
    with pytest.raises(NotFound):
        await clients.revoke_client(world.pool, stranger.tenant_id, client.id, workspace_ids=[world.workspace_id])
    assert await clients.authenticate_device(world.pool, client.token) is not None
