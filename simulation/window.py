"""Dispatches of the last minute: the sliding windows of the cluster and of each tenant."""

from collections import deque
from typing import Final

MINUTE: Final = 60.0


class Window:
    """Seconds of the dispatches of the last minute, those of scheduled work apart."""

    __slots__ = ("_all", "_scheduled", "highest")

    def __init__(self) -> None:
        self._all: deque[float] = deque()
        self._scheduled: deque[float] = deque()
        self.highest = 0

    def add(self, now: float, scheduled: bool) -> None:
        """Count a dispatch."""
        self._all.append(now)
        if scheduled:
            self._scheduled.append(now)
        self.highest = max(self.highest, self.total(now))

    def total(self, now: float) -> int:
        """How many in the minute before `now`."""
        return _trimmed(self._all, now)

    def scheduled(self, now: float) -> int:
        """How many of them were scheduled work."""
        return _trimmed(self._scheduled, now)

    def frees_at(self, limit: int) -> float | None:
        """When fewer than `limit` will be left, if nothing comes; None if there is no such time or it is now."""
        if limit <= 0 or len(self._all) < limit:
            return None
        return self._all[len(self._all) - limit] + MINUTE


def _trimmed(times: deque[float], now: float) -> int:
    # As frees_at reckons: the difference could be a rounding error smaller.
    while times and times[0] + MINUTE <= now:
        times.popleft()
    return len(times)
