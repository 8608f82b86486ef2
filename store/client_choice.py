"""Choosing the desktop of a request inside its accept transaction (dispatch §10.6)."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from uuid import UUID

import asyncpg

from domain.budgets import Limits, limits_of
from domain.client_choice import ClientState, choose_for_request, may_take
from domain.dispatch_settings import DispatchSettings
from domain.errors import NotFound
from domain.lanes import Lane
from domain.messages import AcceptCommand
from store.accept_scope import Facts
from store.database import Connection
from store.settings import PlatformLimits
from store.statements import statements

SQL = statements("client_choice")


async def choose_request_client(
    connection: Connection, command: AcceptCommand, facts: Facts, platforms: Collection[str]
) -> ClientState | None:
    """The request's client, its row locked; None when nobody is online. NotFound for a named one of another tenant.

    A named client that is offline or cannot take any of it is passed over for the best other one.
    """
    if command.target_client_id is not None:
        await _check_named(connection, command)
    clients = await read_clients(connection, command.tenant_id, facts.plans.workspace_id, facts.settings)
    named = [client for client in clients if client.client_id == command.target_client_id]
    if named and may_take(named[0], platforms):
        return await lock_client(connection, named[0])
    blocked = await blocked_platforms(connection, command.tenant_id, facts.platforms)
    return await lock_client(connection, choose_for_request(clients, platforms, blocked))


async def lock_client(connection: Connection, chosen: ClientState | None) -> ClientState | None:
    """Lock the chosen client's row: after the tenant and before any task."""
    if chosen is not None:
        await connection.execute(SQL["lock_client"], chosen.client_id)
    return chosen


async def _check_named(connection: Connection, command: AcceptCommand) -> None:
    known = await connection.fetchval(SQL["client_known"], command.tenant_id, command.target_client_id)
    if not known:
        raise NotFound(f"no client {command.target_client_id}")


async def read_clients(
    connection: Connection, tenant_id: int, workspace_id: int | None, settings: DispatchSettings
) -> list[ClientState]:
    """The tenant's online, healthy clients (of one workspace, or of all) as decisions see them."""
    rows = await connection.fetch(SQL["read_clients"], [tenant_id], workspace_id)
    return [client_state(row, settings) for row in rows]


def client_limits(row: asyncpg.Record, settings: DispatchSettings) -> Limits:
    """The client's and its tenant's own limits, or the settings'; the platform's is not known here and stays 0."""
    return limits_of(
        settings,
        client_concurrency=row["max_concurrent"],
        client_queue_depth=row["max_queue_depth"],
        platform=0,
        tenant_per_minute=row["dispatch_per_minute"],
    )


def client_state(row: asyncpg.Record, settings: DispatchSettings) -> ClientState:
    """One row of `read_clients`."""
    return ClientState(
        client_id=row["id"],
        tenant_id=row["tenant_id"],
        workspace_id=row["workspace_id"],
        free_slots=client_limits(row, settings).client_concurrency - row["busy"],
        abort_rate=row["abort_rate"],
        paused=row["paused"],
        platform_sessions=row["platform_sessions"],
    )


async def open_to_high(
    connection: Connection, tenant_id: int, settings: DispatchSettings, platforms: Mapping[str, PlatformLimits]
) -> frozenset[str]:
    """Platforms on which high work of the tenant may go now: none while the tenant or the lane is paused (ADR 0034)."""
    if Lane.HIGH in settings.paused_lanes or await connection.fetchval(SQL["tenant_paused"], tenant_id):
        return frozenset()
    return frozenset(name for name, limit in platforms.items() if not limit.paused)


async def blocked_platforms(
    connection: Connection, tenant_id: int, platforms: Mapping[str, PlatformLimits]
) -> dict[str, set[UUID]]:
    """Platforms at their limit, with the clients whose tasks hold them and would give way to an accept there."""
    holders: dict[str, list[asyncpg.Record]] = defaultdict(list)
    for row in await connection.fetch(SQL["platform_holders"], tenant_id):
        holders[row["ai_platform_id"]].append(row)
    return {
        name: {row["target_client_id"] for row in rows if row["gives_way"]}
        for name, rows in holders.items()
        if name in platforms and len(rows) >= platforms[name].max_concurrent
    }
