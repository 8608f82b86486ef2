"""The time that a phase may take."""

import asyncio
from collections.abc import Callable


class ClockStopped:
    """The phase's deadline moves on by the time spent inside, which may be `seconds` at most."""

    def __init__(self, limit: asyncio.Timeout, seconds: float, moved: Callable[[float], None]) -> None:
        self._limit = limit
        self._seconds = seconds
        self._moved = moved
        self._left = 0.0

    async def __aenter__(self) -> None:
        deadline = self._limit.when()
        assert deadline is not None
        now = asyncio.get_running_loop().time()
        self._left = deadline - now
        self._limit.reschedule(now + self._seconds)

    async def __aexit__(self, *_: object) -> None:
        deadline = asyncio.get_running_loop().time() + self._left
        # One that has run out cannot be moved; it is being raised.
        if not self._limit.expired():
            self._limit.reschedule(deadline)
        self._moved(deadline)
