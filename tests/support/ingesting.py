"""An ingest shard at work inside a test."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from activities.ingest import IngestShard
from store.database import Pool
from store.raw_answers import RawAnswers
from store.residents import take
from tests.support.result_queues import SHARD, ResultQueue

NAME = f"ingest/{SHARD}"


@asynccontextmanager
async def running(pool: Pool, ingest: IngestShard, shard: int = SHARD) -> AsyncIterator[asyncio.Task[None]]:
    """The shard's resident, running; stopped like a process that dies: at once."""
    name = f"ingest/{shard}"
    task = asyncio.create_task(ingest.run(name, await take(pool, name, "test"), shard))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def ingesting(
    pool: Pool, queue: ResultQueue, raw: RawAnswers, *, retry_pause: float = 0.01
) -> AsyncIterator[asyncio.Task[None]]:
    """The resident of the queue's shard, running."""
    ingest = IngestShard(pool, queue.consumer, raw, queue.dead_letter, retry_pause=retry_pause)
    async with running(pool, ingest) as task:
        yield task
