"""Waiting until something is so, with a bound that turns into a verdict."""

import asyncio
from collections.abc import Callable

from desktop.conformance.verdict import RuleBroken


class Signal:
    """Wakes whoever waits each time something has changed."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def changed(self) -> None:
        """Something is new."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(
        self,
        condition: Callable[[], object],
        seconds: float,
        expected: str,
        seen: Callable[[], object] = lambda: "nothing",
    ) -> None:
        """Wait for the condition; RuleBroken after `seconds`."""
        if not await self.comes(condition, seconds):
            raise RuleBroken(f"{expected} within {seconds:g} s", seen())

    async def comes(self, condition: Callable[[], object], seconds: float) -> bool:
        """Whether the condition comes true within `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    await self._changed.wait()
        except TimeoutError:
            return bool(condition())
        return True
