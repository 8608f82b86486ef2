"""Waiting for a condition, never for a time."""

import asyncio
from collections.abc import Callable

from desktop.events import DesktopEvent, EventKind

PATIENCE = 30.0


class Signal:
    """Wakes whoever waits for a condition each time something has changed."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def changed(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, condition: Callable[[], bool], what: str = "the condition") -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while not condition():
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"{what} did not come true in {PATIENCE:.0f} s") from None


class Record:
    """An observer that keeps every event and can be waited on."""

    def __init__(self) -> None:
        self.events: list[DesktopEvent] = []
        self._signal = Signal()

    def __call__(self, event: DesktopEvent) -> None:
        self.events.append(event)
        self._signal.changed()

    def of(self, kind: EventKind, task_id: str | None = None) -> list[DesktopEvent]:
        return [e for e in self.events if e.kind is kind and task_id in (None, e.task_id)]

    async def seen(self, kind: EventKind, task_id: str | None = None, count: int = 1) -> DesktopEvent:
        """The count-th event of the kind, once it has come."""
        await self._signal.until(lambda: len(self.of(kind, task_id)) >= count, f"{count} × {kind}")
        return self.of(kind, task_id)[count - 1]
