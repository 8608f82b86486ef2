"""PgQueuer: one queue manager that drains no-op jobs."""

import logging
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, Final

import asyncpg

# Its documented lever: jobs a dequeue. The default and larger ones.
BATCH_SIZES: Final = (10, 100, 1000)


async def measure(url: str, jobs: int, say: Callable[[str], None]) -> dict[str, Any]:
    """The best rate of its batch sizes, in tasks a second."""
    logging.getLogger("pgqueuer").setLevel(logging.ERROR)
    rates = {size: await _run(url, jobs, size, install=size == BATCH_SIZES[0]) for size in BATCH_SIZES}
    best = max(rates, key=lambda size: rates[size])
    say(f"PgQueuer: {rates[best]:,.0f} tasks/s")
    return {
        "name": "pgqueuer",
        "version": version("pgqueuer"),
        "tasks_per_second": round(rates[best]),
        "settings": {"batch_size": best, "mode": "drain", "tried": {str(size): round(rates[size]) for size in rates}},
        "jobs": jobs,
    }


async def _run(url: str, jobs: int, batch_size: int, *, install: bool) -> float:
    from pgqueuer import AsyncpgDriver, Job, Queries, QueueManager
    from pgqueuer.types import QueueExecutionMode

    connection = await asyncpg.connect(url)
    try:
        driver = AsyncpgDriver(connection)
        queries = Queries(driver)
        if install:
            await queries.install()
        await queries.enqueue(["nothing"] * jobs, [None] * jobs, [0] * jobs)
        manager = QueueManager(queries)

        @manager.entrypoint("nothing")
        async def nothing(_job: Job) -> None:
            """No work."""

        began = time.perf_counter()
        await manager.run(batch_size=batch_size, mode=QueueExecutionMode.drain)
        return jobs / (time.perf_counter() - began)
    finally:
        await connection.close()
