"""Desktop clients: registered once with a token, kept hashed, and revocable (2-desktop §2.1)."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from time import time
from typing import Final
from uuid import UUID

import asyncpg

from domain.errors import Conflict, NotFound, TooManyClients, TooManyRequests
from domain.hub_port import ClientIdentity
from domain.ids import new_uuid
from domain.protocol import CloseCode
from store.client_history import ClientEvent, note_event
from store.database import Connection, Pool, transaction
from store.outbox import OutboxRow, dispatch_event, write_outbox
from store.releases import Release, lock_executions, release
from store.settings import read_dispatch_settings
from store.statements import statements

SQL = statements("clients")

TOKEN_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class RegisteredClient:
    """A new client and its device token, told this once."""

    client_id: UUID
    token: str


def new_token() -> str:
    """A random token of 256 bits, for a device or a lease."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def digest(token: str) -> bytes:
    """What the database keeps of a token: SHA-256. The token is random, so it needs neither salt nor stretching."""
    return sha256(token.encode("utf-8", "surrogatepass")).digest()


async def register_client(
    pool: Pool, *, tenant_id: int, workspace_id: int, user_id: int, name: str, version: str | None = None
) -> RegisteredClient:
    """Register a desktop; its token is in the answer and nowhere else.

    NotFound for a workspace not of the tenant, TooManyClients, TooManyRequests. Those who register at the same moment
    may pass the limit together: it is there against a loop, not to be billed by.
    """
    client = RegisteredClient(new_uuid(), new_token())
    async with transaction(pool) as connection:
        await _check_room(connection, tenant_id)
        registered = await connection.fetchval(
            SQL["register_client"],
            client.client_id,
            tenant_id,
            workspace_id,
            user_id,
            name,
            digest(client.token),
            version,
        )
    if registered is None:
        raise NotFound(f"no workspace {workspace_id}")
    return client


async def _check_room(connection: Connection, tenant_id: int) -> None:
    limit = (await read_dispatch_settings(connection)).clients_per_tenant
    # Ids begin with their time; the two hours leave room for clocks that differ.
    earliest = UUID(int=int((time() - 7200) * 1000) << 80)
    row = await connection.fetchrow(SQL["room_to_register"], tenant_id, limit, earliest)
    assert row is not None, "a count has a row"
    if row["standing"] >= limit:
        raise TooManyClients(f"the tenant has {limit} desktops, as many as clients_per_tenant allows; revoke some")
    if row["recent"] >= limit:
        raise TooManyRequests(f"{limit} desktops were registered in the last hour; try again later", retry_after=600)


async def authenticate_device(pool: Pool, token: str) -> ClientIdentity | None:
    """The client of a device token; None for an unknown or revoked one."""
    shown = digest(token)
    row = await pool.fetchrow(SQL["authenticate_device"], shown)
    return None if row is None else ClientIdentity(row["id"], row["tenant_id"], shown)


async def revoke_client(
    pool: Pool,
    tenant_id: int,
    client_id: UUID,
    *,
    workspace_ids: Sequence[int] | None = None,
    actor: str = "giveway",
) -> None:
    """End a device token: its connection closes with 4508, and all that it has goes back to the queue.

    What runs there too, without counting an attempt: without a token no answer of it can come (ADR 0053). Idempotent;
    NotFound for a client not of the tenant, or not of these workspaces.
    """
    async with transaction(pool) as connection:
        client = await _lock(connection, tenant_id, client_id, workspace_ids)
        await connection.execute(SQL["revoke_client"], client_id, int(CloseCode.REVOKED))
        if client["revoked_at"] is None:
            await note_event(connection, client_id, ClientEvent.REVOKED, {"actor": actor})
            await connection.execute(SQL["audit"], tenant_id, actor, "client_revoked", client_id, {})
        await close_connections(connection, ClientIdentity(client_id, tenant_id), CloseCode.REVOKED)
        unended = [row["id"] for row in await connection.fetch(SQL["unended_of_client"], tenant_id, client_id)]
        locked = await lock_executions(connection, unended)
        mine = [row["id"] for row in locked if row["result_received_at"] is None]
        await release(connection, mine, Release.CANCELLED, error="the client was revoked")


async def rotate_token(
    pool: Pool,
    tenant_id: int,
    client_id: UUID,
    *,
    workspace_ids: Sequence[int] | None = None,
    actor: str = "giveway",
) -> RegisteredClient:
    """A new device token, told this once; the old one is nobody's, and its connection closes with 4508.

    The client keeps its id, tasks and leases: a desktop that is back with the new token before they run out goes on.
    NotFound as `revoke_client`; Conflict for a revoked client.
    """
    made = RegisteredClient(client_id, new_token())
    async with transaction(pool) as connection:
        client = await _lock(connection, tenant_id, client_id, workspace_ids)
        _check_not_revoked(client)
        code = CloseCode.REVOKED
        epoch = await connection.fetchval(SQL["replace_token"], client_id, digest(made.token), int(code))
        await note_event(connection, client_id, ClientEvent.TOKEN_ROTATED, {"actor": actor}, close_code=code)
        await connection.execute(SQL["audit"], tenant_id, actor, "client_token_rotated", client_id, {})
        # A desktop that is back with the new token before the order is sent has this epoch, or a later one.
        await close_connections(connection, ClientIdentity(client_id, tenant_id), code, epoch=epoch)
    return made


async def rename_client(
    pool: Pool,
    tenant_id: int,
    client_id: UUID,
    name: str,
    *,
    workspace_ids: Sequence[int] | None = None,
    actor: str = "giveway",
) -> None:
    """Another name for people to see. Idempotent. NotFound as `revoke_client`; Conflict for a revoked client."""
    async with transaction(pool) as connection:
        client = await _lock(connection, tenant_id, client_id, workspace_ids)
        _check_not_revoked(client)
        if client["name"] == name:
            return
        await connection.execute(SQL["rename_client"], client_id, name)
        changed = {"name": [client["name"], name]}
        await note_event(connection, client_id, ClientEvent.SETTINGS_CHANGED, {"actor": actor, "changed": changed})
        await connection.execute(SQL["audit"], tenant_id, actor, "client_renamed", client_id, changed)


async def _lock(
    connection: Connection, tenant_id: int, client_id: UUID, workspace_ids: Sequence[int] | None
) -> asyncpg.Record:
    workspaces = None if workspace_ids is None else list(workspace_ids)
    client = await connection.fetchrow(SQL["lock_client"], client_id, tenant_id, workspaces)
    if client is None:
        raise NotFound(f"no client {client_id}")
    return client


def _check_not_revoked(client: asyncpg.Record) -> None:
    if client["revoked_at"] is not None:
        raise Conflict(f"client {client['id']} is revoked for good; register the desktop anew")


async def close_connections(
    connection: Connection, client: ClientIdentity, code: CloseCode, *, epoch: int | None = None
) -> None:
    """Tell every hub to close the client's connections older than `epoch` (None: any)."""
    await write_outbox(connection, [close_event(client, code, epoch)])


def close_event(client: ClientIdentity, code: CloseCode, epoch: int | None) -> OutboxRow:
    """The order to close the client's connections older than `epoch` (None: any)."""
    payload = {"client_id": str(client.client_id), "code": int(code), "epoch": epoch}
    return dispatch_event("client_control", f"control.{client.client_id}", payload, client.tenant_id, client.client_id)
