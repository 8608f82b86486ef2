"""The pull of the legacy path: a desktop leases what is on offer to it (dispatch §16.1 items 2 and 7, 2-desktop §2.2).

Lock order: platforms by name (advisory), the client, business tasks by id, requests.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import asyncpg

from domain.budgets import limits_of
from domain.desktop_calls import PullAnswer, PulledTask
from domain.dispatch_settings import DispatchSettings, PlatformScope
from domain.hub_port import ClientIdentity
from domain.ids import new_uuid
from domain.protocol import LEASE_SECONDS
from store.clients import digest, new_token
from store.database import Connection, Pool, transaction
from store.legacy_offers import described
from store.progress import refresh_requests
from store.settings import read_dispatch_settings
from store.statements import statements

SQL, LEASES = statements("legacy_leases"), statements("leases")

# `count_running` leaves one execution task out; a pull is about none.
NO_TASK: Final = UUID(int=0)


@dataclass(frozen=True, slots=True)
class _Room:
    """Leases that may be given now: on the client, and on each platform of its offers."""

    client: int
    platforms: Mapping[str, int]


async def pull(pool: Pool, client: ClientIdentity, count: int) -> PullAnswer:
    """Lease at most `count` of the tasks on offer to the client, the most urgent first; never anything else.

    Fewer where the client or a platform has no slot; `remaining` says how many still stand on offer. Not repeatable:
    what an answer that is lost had leased runs out, or ends at the next hello.
    """
    async with transaction(pool) as connection:
        rows, tokens = await _lease(connection, client, count)
        await refresh_requests(connection, {row["collect_request_id"] for row in rows} - {None})
        remaining = await connection.fetchval(SQL["count_offers"], client.client_id, client.tenant_id)
    return PullAnswer(tasks=[_pulled(row, tokens[row["attempt_id"]]) for row in rows], remaining=remaining)


async def _lease(
    connection: Connection, client: ClientIdentity, count: int
) -> tuple[list[asyncpg.Record], dict[UUID, str]]:
    room = await _find_room(connection, client)
    most = min(count, room.client)
    if most <= 0:
        return [], {}
    tokens = {new_uuid(): new_token() for _ in range(most)}
    rows = await connection.fetch(
        SQL["lease_offered"],
        client.client_id,
        client.tenant_id,
        list(room.platforms),
        list(room.platforms.values()),
        most,
        list(tokens),
        [digest(token) for token in tokens.values()],
        LEASE_SECONDS,
    )
    return rows, tokens


async def _find_room(connection: Connection, client: ClientIdentity) -> _Room:
    """What physically runs is counted, a victim that has not stopped yet included, as `start` does it."""
    offered = await connection.fetch(SQL["offered_platforms"], client.client_id, client.tenant_id)
    settings = await read_dispatch_settings(connection)
    tenant = 0 if settings.platform_concurrency_scope is PlatformScope.GLOBAL else client.tenant_id
    platforms = [row["ai_platform_id"] for row in offered]
    for platform in platforms:
        await connection.execute(LEASES["lock_platform"], tenant, platform)
    return await _count_room(connection, client, tenant, platforms, settings)


async def _count_room(
    connection: Connection, client: ClientIdentity, tenant: int, platforms: Sequence[str], settings: DispatchSettings
) -> _Room:
    on_client, on_platforms = 0, {}
    for platform in platforms:
        row = await connection.fetchrow(LEASES["lock_client"], client.client_id, client.tenant_id, platform)
        used = await connection.fetchrow(LEASES["count_running"], tenant, client.client_id, platform, NO_TASK)
        if row is None or used is None:
            return _Room(0, {})
        own, there = row["platform_limit"], settings.platform_concurrency
        limit = min(there if own is None else own, settings.fuses.platform_concurrency)
        limits = limits_of(settings, client_concurrency=row["max_concurrent"], client_queue_depth=None, platform=limit)
        on_client = limits.client_concurrency - used["on_client"]
        on_platforms[platform] = max(limits.platform_concurrency - used["on_platform"], 0)
    return _Room(on_client, on_platforms)


def _pulled(row: asyncpg.Record, token: str) -> PulledTask:
    return PulledTask(
        **described(row),
        status="leased",
        attempt=row["attempt"],
        attempt_id=str(row["attempt_id"]),
        lease_token=token,
        lease_expires_at=row["lease_expires_at"],
    )
