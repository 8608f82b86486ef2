"""Desktop clients: registered once with a token, kept hashed, and revocable (2-desktop §2.1)."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from domain.errors import NotFound
from domain.hub_port import ClientIdentity
from domain.ids import new_uuid
from domain.protocol import CloseCode
from store.database import Connection, Pool, transaction
from store.outbox import dispatch_event, write_outbox
from store.releases import Release, lock_executions, release
from store.statements import statements

SQL = statements("clients")

TOKEN_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class RegisteredClient:
    """A new client and its device token, told this once."""

    client_id: UUID
    token: str


@dataclass(frozen=True, slots=True)
class ClientView:
    """One client as its tenant sees it. `running` and `queued` count monitor tasks."""

    id: UUID
    workspace_id: int
    user_id: int
    name: str
    online: bool
    healthy: bool
    paused: bool
    last_heartbeat_at: datetime | None
    max_concurrent: int | None
    platform_sessions: dict[str, Any]
    version: str | None
    revoked_at: datetime | None
    created_at: datetime
    running: int
    queued: int


def new_token() -> str:
    """A random token of 256 bits, for a device or a lease."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def digest(token: str) -> bytes:
    """What the database keeps of a token: SHA-256. The token is random, so it needs neither salt nor stretching."""
    return sha256(token.encode("utf-8", "surrogatepass")).digest()


async def register_client(
    pool: Pool, *, tenant_id: int, workspace_id: int, user_id: int, name: str, version: str | None = None
) -> RegisteredClient:
    """Register a desktop; its token is in the answer and nowhere else. NotFound for a workspace not of the tenant."""
    client = RegisteredClient(new_uuid(), new_token())
    registered = await pool.fetchval(
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


async def authenticate_device(pool: Pool, token: str) -> ClientIdentity | None:
    """The client of a device token; None for an unknown or revoked one."""
    row = await pool.fetchrow(SQL["authenticate_device"], digest(token))
    return None if row is None else ClientIdentity(row["id"], row["tenant_id"])


async def list_clients(pool: Pool, tenant_id: int, workspace_ids: Sequence[int] | None = None) -> list[ClientView]:
    """The tenant's clients (of these workspaces, or of all), newest first."""
    workspaces = None if workspace_ids is None else list(workspace_ids)
    rows = await pool.fetch(SQL["list_clients"], tenant_id, workspaces)
    return [ClientView(**row) for row in rows]


async def revoke_client(pool: Pool, tenant_id: int, client_id: UUID) -> None:
    """End a device token: its connection closes with 4508 and what waits there goes back to the queue.

    What runs there runs out by its lease. Idempotent; NotFound for a client not of the tenant.
    """
    async with transaction(pool) as connection:
        epoch = await connection.fetchval(SQL["revoke_client"], tenant_id, client_id)
        if epoch is None:
            raise NotFound(f"no client {client_id}")
        await close_connections(connection, ClientIdentity(client_id, tenant_id), CloseCode.REVOKED)
        waiting = [row["id"] for row in await connection.fetch(SQL["queued_of_client"], tenant_id, client_id)]
        locked = await lock_executions(connection, waiting)
        queued = [row["id"] for row in locked if row["status"] == "queued"]
        await release(connection, queued, Release.CANCELLED, error="the client was revoked")


async def close_connections(
    connection: Connection, client: ClientIdentity, code: CloseCode, *, epoch: int | None = None
) -> None:
    """Tell every hub to close the client's connections older than `epoch` (None: any)."""
    payload = {"client_id": str(client.client_id), "code": int(code), "epoch": epoch}
    key = f"control.{client.client_id}"
    event = dispatch_event("client_control", key, payload, client.tenant_id, client.client_id)
    await write_outbox(connection, [event])
