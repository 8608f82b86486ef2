"""Turns at the backend: a bounded number at once, and who has begun goes before who has not (ADR 0048)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from itertools import count
from typing import Final


class Turns:
    """A semaphore with two waiting lines, each in the order of arrival.

    In one line a herd would get through its stages side by side, the first snapshot coming when most of the work is
    done: clients that wait only so long would leave before, and come again, and the work was for nothing.
    """

    def __init__(self, most: int) -> None:
        self._free = most
        self._numbers: Final = count()
        self._waiting: list[tuple[bool, int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def take(self, *, begun: bool) -> AsyncIterator[None]:
        """A turn, while entered. `begun`: before everybody who has not."""
        await self._wait(begun)
        try:
            yield
        finally:
            self._give_back()

    async def _wait(self, begun: bool) -> None:
        turn = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (not begun, next(self._numbers), turn))
        self._pass_on()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                # It came in the moment of the cancel.
                self._give_back()
            raise

    def _give_back(self) -> None:
        self._free += 1
        self._pass_on()

    def _pass_on(self) -> None:
        while self._free and self._waiting:
            *_, turn = heappop(self._waiting)
            if not turn.done():
                self._free -= 1
                turn.set_result(None)
