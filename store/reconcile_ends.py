"""Leases and results whose end is certain: what the presence sweeper does, told in the audit (1-dispatch §1.8).

The sweeper looks every second; what is left for reconcile is what it missed, or what waited while it was away.
"""

from collections.abc import Awaitable, Callable, Sequence

import asyncpg

from store import legacy_ends, presence
from store.database import Connection, Pool, transaction
from store.listen import DISPATCH, wake
from store.progress import refresh_requests
from store.reconcile_audit import Fix, record_fixes
from store.settlement import settle_cancelled
from store.statements import statements

SQL = statements("reconcile")

End = Callable[[Connection, int], Awaitable[Sequence[asyncpg.Record]]]


async def end_unknown(pool: Pool, limit: int) -> int:
    """`unknown` tasks whose end is certain: retried, or failed when their attempts are used up."""
    return await _end(pool, "unknown", presence.end_resolvable, limit)


async def fail_never_ingested(pool: Pool, limit: int) -> int:
    """Results whose message is gone: retried, or failed when their attempts are used up."""
    return await _end(pool, "never_ingested", presence.end_never_ingested, limit)


async def release_legacy_leases(pool: Pool, limit: int) -> int:
    """Leases of the legacy path that ran out, and received results that never came: pending again, or failed."""
    found = await pool.fetch(SQL["find_legacy_zombies"], presence.INGEST_SECONDS, limit)
    if not found:
        return 0
    for sweep in (legacy_ends.return_expired, legacy_ends.fail_expired, legacy_ends.fail_never_ingested):
        async with transaction(pool) as connection:
            await sweep(connection)
    async with transaction(pool) as connection:
        await _clear_zombies(connection, [row["id"] for row in found])
        return await record_fixes(
            connection, "legacy_leases", [Fix(row["tenant_id"], f"task {row['id']}") for row in found]
        )


async def _clear_zombies(connection: Connection, task_ids: Sequence[int]) -> None:
    await connection.execute(SQL["lock_tasks"], task_ids)
    rows = await connection.fetch(SQL["clear_zombies"], task_ids)
    await refresh_requests(connection, {row["collect_request_id"] for row in rows} - {None})
    await settle_cancelled(connection, [row["id"] for row in rows])
    await wake(connection, DISPATCH)


async def _end(pool: Pool, kind: str, end: End, limit: int) -> int:
    async with transaction(pool) as connection:
        rows = await end(connection, limit)
        return await record_fixes(connection, kind, [Fix(row["tenant_id"], f"execution {row['id']}") for row in rows])
