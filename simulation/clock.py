"""Virtual time: a heap of events, each a call at its second. Ties go in the order in which they were planned."""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

Call = Callable[..., object]


class Clock:
    """Seconds since the run began; nothing here looks at a real clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.events = 0
        self._heap: list[tuple[float, int, Call, tuple[Any, ...]]] = []
        self._planned = 0

    def at(self, time: float, call: Call, *arguments: Any) -> None:
        """Plan a call; one in the past happens now."""
        self._planned += 1
        heappush(self._heap, (max(time, self.now), self._planned, call, arguments))

    def after(self, seconds: float, call: Call, *arguments: Any) -> None:
        """Plan a call so many seconds from now."""
        self.at(self.now + seconds, call, *arguments)

    def run(self, until: float) -> None:
        """Everything planned up to this second, in order; then it is that second."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            self.now, _, call, arguments = heappop(heap)
            self.events += 1
            call(*arguments)
        self.now = until

    def drain(self) -> None:
        """Everything planned, however late."""
        while self._heap:
            self.run(self._heap[0][0])
