"""Ways out of a legacy lease that no desktop chose, and the one that it did (2-desktop §2.2, 1-dispatch §1.8).

Lock order: business tasks by id, then requests by id, then batches by id. The sweeps are steps of the presence sweeper:
bounded, idempotent, each in a transaction of its own.
"""

from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID

from store.database import Connection
from store.interrupts import resume_batches
from store.listen import DISPATCH, wake
from store.progress import refresh_requests
from store.releases import Release
from store.settlement import Ending, settle, settle_cancelled
from store.statements import statements
from telemetry import metrics
from telemetry.effects import count

SQL = statements("legacy_leases")

SWEEP_LIMIT: Final = 500
# Ingest takes milliseconds, and minutes after an outage; a result older than this is lost.
INGEST_SECONDS: Final = 900


async def give_back(
    connection: Connection, task_ids: Collection[int], why: Release, *, error: str | None = None
) -> list[int]:
    """End those leases without counting an attempt; returns the tasks that were leased. They may be offered again.

    The caller has locked them. Recounts requests, resumes batches, wakes the coordinator; a task of a cancelled batch
    is skipped instead.
    """
    rows = await connection.fetch(SQL["give_back"], sorted(task_ids), why.value, error)
    if rows:
        if why is Release.PREEMPTED:
            count(metrics.preempt_induced_retries, len(rows))
        await refresh_requests(connection, {row["collect_request_id"] for row in rows} - {None})
        await settle_cancelled(connection, [row["id"] for row in rows])
        await resume_batches(connection, {row["client_id"] for row in rows} - {None})
        await wake(connection, DISPATCH)
    return [row["id"] for row in rows]


async def fail_attempts(connection: Connection, attempt_ids: Sequence[UUID], reason: str) -> int:
    """A counted failure without a result: lost after the start. Returns how many attempts ended by it."""
    rulings = await settle(connection, [Ending(each, False, reason, outcome="lease_expired") for each in attempt_ids])
    return sum(ruling.execution_status is not None for ruling in rulings.values())


async def return_expired(connection: Connection) -> int:
    """Leases that ran out before the start: pending again, nothing counted. Returns how many."""
    found = await connection.fetch(SQL["expired"], SWEEP_LIMIT, False)
    if not found:
        return 0
    ids = [row["id"] for row in found]
    await connection.execute(SQL["lock_tasks"], ids)
    # Again under the locks: a heartbeat or a start may have come in between.
    rows = await connection.fetch(SQL["expired"], SWEEP_LIMIT, False)
    over = {row["id"] for row in rows} & set(ids)
    return len(await give_back(connection, over, Release.LEASE_EXPIRED, error="the lease ran out before the start"))


async def fail_expired(connection: Connection) -> int:
    """Leases that ran out after the start: an attempt is counted, the task is pending again or failed."""
    found = await connection.fetch(SQL["expired"], SWEEP_LIMIT, True)
    if not found:
        return 0
    await connection.execute(SQL["lock_tasks"], [row["id"] for row in found])
    rows = await connection.fetch(SQL["expired"], SWEEP_LIMIT, True)
    known = {row["id"] for row in found}
    over = [row["attempt_id"] for row in rows if row["id"] in known]
    return await fail_attempts(connection, over, "the lease ran out after the start")


async def fail_never_ingested(connection: Connection) -> int:
    """Results received that never came to ingest: a counted failure. One that comes after all is still taken."""
    rows = await connection.fetch(SQL["never_ingested"], INGEST_SECONDS, SWEEP_LIMIT)
    if not rows:
        return 0
    attempts = [row["attempt_id"] for row in rows]
    return await fail_attempts(connection, attempts, "its result was received, but never ingested")
