"""The sliding minute windows: the ledger of what rounds dispatched (1-dispatch §1.3)."""

from collections.abc import Mapping, Sequence

import asyncpg

from domain.budgets import floor_of
from domain.dispatch_settings import DispatchSettings
from domain.round_state import EVERYBODY
from store.database import Connection
from store.statements import statements

SQL, WRITE = statements("dispatch"), statements("dispatch_write")


async def frees_in(
    connection: Connection, full: Mapping[int, int], settings: DispatchSettings | None = None
) -> float | None:
    """Seconds until the first of these windows is below its limit; None when there is none, or never.

    `full`: the limits that refused, by tenant or EVERYBODY (`RoundPlan.full_minutes`). With `settings` a window also
    frees when its scheduled part falls below the floor; without, it is asked for high work, which has none.
    """
    if not full:
        return None
    tenants = None if EVERYBODY in full else list(full)
    rows = await connection.fetch(SQL["read_leaving"], tenants)
    times: list[float | None] = []
    for window, limit in full.items():
        leaving = [row for row in rows if window in (row["tenant_id"], EVERYBODY)]
        times.append(_below(leaving, "dispatched", limit))
        if settings is not None:
            # Below the floor already, it is not the floor that keeps the window shut.
            times.append(_below(leaving, "scheduled", _floor(window, limit, settings)) or None)
    return min((seconds for seconds in times if seconds is not None), default=None)


def _floor(window: int, limit: int, settings: DispatchSettings) -> int:
    """The floor is a share of the setting; what refused at the cluster's window is only a part of that."""
    return floor_of(settings.cluster_per_minute if window == EVERYBODY else limit, settings.normal_floor)


def _below(leaving: Sequence[asyncpg.Record], part: str, limit: int) -> float | None:
    """When enough of the part has left the window, the first first; 0 when it is below its limit now."""
    if limit <= 0:
        return None
    surplus = sum(row[part] for row in leaving) - limit + 1
    for row in leaving:
        if surplus <= 0:
            break
        surplus -= row[part]
        if surplus <= 0:
            return float(row["leaves_in"])
    return 0.0


async def prune(connection: Connection) -> None:
    """Forget what no window can see any more. Bounded; repeat while it grows faster."""
    await connection.execute(WRITE["prune_ledger"])
