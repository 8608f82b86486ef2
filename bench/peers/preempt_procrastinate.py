"""Procrastinate with priorities: a worker of two slots a desk, busy with scheduled jobs when the urgent one comes."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from typing import Any, Final

from bench.figures import summary
from bench.peers.clicks import SLOTS, Options, Slots, measure_clicks

URGENT: Final = 100
SHUTDOWN_SECONDS: Final = 1


async def measure(url: str, options: Options) -> dict[str, Any]:
    """Click to started in ms, with how it was configured. `url`: an empty database."""
    import procrastinate

    logging.getLogger("procrastinate").setLevel(logging.CRITICAL)
    slots = [Slots() for _ in range(options.desks)]
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, max_size=3 * options.desks + 2))

    @app.task(name="scheduled", pass_context=False)
    async def scheduled(desk: int, seconds: float) -> None:
        await slots[desk].work(seconds)

    @app.task(name="clicked", pass_context=False)
    async def clicked(desk: int) -> None:
        await slots[desk].begin_clicked()

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for desk in range(options.desks):
            jobs: list[dict[str, Any]] = [{"desk": desk, "seconds": options.task_seconds}] * options.backlog
            await scheduled.configure(queue=f"desk-{desk}").batch_defer_async(*jobs)
        async with AsyncExitStack() as workers:
            for desk in range(options.desks):
                await workers.enter_async_context(_worker(app, f"desk-{desk}"))
            desks = [_Desk(slots[desk], clicked, desk) for desk in range(options.desks)]
            figures = await measure_clicks(desks, options)
    return {
        "name": "procrastinate",
        "version": version("procrastinate"),
        "configured": f"a worker with concurrency {SLOTS} a desk, LISTEN on, the clicked job at priority {URGENT}",
        "interrupts": False,
        "click_to_started_ms": summary(figures),
    }


class _Desk:
    def __init__(self, slots: Slots, clicked: Any, number: int) -> None:
        self._slots = slots
        self._clicked = clicked
        self._number = number

    async def busy(self) -> None:
        await self._slots.busy()

    async def click(self) -> float:
        configured = self._clicked.configure(queue=f"desk-{self._number}", priority=URGENT)
        await configured.defer_async(desk=self._number)
        return await self._slots.started()


@asynccontextmanager
async def _worker(app: Any, queue: str) -> AsyncIterator[None]:
    """A worker of one desk, at work until the end of the block; the job under way then is dropped."""
    running = asyncio.create_task(
        app.run_worker_async(
            queues=[queue],
            name=queue,
            concurrency=SLOTS,
            install_signal_handlers=False,
            delete_jobs="always",
            shutdown_graceful_timeout=SHUTDOWN_SECONDS,
        )
    )
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
