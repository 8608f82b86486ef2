"""One desktop, put together: socket, scheduler, executions, results (2-desktop §2.4)."""

import asyncio
from contextlib import AsyncExitStack, suppress
from random import Random
from typing import Any

import httpx

from desktop.board import Board
from desktop.config import DesktopConfig
from desktop.connection import Connection, is_loopback
from desktop.driver import well
from desktop.events import Observer, Reporter
from desktop.execution import Execution, Tools
from desktop.files import GenerationFile, private_folder
from desktop.health import Health
from desktop.link import DesktopLink
from desktop.posting import Poster
from desktop.proxying import Proxies, Proxying
from desktop.rest import RestClient, RestPolicy
from desktop.results import ResultStore
from desktop.scheduler import Scheduler
from domain.protocol import ClientFrame


def http_client(api_url: str, connections: int = 20) -> httpx.AsyncClient:
    """An HTTP client for one or many desktops of the same server; the caller closes it."""
    return httpx.AsyncClient(
        timeout=httpx.Timeout(15.0, connect=5.0),
        limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
        trust_env=not is_loopback(api_url),
    )


class DesktopClient:
    """A desktop that runs until `stop`. `http` is shared by a fleet; without it the client opens its own."""

    def __init__(
        self,
        config: DesktopConfig,
        observer: Observer | None = None,
        *,
        http: httpx.AsyncClient | None = None,
        policy: RestPolicy | None = None,
        rng: Random | None = None,
    ) -> None:
        self.config = config
        self._reporter = Reporter(config.client_id, observer)
        self._http = http
        self._policy = policy
        self._rng = rng or Random()
        self._stop = asyncio.Event()
        self._finish = False
        self._connection: Connection | None = None

    async def run(self) -> None:
        """Work until `stop` is called. Raises ConnectionRefused when the hub does not want this client."""
        async with AsyncExitStack() as stack:
            http = self._http
            if http is None:
                http = await stack.enter_async_context(http_client(self.config.api_url))
            await self._work(http)

    async def stop(self, *, finish: bool = False) -> None:
        """Begin nothing more, give waiting leases back, post the answers already there, close; `run` then returns.

        `finish` lets running questions come to their end first. Otherwise what has no answer yet is given back too.
        """
        self._finish = finish
        self._stop.set()

    async def sync(self) -> None:
        """Ask the hub for a snapshot now."""
        if self._connection is not None:
            await self._connection.sync()

    async def _work(self, http: httpx.AsyncClient) -> None:
        home = private_folder(self.config.home)
        rest = RestClient(http, self.config.api_url, self.config.token, self._policy)
        store = ResultStore(home / "results")
        poster = Poster(store, rest, self._reporter, self.config.timings.resend, self._rng)
        await poster.load()
        scheduler = self._scheduler(GenerationFile(home / "generation"), rest, poster)
        driver = self.config.driver
        health = Health(poster.keeps_results, lambda: well(driver))
        proxies = Proxies(driver, rest, self._send) if isinstance(driver, Proxying) else None
        link = DesktopLink(self.config, scheduler, poster, self._reporter, health.healthy, proxies)
        self._connection = Connection(self.config, link, self._reporter, self._rng)
        tools = Tools(scheduler, rest, driver, poster, self._reporter, self.config.timings.stale_grace, health)
        loops = [
            asyncio.create_task(scheduler.run(lambda task: Execution(task, tools).run()), name="scheduler"),
            asyncio.create_task(poster.run(), name="resender"),
        ]
        try:
            await self._until_stopped(scheduler, self._connection, loops)
        finally:
            await _cancelled(loops)
            if proxies is not None:
                await proxies.close()

    async def _send(self, frame: ClientFrame) -> bool:
        return self._connection is not None and await self._connection.send(frame)

    def _scheduler(self, kept: GenerationFile, rest: RestClient, poster: Poster) -> Scheduler:
        board = Board(
            self.config.max_concurrent,
            self.config.timings,
            highest_generation=kept.load(),
            result_waits=poster.holds,
        )

        def keep(generation: int) -> None:
            with suppress(OSError):
                kept.save(generation)

        return Scheduler(board, rest, self._reporter, keep)

    async def _until_stopped(
        self, scheduler: Scheduler, connection: Connection, loops: list[asyncio.Task[None]]
    ) -> None:
        """Returns when stopped and drained; raises what a loop or the connection raised."""
        connecting = asyncio.create_task(connection.run(), name="connection")
        stopping = asyncio.create_task(self._stop.wait(), name="stop")
        try:
            done, _ = await asyncio.wait([connecting, stopping, *loops], return_when=asyncio.FIRST_COMPLETED)
            for ended in done - {stopping}:
                ended.result()
            await scheduler.drained(finish=self._finish)
            connection.close()
            await connecting
        finally:
            await _cancelled([connecting, stopping])


async def _cancelled(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
