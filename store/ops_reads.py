"""What operators look at, over all tenants: requests, batches, residents, audit events.

Lists are keyset pages of at most `limit` rows, newest first; ids are in order of time.
"""

from typing import Final
from uuid import UUID

import asyncpg

from store.database import Pool
from store.statements import statements

SQL = statements("ops_reads")

MOST_PAUSES: Final = 1000


async def list_requests(
    pool: Pool, *, before: UUID | None, tenant_id: int | None, open_only: bool, limit: int
) -> list[asyncpg.Record]:
    """Collect-now requests with their counters."""
    return await pool.fetch(SQL["list_requests"], before, tenant_id, open_only, limit)


async def list_batches(
    pool: Pool, *, before: int | None, tenant_id: int | None, open_only: bool, limit: int
) -> list[asyncpg.Record]:
    """Scheduled batches with their counters."""
    return await pool.fetch(SQL["list_batches"], before, tenant_id, open_only, limit)


async def list_residents(pool: Pool) -> list[asyncpg.Record]:
    """Who holds each resident's lease, in which epoch, since when."""
    return await pool.fetch(SQL["list_residents"])


async def list_audit(
    pool: Pool, *, before: int | None, tenant_id: int | None, action: str | None, limit: int
) -> list[asyncpg.Record]:
    """Who changed what: settings, pauses, releases, reconcile's fixes, stale callbacks."""
    return await pool.fetch(SQL["list_audit"], before, tenant_id, action, limit)


async def list_pauses(pool: Pool) -> list[asyncpg.Record]:
    """What is paused, with its kind, key and name; one more than MOST_PAUSES says that there are others."""
    return await pool.fetch(SQL["list_pauses"], MOST_PAUSES + 1)
