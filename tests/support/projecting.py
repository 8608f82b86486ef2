"""Facts of answers and rebuilds of a brand-day, for the tests of the projections."""

from collections.abc import Sequence
from datetime import date
from typing import Any

from activities.interpret import interpret
from store.database import Pool, transaction
from store.facts import read_brands, read_contexts, write_facts
from store.projection_tables import PROJECTIONS
from store.projections import SQL, DayKey, rebuild_day
from tests.support.results import chat_answer, failure, result
from tests.support.world import BUSINESS_DATE, Desktop, Lease, World

TABLES = tuple(each.table for each in PROJECTIONS)

# When a row was written is no figure.
NO_FIGURES = ("rebuilt_at",)


def day_of(world: World, business_date: date = BUSINESS_DATE) -> DayKey:
    """The world's brand on that day."""
    return DayKey(world.tenant_id, world.brand_id, business_date)


async def store(world: World, lease: Lease, client: Desktop, text: str | None, *urls: str) -> None:
    """The facts of one result: an answer with this text, or a failure for None."""
    answer = result(world, lease, client, raw=chat_answer(text or "", urls=urls))
    message = failure(world, lease, client) if text is None else answer
    context = (await read_contexts(world.pool, [(lease.attempt_id, world.tenant_id)]))[lease.attempt_id]
    brands = await read_brands(world.pool, [(world.tenant_id, world.brand_id)])
    async with transaction(world.pool) as connection:
        await write_facts(connection, [interpret(message, context, brands[world.brand_id], None).fact])


async def answered(world: World, client: Desktop, text: str | None, *urls: str, platform: str = "qwen") -> Lease:
    """A question of its own with its answer."""
    lease = await world.leased(client, platform=platform)
    await store(world, lease, client, text, *urls)
    return lease


async def rebuild_rows(pool: Pool, day: DayKey) -> int:
    """Rebuild the day as the resident does; how many rows were written."""
    async with transaction(pool) as connection:
        await connection.execute(SQL["one_snapshot"])
        return await rebuild_day(connection, day)


async def rebuild(world: World) -> dict[str, Any] | None:
    """The brand's row of the standard mode after a rebuild."""
    await rebuild_rows(world.pool, day_of(world))
    rows = await rows_of(world, "monitoring_brand_daily", run_mode="api_standard")
    return rows[0] if rows else None


async def rows_of(world: World, table: str, **where: Any) -> list[dict[str, Any]]:
    """The brand's rows, ordered by their columns, of those with these values."""
    rows = await world.pool.fetch(f"select * from {table} t where brand_id = $1 order by t::text", world.brand_id)
    return [dict(row) for row in rows if all(row[name] == value for name, value in where.items())]


async def competitor(world: World, name: str = "Globex") -> int:
    """A competitor of the brand, there before any answer that is stored afterwards."""
    rival: int = await world.pool.fetchval(
        "insert into competitors (tenant_id, brand_id, name) values ($1, $2, $3) returning id",
        world.tenant_id,
        world.brand_id,
        name,
    )
    return rival


async def topic(world: World, name: str) -> int:
    """A topic of the brand."""
    made: int = await world.pool.fetchval(
        "insert into topics (tenant_id, brand_id, name) values ($1, $2, $3) returning id",
        world.tenant_id,
        world.brand_id,
        name,
    )
    return made


async def question_of(world: World, lease: Lease) -> int:
    """The question that was asked."""
    question: int = (await world.business(lease.business_id))["question_id"]
    return question


def counts(row: dict[str, Any] | None) -> tuple[int, ...]:
    """expected, collected, failed, missing."""
    assert row is not None
    return row["expected_count"], row["collected_count"], row["failed_count"], row["missing_count"]


async def picture(world: World) -> dict[str, Sequence[Any]]:
    """All figures of the brand in all tables."""
    rows = {table: await rows_of(world, table) for table in TABLES}
    return {
        table: sorted(repr({name: value for name, value in row.items() if name not in NO_FIGURES}) for row in found)
        for table, found in rows.items()
    }
