"""What the desktops did, kept as it happens: who runs what, who gave way to whom, and when the click arrived."""

import asyncio
from dataclasses import dataclass

from desktop.events import DesktopEvent, EventKind
from domain.lanes import Lane
from domain.phases import Phase

ENDS = {EventKind.GAVE_WAY, EventKind.FINISHED, EventKind.DROPPED, EventKind.RETURNED}
# Past its last safe point a task finishes anyway: a click then shows no preemption.
PAST_SAFE_POINTS = {Phase.PARSING, Phase.POSTING}


@dataclass(frozen=True, slots=True)
class Busy:
    """A task that runs on a desktop now."""

    task_id: str
    lane: str
    phase: Phase | None = None


class Journal:
    """The observer of all desktops of the demo."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names
        self.events: list[DesktopEvent] = []
        self._busy: dict[str, dict[str, Busy]] = {}
        self._changed = asyncio.Event()

    def __call__(self, event: DesktopEvent) -> None:
        """Take one event."""
        self.events.append(event)
        tasks = self._busy.setdefault(event.client_id, {})
        if event.kind is EventKind.STARTED and event.task_id and event.lane:
            tasks[event.task_id] = Busy(event.task_id, event.lane)
        elif event.kind is EventKind.PHASE_ENTERED and event.task_id in tasks:
            known = tasks[event.task_id]
            tasks[event.task_id] = Busy(known.task_id, known.lane, event.phase)
        elif event.kind in ENDS and event.task_id:
            tasks.pop(event.task_id, None)
        self._changed.set()

    def preemptible(self, client_id: str) -> int:
        """Scheduled tasks that run on the client and still have a safe point ahead."""
        running = self._busy.get(client_id, {}).values()
        return sum(task.lane != Lane.HIGH and task.phase not in PAST_SAFE_POINTS for task in running)

    async def wait_until_busy(self, client_ids: list[str], slots: int, finished: int, timeout: float) -> str | None:
        """The first client whose slots all run preemptible scheduled tasks, once `finished` questions were answered.

        None after `timeout` seconds.
        """
        try:
            async with asyncio.timeout(timeout):
                while True:
                    busy = [one for one in client_ids if self.preemptible(one) >= slots]
                    if busy and sum(event.kind is EventKind.FINISHED for event in self.events) >= finished:
                        return busy[0]
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return None

    def since(self, monotonic: float) -> list[DesktopEvent]:
        """Events after a moment."""
        return [event for event in self.events if event.monotonic >= monotonic]

    def first_high(self, since: float, kind: EventKind) -> float | None:
        """Milliseconds from `since` to the first high-lane event of the kind."""
        times = [event.monotonic for event in self.since(since) if event.kind is kind and event.lane == Lane.HIGH]
        return round((min(times) - since) * 1000, 1) if times else None

    def gave_way(self, since: float) -> list[DesktopEvent]:
        """Tasks that stopped at a safe point for somebody else."""
        return [event for event in self.since(since) if event.kind is EventKind.GAVE_WAY]
