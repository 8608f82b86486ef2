"""Signs of life that the database has: residents' leases and the oldest work that nobody has done."""

from dataclasses import dataclass

import asyncpg

from store.statements import statements

SQL, GAUGES = statements("vitals"), statements("gauges")


@dataclass(frozen=True, slots=True)
class Vitals:
    """`residents`: seconds since each took its lease, by name (role/shard). Ages in seconds; 0: nothing waits."""

    residents: dict[str, float]
    oldest_result: float
    oldest_projection: float
    parked_projections: int


async def read_vitals(url: str, *, timeout: float = 5.0) -> Vitals | None:
    """None where the schema is not there yet. Raises what asyncpg raises, TimeoutError included."""
    connection = await asyncpg.connect(url, timeout=timeout, command_timeout=timeout)
    try:
        if not await connection.fetchval(SQL["is_migrated"]):
            return None
        residents = await connection.fetch(SQL["read_residents"])
        lags = await connection.fetchrow(GAUGES["read_lags"])
    finally:
        await connection.close(timeout=timeout)
    assert lags is not None, "an aggregate has a row"
    return Vitals(
        {row["name"]: row["taken_seconds"] for row in residents},
        lags["ingest_ms"] / 1000,
        lags["projection_ms"] / 1000,
        lags["parked"],
    )
