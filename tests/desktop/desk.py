"""A desktop that runs beside a test."""

import asyncio
from random import Random
from types import TracebackType
from typing import Self

from desktop.client import DesktopClient
from desktop.config import DesktopConfig
from desktop.connection import ConnectionRefused
from desktop.events import EventKind
from desktop.rest import RestPolicy
from tests.desktop.waiting import Record


class Desk:
    """A running client with the record of its events."""

    def __init__(self, config: DesktopConfig, policy: RestPolicy, rng: Random | None = None) -> None:
        self.record = Record()
        self.client = DesktopClient(config, self.record, policy=policy, rng=rng)
        self.running: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self.running = asyncio.create_task(self.client.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.kill()

    async def connected(self, count: int = 1) -> None:
        await self.record.seen(EventKind.CONNECTED, count=count)

    async def stop(self, *, finish: bool = False) -> None:
        """Ask for the orderly end and wait for it."""
        await self.client.stop(finish=finish)
        assert self.running is not None
        await asyncio.wait_for(self.running, 30)

    async def refused(self) -> ConnectionRefused:
        """Wait for the refusal that ends the client."""
        assert self.running is not None
        await asyncio.wait([self.running], timeout=30)
        error = self.running.exception()
        assert isinstance(error, ConnectionRefused)
        return error

    async def kill(self) -> None:
        """End it as a crash would: nothing is given back."""
        assert self.running is not None
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)
