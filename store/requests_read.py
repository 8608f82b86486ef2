"""Reading collect-now requests: the replay before a start, their state, their list (1-dispatch §1.5)."""

from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from domain.errors import NotFound
from domain.messages import AcceptCommand, CollectNowAnswer
from domain.scope import scope_hash
from store.accept import answer_of, find_earlier
from store.accept_scope import read_brand_plans
from store.catalog import Reach
from store.database import Pool
from store.statements import statements

SQL = statements("requests_read")


async def find_replay(pool: Pool, command: AcceptCommand) -> CollectNowAnswer | None:
    """The answer that this call repeats, without starting anything; None for a new one.

    The accept looks again under the tenant's lock: this read only saves a workflow. Raises NotFound for a brand out
    of reach, NoDesktopPlan, and Conflict for an Idempotency-Key used for another scope.
    """
    async with pool.acquire() as connection:
        plans = await read_brand_plans(connection, command)
        hashed = scope_hash(
            command.scope,
            run_modes=plans.run_modes,
            business_date=plans.business_date,
            preempt=command.preempt,
            target_client_id=command.target_client_id,
        )
        row = await find_earlier(connection, command, hashed)
    return None if row is None else answer_of(row)


async def read_request(pool: Pool, reach: Reach, request_id: UUID) -> asyncpg.Record:
    """One request with its counters and `ttl_left_seconds`; NotFound for one that is missing or out of reach."""
    row = await pool.fetchrow(SQL["read_request"], reach.tenant_id, list(reach.workspace_ids), request_id)
    if row is None:
        raise NotFound(f"no collect request {request_id}")
    return row


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
