"""The end of a hub: everybody is sent to another one, spread over a few seconds, and nobody holds it up (ADR 0048)."""

import asyncio
import logging
import math
from collections.abc import Sequence
from contextlib import suppress
from random import shuffle
from typing import Final, TypeVar

from websockets.asyncio.server import Server, ServerConnection

from domain.protocol import CloseCode
from hub.ports import Limits

log = logging.getLogger(__name__)

T = TypeVar("T")

STEP_SECONDS: Final = 0.05
# Of the time to stop, what is left to the reports after the last connection.
REPORTS_SHARE: Final = 0.25
# What a second signal still grants the close frames to get out.
HURRIED_SECONDS: Final = 0.5


class Drain:
    """Ends all connections of a server. `hurry` may be set at any time: what is left of the spread is skipped."""

    def __init__(self, server: Server, limits: Limits, hurry: asyncio.Event) -> None:
        self._server = server
        self._limits = limits
        self._hurry = hurry
        self._closes: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Close with 1012 until nobody is here; after three quarters of `drain_seconds` the rest is cut off."""
        until = asyncio.get_running_loop().time() + self._limits.drain_seconds * (1 - REPORTS_SHARE)
        await self._send_away()
        if not await self._left(until):
            await self._cut_off()

    async def _send_away(self) -> None:
        # In any order: those who came together do not leave together.
        sockets = list(self._server.all_connections)
        shuffle(sockets)
        batches = in_steps(sockets, spread := spread_seconds(len(sockets), self._limits))
        for batch in batches:
            for socket in batch:
                self._close(socket)
            await self._pause(spread / len(batches))
        # Those who got in at the last moment.
        for socket in list(self._server.connections):
            self._close(socket)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurry.wait()

    def _close(self, socket: ServerConnection) -> None:
        task = asyncio.create_task(socket.close(CloseCode.SERVICE_RESTART, "service restart"))
        self._closes.add(task)
        task.add_done_callback(self._closes.discard)

    async def _left(self, until: float) -> bool:
        """Wait for everybody; False when somebody is still here, out of time or in a hurry."""
        ended = asyncio.create_task(self._server.wait_closed())
        hurried = asyncio.create_task(self._hurry.wait())
        left = until - asyncio.get_running_loop().time()
        done, _ = await asyncio.wait({ended, hurried}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if ended not in done and hurried in done:
            done, _ = await asyncio.wait({ended}, timeout=HURRIED_SECONDS)
        for task in (ended, hurried):
            task.cancel()
        return ended in done

    async def _cut_off(self) -> None:
        handlers = list(self._server.handler_tasks)
        log.warning("%d connections did not end in time", len(handlers))
        for connection in list(self._server.all_connections):
            connection.transport.abort()
        tasks = {*handlers, *self._closes}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=STEP_SECONDS)


def spread_seconds(connections: int, limits: Limits) -> float:
    """Over how long the closes of so many connections are spread: few end at once, a full hub takes its time."""
    return min(limits.drain_spread_seconds, connections / limits.drain_closes_per_second)


def in_steps(sockets: Sequence[T], seconds: float) -> list[Sequence[T]]:
    """The sockets in about equal parts, one for each step of the time."""
    steps = max(1, min(len(sockets), round(seconds / STEP_SECONDS)))
    size = math.ceil(len(sockets) / steps)
    return [sockets[start : start + size] for start in range(0, len(sockets), max(1, size))]
