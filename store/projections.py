"""Daily summary tables, rebuilt one (tenant, brand, business date) at a time, and the queue of marks (3-results §3.4).

A mark says that a brand-day has changed since it was last built. What is computed is in `store/projection_tables.py`.
"""

from dataclasses import dataclass
from datetime import date, datetime
from typing import Final

from store.database import Connection, Pool, transaction
from store.listen import PROJECTION, wake
from store.projection_tables import sync_day
from store.residents import hold
from store.statements import statements

SQL = statements("projections")


@dataclass(frozen=True, slots=True)
class DayKey:
    """What one rebuild covers."""

    tenant_id: int
    brand_id: int
    business_date: date


@dataclass(frozen=True, slots=True)
class Mark:
    """A claimed wish to rebuild. `version`: the mark goes only if nobody has raised it since."""

    day: DayKey
    version: int
    tries: int


@dataclass(frozen=True, slots=True)
class ParkedMark:
    """A day given up after `tries` failures: a dead letter. `marked_at`: since when its rows are out of date."""

    day: DayKey
    tries: int
    marked_at: datetime
    failed_at: datetime | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a day rests after a rebuild: `times` as long as that took, within bounds in milliseconds."""

    times: float = 4.0
    least_ms: float = 500.0
    most_ms: float = 10_000.0


PACE: Final = Pace()


async def claim_mark(pool: Pool, name: str, epoch: int) -> Mark | None:
    """Take the oldest due mark for 5 s; None when nothing is due. Raises FencedOut."""
    async with transaction(pool) as connection:
        await hold(connection, name, epoch)
        row = await connection.fetchrow(SQL["claim_mark"])
    if row is None:
        return None
    return Mark(DayKey(row["tenant_id"], row["brand_id"], row["business_date"]), row["version"], row["tries"])


async def rebuild_marked(pool: Pool, name: str, epoch: int, mark: Mark, pace: Pace = PACE) -> bool:
    """Rebuild the mark's day in one transaction, then drop the mark; False if it was raised meanwhile and stays.

    Idempotent: a mark that outlives a crash in between is rebuilt once more. Raises FencedOut.
    """
    async with transaction(pool) as connection:
        await connection.execute(SQL["one_snapshot"])
        await hold(connection, name, epoch)
        await rebuild_day(connection, mark.day, pace)
    async with transaction(pool) as connection:
        await hold(connection, name, epoch)
        return await _drop(connection, mark)


async def _drop(connection: Connection, mark: Mark) -> bool:
    key = (*_key(mark.day), mark.version)
    if await connection.execute(SQL["drop_mark"], *key) == "DELETE 1":
        return True
    await connection.execute(SQL["keep_mark"], *key)
    return False


async def rebuild_day(connection: Connection, day: DayKey, pace: Pace = PACE) -> int:
    """Compute the day's rows from tasks and facts alone; returns how many of them had to be written.

    Whatever stood there before has no influence. Readers see the old rows until the caller's transaction commits. It
    should be one of repeatable reads, or a result that comes in between is in some of the tables only.
    """
    changed = await sync_day(connection, *_key(day))
    await connection.execute(SQL["note_rebuild"], *_key(day), changed, pace.times, pace.least_ms, pace.most_ms)
    return changed


async def postpone(pool: Pool, name: str, epoch: int, mark: Mark, error: str, *, max_tries: int) -> None:
    """Record a failed try: later again, or parked with its error after `max_tries`. The mark keeps its age."""
    async with transaction(pool) as connection:
        await hold(connection, name, epoch)
        await connection.execute(SQL["postpone_mark"], *_key(mark.day), error, max_tries)


async def mark_day(connection: Connection, day: DayKey) -> None:
    """Have a brand-day rebuilt, also one that was parked; wakes the rebuilder at commit."""
    await connection.execute(SQL["mark_day"], *_key(day))
    await wake(connection, PROJECTION)


async def mark_brand(connection: Connection, tenant_id: int, brand_id: int) -> None:
    """Have all days of a brand rebuilt that have rows, one a second: its topics or competitors have changed."""
    await connection.execute(SQL["mark_brand"], tenant_id, brand_id)
    await wake(connection, PROJECTION)


async def mark_wording(connection: Connection, tenant_id: int, brand_id: int, question_id: int) -> None:
    """Have the days rebuilt on which a change of the question's text decides which answers count."""
    await connection.execute(SQL["mark_wording"], tenant_id, brand_id, question_id)
    await wake(connection, PROJECTION)


async def mark_unbuilt(pool: Pool, name: str, epoch: int) -> None:
    """Have the days rebuilt, one a second, that were built before all ten tables were there. Raises FencedOut."""
    async with transaction(pool) as connection:
        await hold(connection, name, epoch)
        await connection.execute(SQL["mark_unbuilt"])


async def parked_marks(pool: Pool, limit: int) -> list[ParkedMark]:
    """The projections' dead letters, the oldest first."""
    return [
        ParkedMark(
            DayKey(row["tenant_id"], row["brand_id"], row["business_date"]),
            row["tries"],
            row["marked_at"],
            row["failed_at"],
            row["last_error"],
        )
        for row in await pool.fetch(SQL["parked_marks"], limit)
    ]


async def replay_mark(pool: Pool, day: DayKey) -> bool:
    """Have a parked day tried again, from its first try on; False if it is not parked."""
    async with transaction(pool) as connection:
        if await connection.fetchval(SQL["replay_mark"], *_key(day)) is None:
            return False
        await wake(connection, PROJECTION)
        return True


def _key(day: DayKey) -> tuple[int, int, date]:
    return day.tenant_id, day.brand_id, day.business_date
