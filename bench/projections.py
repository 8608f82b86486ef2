"""How long a brand-day's summaries take to rebuild, and how many rows that writes: a part of `giveway bench ingest`.

Each day has as many answered runs as asked for, on five platforms, with 20 citations each. A rebuild is what the
resident runs, commit included.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import date, timedelta
from statistics import median
from typing import Any, Final

from store.database import Connection, Pool, transaction
from store.projection_tables import PROJECTIONS
from store.projections import SQL as QUEUE
from store.projections import DayKey, rebuild_day
from store.statements import statements

SQL = statements("bench_projections")

CITATIONS: Final = 20
REBUILDS: Final = 5
FIRST_DAY: Final = date(2026, 4, 1)

Step = Callable[[Connection, DayKey], Awaitable[None]]


async def rebuild_figures(pool: Pool, runs: Sequence[int] = (500, 5_000)) -> dict[str, Any]:
    """Milliseconds (medians of 5) and rows written, by number of runs of the day.

    `from_scratch`: no row was there; `one_answer`: one answer of the day is new, as on a day that is being collected;
    `unchanged`: nothing is. The pool's database needs the schema and gets a tenant of its own.
    """
    brand = await pool.fetchrow(SQL["seed_brand"])
    assert brand is not None
    days = [
        DayKey(brand["tenant_id"], brand["brand_id"], FIRST_DAY + timedelta(days=number)) for number in range(len(runs))
    ]
    for day, count in zip(days, runs, strict=True):
        await pool.execute(SQL["seed_runs"], day.tenant_id, day.brand_id, count, CITATIONS, day.business_date)
    await pool.execute("vacuum analyze")
    return {str(count): await _figures(pool, day) for day, count in zip(days, runs, strict=True)}


async def _figures(pool: Pool, day: DayKey) -> dict[str, Any]:
    return {
        "citations_per_run": CITATIONS,
        "from_scratch": await _measure(pool, day, _forget),
        "one_answer": await _measure(pool, day, _another_answer),
        "unchanged": await _measure(pool, day, _nothing),
        "table_rows": {each.table: await _rows(pool, each.table, day) for each in PROJECTIONS},
    }


async def _measure(pool: Pool, day: DayKey, before: Step) -> dict[str, Any]:
    times, written = [], 0
    for _ in range(REBUILDS):
        async with transaction(pool) as connection:
            await before(connection, day)
        begun = time.perf_counter()
        async with transaction(pool) as connection:
            await connection.execute(QUEUE["one_snapshot"])
            written = await rebuild_day(connection, day)
        times.append((time.perf_counter() - begun) * 1000)
    return {"ms": round(median(times), 1), "rows_written": written, "n": REBUILDS}


async def _forget(connection: Connection, day: DayKey) -> None:
    for each in PROJECTIONS:
        await connection.execute(SQL["forget"].format(table=each.table), *_key(day))


async def _another_answer(connection: Connection, day: DayKey) -> None:
    await connection.execute(SQL["another_answer"], *_key(day))


async def _nothing(connection: Connection, day: DayKey) -> None:
    """The day stays as it is."""


async def _rows(pool: Pool, table: str, day: DayKey) -> int:
    count: int = await pool.fetchval(SQL["count_rows"].format(table=table), *_key(day))
    return count


def _key(day: DayKey) -> tuple[int, int, date]:
    return day.tenant_id, day.brand_id, day.business_date
