"""Daily summary tables, rebuilt one (tenant, brand, business date) at a time (3-results §3.4)."""

from dataclasses import dataclass
from datetime import date

from store.database import Connection, Pool, transaction
from store.listen import PROJECTION, wake
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


async def claim_mark(pool: Pool, name: str, epoch: int) -> Mark | None:
    """Take the oldest due mark for 5 s; None when nothing is due. Raises FencedOut."""
    async with transaction(pool) as connection:
        await hold(connection, name, epoch)
        row = await connection.fetchrow(SQL["claim_mark"])
    if row is None:
        return None
    return Mark(DayKey(row["tenant_id"], row["brand_id"], row["business_date"]), row["version"], row["tries"])


async def rebuild_marked(pool: Pool, name: str, epoch: int, mark: Mark) -> bool:
    """Rebuild the mark's day and drop the mark, in one transaction; False if it was raised meanwhile and stays.

    Idempotent. Raises FencedOut.
    """
    day = mark.day
    async with transaction(pool) as connection:
        await hold(connection, name, epoch)
        await rebuild_day(connection, day)
        key = (day.tenant_id, day.brand_id, day.business_date, mark.version)
        dropped = await connection.execute(SQL["drop_mark"], *key)
        if dropped == "DELETE 1":
            return True
        await connection.execute(SQL["keep_mark"], *key)
        return False


async def rebuild_day(connection: Connection, day: DayKey) -> None:
    """Compute the day's rows from tasks and facts alone; whatever stood there before has no influence."""
    key = (day.tenant_id, day.brand_id, day.business_date)
    await connection.execute(SQL["lock_day"], *key)
    await connection.execute(SQL["forget_day"], *key)
    await connection.execute(SQL["rebuild_platform_days"], *key)
    await connection.execute(SQL["rebuild_brand_days"], *key)


async def postpone(pool: Pool, name: str, epoch: int, mark: Mark, error: str, *, max_tries: int) -> None:
    """Record a failed try: later again, or parked with its error after `max_tries`."""
    day = mark.day
    async with transaction(pool) as connection:
        await hold(connection, name, epoch)
        await connection.execute(SQL["postpone_mark"], day.tenant_id, day.brand_id, day.business_date, error, max_tries)


async def mark_day(connection: Connection, day: DayKey) -> None:
    """Have a brand-day rebuilt, also one that was parked; wakes the rebuilder at commit."""
    await connection.execute(SQL["mark_day"], day.tenant_id, day.brand_id, day.business_date)
    await wake(connection, PROJECTION)
