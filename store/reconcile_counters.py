"""Counters of open requests and batches that differ from a recount (faults.md, invariants)."""

import asyncpg

from domain.messages import SignalName
from store.database import Pool, transaction
from store.outbox import OutboxRow, signal, write_outbox
from store.progress import refresh_requests
from store.reconcile_audit import Fix, record_fixes
from store.statements import statements

SQL = statements("reconcile")


async def recount_requests(pool: Pool, limit: int) -> int:
    """Open requests whose counters or status are wrong: recounted, their workflows told. Returns how many were."""
    async with transaction(pool) as connection:
        found = [row["id"] for row in await connection.fetch(SQL["find_miscounted_requests"], None, limit)]
        if not found:
            return 0
        await connection.execute(SQL["lock_tasks_of_requests"], found)
        rows = await connection.fetch(SQL["find_miscounted_requests"], found, limit)
        await refresh_requests(connection, [row["id"] for row in rows])
        fixes = [Fix(row["tenant_id"], f"request {row['id']}") for row in rows]
        return await record_fixes(connection, "request_counters", fixes)


async def recount_batches(pool: Pool, limit: int) -> int:
    """Open batches whose counters are wrong: recounted, and their workflows told the totals. Returns how many were."""
    async with transaction(pool) as connection:
        found = [row["id"] for row in await connection.fetch(SQL["find_miscounted_batches"], None, limit)]
        if not found:
            return 0
        await connection.execute(SQL["lock_batches"], found)
        wrong = [row["id"] for row in await connection.fetch(SQL["find_miscounted_batches"], found, limit)]
        rows = await connection.fetch(SQL["recount_batches"], wrong)
        await write_outbox(connection, [_progress(row) for row in rows])
        return await record_fixes(
            connection, "batch_counters", [Fix(row["tenant_id"], f"batch {row['id']}") for row in rows]
        )


def _progress(row: asyncpg.Record) -> OutboxRow:
    payload = {"settled": row["settled"], "dispatched": row["dispatched"], "expected": row["expected"]}
    return signal(row["workflow_id"], SignalName.PROGRESS, payload, row["tenant_id"])
