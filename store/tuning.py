"""Retuning the interrupt timeouts from what desktops measured (1-dispatch §1.5, dispatch §10.5).

Readers look at the settings in each transaction, so a new timeout is in force at once, for running interrupts too.
"""

from typing import Final

import asyncpg

from domain.messages import TunedPlatform, TuneResult
from domain.tuning import LEAST_SAMPLES, PERCENTILE, WINDOW_DAYS, tuned_timeouts
from store.database import Connection, Pool, transaction
from store.statements import statements

SQL = statements("tuning")

ACTOR: Final = "tune-timeouts"


async def tune_timeouts(pool: Pool, *, dry_run: bool = False, actor: str = ACTOR) -> TuneResult:
    """Set each platform's soft and hard timeout by its last week, audited; `dry_run` only says what would change.

    Left alone: platforms with fewer than 50 samples, and those whose timeouts an operator has pinned. Idempotent.
    """
    async with transaction(pool) as connection:
        rows = await connection.fetch(SQL["measure"], WINDOW_DAYS, PERCENTILE)
        tuned = [_judge(row) for row in rows]
        if not dry_run:
            tuned = [await _write(connection, each, actor) for each in tuned]
    return TuneResult(dry_run=dry_run, platforms=tuple(tuned))


def _judge(row: asyncpg.Record) -> TunedPlatform:
    before = (row["soft_ms"], row["hard_ms"])
    after, outcome = before, "tuned"
    if row["pinned"]:
        outcome = "pinned"
    elif row["samples"] < LEAST_SAMPLES:
        outcome = "too_few_samples"
    else:
        after = tuned_timeouts(row["p95_ms"])
        outcome = "unchanged" if after == before else "tuned"
    return TunedPlatform(
        platform=row["id"], samples=row["samples"], p95_ms=row["p95_ms"], before=before, after=after, outcome=outcome
    )


async def _write(connection: Connection, tuned: TunedPlatform, actor: str) -> TunedPlatform:
    if tuned.outcome != "tuned":
        return tuned
    soft, hard = tuned.after
    version = await connection.fetchval(
        SQL["write_timeouts"], tuned.platform, soft, hard, tuned.samples, tuned.p95_ms, actor
    )
    # Pinned, or tuned by another run, since it was measured.
    return tuned if version is not None else tuned.model_copy(update={"outcome": "unchanged", "after": tuned.before})
