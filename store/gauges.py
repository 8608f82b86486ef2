"""Reading the gauges of dispatch §15.1 from the database: a handful of short statements on one connection."""

import heapq
from collections.abc import Sequence
from typing import Final

import asyncpg

from store.database import Connection, Pool
from store.fleet import SQL as FLEET
from store.fleet import read_totals
from store.settings import read_dispatch_settings
from store.statements import statements
from telemetry.fleet_readings import AbortRates, FleetReading
from telemetry.readings import MOST_TENANTS, QueueDepth, Reading

SQL = statements("gauges")

# A reading that takes longer is given up: the next one may be luckier, and the work comes first.
READ_SECONDS: Final = 20.0


async def read_gauges(pool: Pool) -> Reading:
    """One reading. Raises what asyncpg raises, TimeoutError after 20 s included; changes nothing."""
    async with pool.acquire(timeout=READ_SECONDS) as connection, connection.transaction(readonly=True):
        return await _read(connection)


async def _read(connection: Connection) -> Reading:
    waiting = await connection.fetch(SQL["read_waiting"], timeout=READ_SECONDS)
    normal = sum(row["normal"] for row in waiting)
    retry = sum(row["retry"] for row in waiting)
    high, lags, owners, fleet, written = [
        await _row(connection, name) for name in ("read_high", "read_lags", "read_owners", "read_fleet", "read_written")
    ]
    safe_points = await connection.fetch(SQL["read_safe_points"], timeout=READ_SECONDS)
    return Reading(
        at=written["at"],
        rows_written=written["rows_written"],
        high_backlog=high["waiting"],
        high_oldest_ms=high["oldest_ms"],
        normal_backlog=normal,
        retry_backlog=retry,
        normal_p99_ms=await _normal_age(connection, normal),
        ingest_lag_ms=lags["ingest_ms"],
        projection_lag_ms=lags["projection_ms"],
        projections_parked=lags["parked"],
        outbox_overdue=lags["outbox_overdue"],
        legacy_open=owners["legacy"],
        desktop_tasks_open=high["waiting"] + normal + retry - owners["legacy_waiting"] + owners["executing"],
        online_clients=fleet["online"],
        minute_used=fleet["minute_used"],
        queue_depth=QueueDepth(fleet["highest"], fleet["p95"], fleet["average"]),
        tenant_backlogs=_largest(waiting),
        safe_point_p95_ms={row["ai_platform_id"]: row["p95_ms"] for row in safe_points},
        fleet=await _fleet(connection),
    )


async def _fleet(connection: Connection) -> FleetReading:
    totals = await read_totals(connection, await read_dispatch_settings(connection), None)
    rates = await connection.fetchrow(FLEET["read_abort_rates"], timeout=READ_SECONDS)
    assert rates is not None, "an aggregate has a row"
    return FleetReading(
        states=totals.states,
        versions=totals.versions,
        logins=totals.logins,
        phases=totals.phases,
        slots_used=totals.slots_used,
        slots_total=totals.slots_total,
        abort_rates=AbortRates(rates["p50"], rates["p95"], rates["max"]),
    )


async def _row(connection: Connection, name: str) -> asyncpg.Record:
    row = await connection.fetchrow(SQL[name], timeout=READ_SECONDS)
    assert row is not None, "an aggregate has a row"
    return row


async def _normal_age(connection: Connection, waiting: int) -> float:
    """P99 of the ages of `waiting` tasks: a hundredth of them is older."""
    age: float | None = await connection.fetchval(SQL["read_normal_age"], waiting // 100, timeout=READ_SECONDS)
    return max(age or 0.0, 0.0)


def _largest(waiting: Sequence[asyncpg.Record]) -> dict[int, int]:
    most = heapq.nlargest(MOST_TENANTS, waiting, key=lambda row: (row["normal"], -row["tenant_id"]))
    return {row["tenant_id"]: row["normal"] for row in most if row["normal"]}
