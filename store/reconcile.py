"""Damage in the database found and mended, kind by kind (1-dispatch §1.8, dispatch §16.2.4).

Each step is one short transaction in the common lock order that mends a bounded number of rows, judges them again under
their locks, and writes what it did to the audit. A second run finds nothing.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import asyncpg

from domain.messages import DatabaseFixes, DatabaseReconciled, Findings
from store.database import Pool
from store.listen import OUTBOX_AMQP, OUTBOX_SIGNAL, wake
from store.reconcile_counters import recount_batches, recount_requests
from store.reconcile_ends import end_unknown, fail_never_ingested, release_legacy_leases
from store.reconcile_tasks import (
    free_tasks,
    mend_blocked,
    mend_orphans,
    report_orphans,
    return_strays,
    withdraw_interrupts,
)
from store.statements import statements

log = logging.getLogger(__name__)

SQL = statements("reconcile")

# Rows a transaction; and transactions a kind and run: what is left then is the next run's.
STEP_LIMIT: Final = 200
MOST_STEPS: Final = 50
# A pump takes an effect within milliseconds; an outage of the broker or of Temporal shows here.
UNDELIVERED_SECONDS: Final = 60

Step = Callable[[Pool, int], Awaitable[int]]

# In this order: what one frees, the next may have to place, and the counters come last.
STEPS: Final[tuple[tuple[str, Step], ...]] = (
    ("legacy_leases", release_legacy_leases),
    ("unknown", end_unknown),
    ("never_ingested", fail_never_ingested),
    ("orphans", mend_orphans),
    ("freed_tasks", free_tasks),
    ("blocked_tasks", mend_blocked),
    ("interrupts", withdraw_interrupts),
    ("stray_tasks", return_strays),
    ("request_counters", recount_requests),
    ("batch_counters", recount_batches),
)


async def reconcile_database(pool: Pool, *, beat: Callable[[], None] = lambda: None) -> DatabaseReconciled:
    """Every kind in turn; `beat` is called before each transaction.

    A kind that meets an error is logged and named in the answer, and the others go on. Raises what says that the
    database does not answer at all.
    """
    counts: dict[str, int] = {}
    failed: list[str] = []
    for kind, step in STEPS:
        try:
            counts[kind] = await _repeat(pool, step, beat)
        except asyncpg.PostgresError:
            log.exception("reconcile of %s failed; the others go on", kind)
            failed.append(kind)
    return DatabaseReconciled(fixed=DatabaseFixes(**counts), found=await _find(pool, failed))


async def _repeat(pool: Pool, step: Step, beat: Callable[[], None]) -> int:
    """Until a step mends nothing more, or the run has done enough."""
    mended = 0
    for _ in range(MOST_STEPS):
        beat()
        done = await step(pool, STEP_LIMIT)
        mended += done
        if not done:
            break
    return mended


async def _find(pool: Pool, failed: list[str]) -> Findings:
    running = await report_orphans(pool, STEP_LIMIT)
    return Findings(orphans_running=running, outbox_waiting=await wake_pumps(pool), failed=tuple(failed))


async def wake_pumps(pool: Pool) -> int:
    """How many effects wait for longer than a minute; if any do, their pumps are woken."""
    async with pool.acquire() as connection:
        waiting: int = await connection.fetchval(SQL["count_undelivered"], UNDELIVERED_SECONDS)
        if waiting:
            await wake(connection, OUTBOX_AMQP, OUTBOX_SIGNAL)
    return waiting
