"""Ways out of a lease that count no attempt: returned, cancelled, preempted, expired before the start.

1-dispatch §1.5, 2-desktop §2.2. Counted failures are `store/settlement.py`. Lock order: business tasks by id, execution
tasks by id, then requests by id, then batches by id.
"""

from collections.abc import Collection
from enum import StrEnum
from uuid import UUID

import asyncpg

from store.database import Connection
from store.interrupts import resume_batches, settle_interrupts
from store.listen import DISPATCH, wake
from store.progress import refresh_requests
from store.settlement import settle_cancelled
from store.statements import statements
from telemetry import metrics
from telemetry.effects import count

SQL = statements("releases")


class Release(StrEnum):
    """Why a lease ended without counting; the attempt's outcome."""

    # The desktop gave the task back.
    RETURNED = "returned"
    # The server took it back.
    CANCELLED = "cancelled"
    # It gave way to a collect-now: the one that counts `preemptions`.
    PREEMPTED = "preempted"
    # A queued lease ran out.
    LEASE_EXPIRED = "lease_expired"


async def lock_executions(connection: Connection, execution_ids: Collection[UUID]) -> list[asyncpg.Record]:
    """Lock the business tasks, then these execution rows, by id; returns the rows as they are under the lock."""
    ids = sorted(execution_ids)
    await connection.execute(SQL["lock_business_tasks"], ids)
    return await connection.fetch(SQL["lock_execution_tasks"], ids)


async def release(
    connection: Connection, execution_ids: Collection[UUID], why: Release, *, error: str | None = None
) -> list[asyncpg.Record]:
    """Abort those of the execution rows that are live; returns them. Their business tasks may be dispatched again.

    The caller has locked them (`lock_executions`). Settles interrupts, recounts requests, resumes batches, wakes the
    coordinator. A task of a cancelled batch is skipped instead.
    """
    if not execution_ids:
        return []
    rows = await connection.fetch(SQL["abort_executions"], sorted(execution_ids), why.value, error)
    if rows:
        if why is Release.PREEMPTED:
            count(metrics.preempt_induced_retries, len(rows))
        await _conclude(connection, rows)
    return rows


async def _conclude(connection: Connection, rows: Collection[asyncpg.Record]) -> None:
    own = {row["collect_request_id"] for row in rows} - {None}
    preemptors = {row["interrupt_request_id"] for row in rows} - {None}
    await connection.execute(SQL["lock_requests"], sorted(own | preemptors))
    await settle_interrupts(connection, [row["id"] for row in rows])
    await refresh_requests(connection, own)
    await settle_cancelled(connection, {row["freed_task_id"] for row in rows} - {None})
    await resume_batches(connection, {row["target_client_id"] for row in rows})
    await wake(connection, DISPATCH)
