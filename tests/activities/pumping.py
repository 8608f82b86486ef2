"""What both pumps' tests need: rows in, outcomes out, and a pump that runs in the background."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from store import residents
from store.database import Pool, transaction
from store.outbox import OutboxRow, write_outbox

Run = Callable[[str, int], Awaitable[None]]
NAME = "pump-under-test"


async def write(pool: Pool, *rows: OutboxRow) -> None:
    """Commit rows as an effect does."""
    async with transaction(pool) as connection:
        await write_outbox(connection, rows)


async def rows_of(pool: Pool) -> list[dict[str, Any]]:
    """The whole outbox, in id order."""
    return [dict(row) for row in await pool.fetch("select * from outbox order by id")]


async def outcomes(pool: Pool) -> list[str | None]:
    """The outcome of every row."""
    return [row["outcome"] for row in await rows_of(pool)]


async def until_outcomes(pool: Pool, condition: Callable[[list[str | None]], bool]) -> list[str | None]:
    """Wait for the outbox to look like that."""
    async with asyncio.timeout(30):
        while not condition(found := await outcomes(pool)):
            await asyncio.sleep(0.01)
        return found


async def until_settled(pool: Pool) -> list[str | None]:
    """Wait until every row has left the outbox."""
    return await until_outcomes(pool, lambda found: None not in found)


@asynccontextmanager
async def pumping(pool: Pool, run: Run) -> AsyncIterator["asyncio.Task[None]"]:
    """The pump as a resident with the newest epoch."""
    epoch = await residents.take(pool, NAME, "test")
    task = asyncio.ensure_future(run(NAME, epoch))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
