"""Reading collect-now requests: the replay before a start, their state, their list (1-dispatch §1.5)."""

from datetime import datetime
from typing import Any, Final
from uuid import UUID

import asyncpg

from domain.errors import NotFound
from domain.messages import AcceptCommand, CollectNowAnswer
from store.accept import NewCall, answer_of, find_earlier
from store.catalog import Reach
from store.database import Pool
from store.statements import statements

SQL = statements("requests_read")

FAILURE_REASONS: Final = 10


async def find_replay(pool: Pool, command: AcceptCommand) -> CollectNowAnswer | None:
    """The answer that this call repeats, without starting anything; None for a new one.

    The accept looks again under the tenant's lock: this read only saves a workflow. Raises NotFound for a brand out
    of reach, NoDesktopPlan, and Conflict for an Idempotency-Key used for another call.
    """
    async with pool.acquire() as connection:
        earlier = await find_earlier(connection, command)
    return None if isinstance(earlier, NewCall) else answer_of(earlier)


async def read_request(pool: Pool, reach: Reach, request_id: UUID) -> asyncpg.Record:
    """One request with its counters and `ttl_left_seconds`; NotFound for one that is missing or out of reach."""
    row = await pool.fetchrow(SQL["read_request"], reach.tenant_id, list(reach.workspace_ids), request_id)
    if row is None:
        raise NotFound(f"no collect request {request_id}")
    return row


async def read_failures(pool: Pool, tenant_id: int, request: asyncpg.Record) -> list[asyncpg.Record]:
    """`reason` and `tasks` of the request's failed tasks, at most FAILURE_REASONS; empty where none has failed."""
    if not request["failed_task_count"]:
        return []
    return await pool.fetch(SQL["read_failures"], tenant_id, request["request_id"], FAILURE_REASONS)


async def list_requests(
    pool: Pool, reach: Reach, brand_id: int | None, before: tuple[datetime, UUID] | None, limit: int
) -> list[asyncpg.Record]:
    """Newest first, before the given row of the page before."""
    created_at, request_id = before or (None, None)
    workspaces: Any = list(reach.workspace_ids)
    return await pool.fetch(SQL["list_requests"], reach.tenant_id, workspaces, brand_id, created_at, request_id, limit)


async def is_dispatched(pool: Pool, tenant_id: int, request_id: UUID) -> bool:
    """Whether the first frame was written, or the request is over without one."""
    return bool(await pool.fetchval(SQL["is_dispatched"], tenant_id, request_id))
