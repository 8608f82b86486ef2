"""Procrastinate: one worker process that takes no-op tasks until the queue is empty."""

import logging
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, Final

# Its worker takes one job a statement; more jobs at once is its one documented way to go faster.
CONCURRENCIES: Final = (10, 50)


async def measure(url: str, jobs: int, say: Callable[[str], None]) -> dict[str, Any]:
    """The best rate of its settings, in tasks a second; each run on a queue of its own."""
    import procrastinate

    logging.getLogger("procrastinate").setLevel(logging.ERROR)
    connector = procrastinate.PsycopgConnector(conninfo=url, max_size=max(CONCURRENCIES) + 2)
    app = procrastinate.App(connector=connector)

    @app.task(name="nothing", pass_context=False)
    async def nothing() -> None:
        """No work."""

    rates = {}
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for concurrency in CONCURRENCIES:
            queue = f"bench-{concurrency}"
            await nothing.configure(queue=queue).batch_defer_async(*[{} for _ in range(jobs)])
            began = time.perf_counter()
            await app.run_worker_async(
                queues=[queue],
                concurrency=concurrency,
                wait=False,
                listen_notify=False,
                install_signal_handlers=False,
                delete_jobs="always",
            )
            rates[concurrency] = jobs / (time.perf_counter() - began)
    best = max(rates, key=lambda concurrency: rates[concurrency])
    say(f"Procrastinate: {rates[best]:,.0f} tasks/s")
    return {
        "name": "procrastinate",
        "version": version("procrastinate"),
        "tasks_per_second": round(rates[best]),
        "settings": {
            "concurrency": best,
            "delete_jobs": "always",
            "tried": {str(key): round(rates[key]) for key in rates},
        },
        "jobs": jobs,
    }
