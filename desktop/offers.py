"""Legacy offers: what this desktop may pull, and when it asks (1-dispatch §1.7, dispatch §14.3).

An offer is a signal to pull, nothing more: the server decides at the pull what is leased. Part of the board: without
time and without I/O.
"""

from desktop.local_task import LocalTask
from domain.protocol import TaskAvailable


class Offers:
    """What stands on offer here, as far as is known. `pause`: seconds until it asks again for what it did not get."""

    def __init__(self, pause: float) -> None:
        self._pause = pause
        self._standing: dict[str, TaskAvailable] = {}
        # The server has offers that it did not tell us of, or whose frames were lost.
        self._more = False
        # Those that the pull under way will answer for; None: there is none under way.
        self._asked: frozenset[str] | None = None
        self._not_before = 0.0

    def announce(self, frame: TaskAvailable) -> None:
        """The server offers a task."""
        self._standing[frame.task_id] = frame

    def ask(self, free: int, now: float) -> int:
        """How many to pull now, with so many free slots; 0: do not ask. The answer comes to `answered` or `failed`."""
        if free <= 0 or not self._ready(now):
            return 0
        self._asked = frozenset(self._standing)
        return free

    def answered(self, taken: frozenset[str], remaining: int, now: float) -> None:
        """The pull's answer: these tasks are leased now, so many more stand for lack of a slot."""
        asked, self._asked = self._asked or frozenset(), None
        for task_id in taken if remaining else taken | asked:
            self._standing.pop(task_id, None)
        self._more = remaining > len(self._standing)
        self._not_before = now + self._pause if remaining else now

    def failed(self, now: float) -> None:
        """No answer: what it leased runs out; the rest still stands."""
        self._asked, self._not_before = None, now + self._pause

    def outranks(self, task: LocalTask, now: float) -> bool:
        """Whether a slot is better kept for an offer that is being pulled, or may be now, than given to this task."""
        if task.publishes or not self._standing or not (self._asked or self._ready(now)):
            return False
        best = max((offer.lane_weight, offer.priority) for offer in self._standing.values())
        return best > (task.frame.lane_weight, task.frame.priority)

    def wakes_in(self, now: float) -> list[float]:
        """Seconds until it may ask again, if it waits for that."""
        waits = self._asked is None and (self._more or bool(self._standing)) and self._not_before > now
        return [self._not_before - now] if waits else []

    def _ready(self, now: float) -> bool:
        return (self._more or bool(self._standing)) and self._asked is None and self._not_before <= now
