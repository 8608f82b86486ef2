"""Many small reports in one call: heartbeats, pushed tasks, announcements to the other hubs."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Generic, TypeVar

from telemetry.metrics import hub_folded

log = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")

FIRST_PAUSE = 0.2
LONGEST_PAUSE = 5.0


class Folder(Generic[K, V]):
    """Collects items, the newest for each key, and hands them over together, one call in flight at a time.

    `delay`: seconds from the first item to the call. A call that raises is repeated with back-off, newer items taking
    the place of older ones.
    """

    def __init__(self, name: str, hand_over: Callable[[Mapping[K, V]], Awaitable[None]], *, delay: float = 0.0) -> None:
        self._name = name
        self._hand_over = hand_over
        self._delay = delay
        self._items: dict[K, V] = {}
        self._task: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()

    def add(self, key: K, value: V) -> None:
        """Take an item; never waits."""
        self._items[key] = value
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"fold-{self._name}")

    async def _run(self) -> None:
        pause = FIRST_PAUSE
        try:
            while self._items:
                await self._wait(self._delay)
                items, self._items = self._items, {}
                hub_folded.labels(self._name).observe(len(items))
                try:
                    await self._hand_over(items)
                    pause = FIRST_PAUSE
                except Exception as error:
                    log.warning("%s: %d reports wait %.1f s: %r", self._name, len(items), pause, error)
                    self._items = {**items, **self._items}
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, LONGEST_PAUSE)
        finally:
            self._task = None

    async def _wait(self, seconds: float) -> None:
        if seconds:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._hurry.wait()

    async def finish(self, seconds: float) -> None:
        """Hand over what is left, for at most `seconds`; then give up."""
        self._hurry.set()
        task = self._task
        if task is not None:
            await asyncio.wait({task}, timeout=seconds)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
