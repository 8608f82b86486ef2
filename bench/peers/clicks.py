"""Clicks on desks that are busy: the same moments and the same waiting for everybody who is measured."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, Protocol

SLOTS: Final = 2
# Clicks on one desk: few, so that no scheduled task gives way so often that it is spared (max_preemptions).
CLICKS_A_DESK: Final = 2
# Long enough for anybody's slot to come free by itself.
PATIENCE: Final = 4.0


@dataclass(frozen=True, slots=True)
class Options:
    """How much is measured. Seconds: of a scheduled task, and between its safe points."""

    clicks: int = 10
    task_seconds: float = 30.0
    step_seconds: float = 1.0
    seed: int = 1

    @property
    def desks(self) -> int:
        """Desks with two slots each; the clicks are spread over them."""
        return -(-self.clicks // CLICKS_A_DESK)

    @property
    def backlog(self) -> int:
        """Scheduled tasks a desk: more than it can do while it is clicked on."""
        return SLOTS * (2 * CLICKS_A_DESK * int(PATIENCE))


class Desk(Protocol):
    """Two slots and a backlog of scheduled work."""

    async def busy(self) -> None:
        """Return when both slots run scheduled work."""
        ...

    async def click(self) -> float:
        """Ask for one urgent task; returns the `time.monotonic` at which it was started. It ends at once."""
        ...


async def measure_clicks(desks: Sequence[Desk], options: Options) -> list[float]:
    """Milliseconds from each click to its start. Desks are clicked on side by side, each at random moments."""
    per_desk = await asyncio.gather(*(_one_desk(desk, number, options) for number, desk in enumerate(desks)))
    return [figure for figures in per_desk for figure in figures][: options.clicks]


async def _one_desk(desk: Desk, number: int, options: Options) -> list[float]:
    random, figures = Random(f"{options.seed}:{number}"), []
    for _ in range(CLICKS_A_DESK):
        await desk.busy()
        # Any moment of a scheduled task is as likely as any other.
        await asyncio.sleep(random.uniform(0.0, options.task_seconds))
        await desk.busy()
        began = time.monotonic()
        async with asyncio.timeout(PATIENCE * options.task_seconds + 60):
            figures.append((await desk.click() - began) * 1000)
    return figures


class Slots:
    """Counts what runs on a peer's desk, and says when both slots are taken and when a click's task began."""

    def __init__(self) -> None:
        self._running = 0
        self._changed = asyncio.Condition()
        self._started: asyncio.Queue[float] = asyncio.Queue()

    async def work(self, seconds: float) -> None:
        """A scheduled task; nothing interrupts it."""
        await self._count(1)
        try:
            await asyncio.sleep(seconds)
        finally:
            await self._count(-1)

    async def begin_clicked(self) -> None:
        """The clicked task: started, and over."""
        self._started.put_nowait(time.monotonic())

    async def busy(self) -> None:
        """Return when both slots run scheduled work."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._running >= SLOTS)

    async def started(self) -> float:
        """When the clicked task was started."""
        return await self._started.get()

    async def _count(self, by: int) -> None:
        async with self._changed:
            self._running += by
            self._changed.notify_all()
