"""The sliding minute windows: the ledger of what rounds dispatched (1-dispatch §1.3)."""

from collections.abc import Mapping, Sequence

import asyncpg

from domain.round_state import EVERYBODY
from store.database import Connection
from store.statements import statements

SQL, WRITE = statements("dispatch"), statements("dispatch_write")


async def frees_in(connection: Connection, full: Mapping[int, int]) -> float | None:
    """Seconds until the first of these windows is below its limit; None when there is none, or never.

    `full`: the limits that refused, by tenant or EVERYBODY (`RoundPlan.full_minutes`).
    """
    if not full:
        return None
    tenants = None if EVERYBODY in full else list(full)
    rows = await connection.fetch(SQL["read_leaving"], tenants)
    times = [_below([row for row in rows if tenant in (row["tenant_id"], EVERYBODY)], full[tenant]) for tenant in full]
    return min((seconds for seconds in times if seconds is not None), default=None)


def _below(leaving: Sequence[asyncpg.Record], limit: int) -> float | None:
    """When enough has left the window, the first first."""
    if limit <= 0:
        return None
    surplus = sum(row["dispatched"] for row in leaving) - limit + 1
    for row in leaving:
        if surplus <= 0:
            break
        surplus -= row["dispatched"]
        if surplus <= 0:
            return float(row["leaves_in"])
    return 0.0


async def prune(connection: Connection) -> None:
    """Forget what no window can see any more. Bounded; repeat while it grows faster."""
    await connection.execute(WRITE["prune_ledger"])
