"""Notices that this process stood still: a laptop that slept, a frozen virtual machine, a SIGSTOP."""

import time
from collections.abc import Callable


class NapWatch:
    """Measures the time between two looks on both clocks.

    The monotonic clock of Linux and macOS stands still while the machine sleeps, so timers and pings notice nothing.
    """

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._steady = steady
        self._seen = wall(), steady()

    def look(self) -> float:
        """Seconds since the last look, by the clock that moved more. (A wall clock that is set counts as sleep.)"""
        before, self._seen = self._seen, (self._wall(), self._steady())
        return max(now - then for now, then in zip(self._seen, before, strict=True))
