"""How often an endpoint is asked: our own limit, and the pause that it asked for itself."""

import asyncio
import time

from aiolimiter import AsyncLimiter

from desktop.openai.endpoints import Endpoint


class Pace:
    """The turns of one endpoint, first come first served, for all desktops of the process."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._limiter = None if endpoint.requests is None else AsyncLimiter(endpoint.requests, endpoint.per)
        self._longest = endpoint.patience
        self._not_before = 0.0

    async def turn(self) -> None:
        """Returns when a question may be sent."""
        while (wait := self._not_before - time.monotonic()) > 0:
            await asyncio.sleep(wait)
        await self.again()

    async def again(self) -> None:
        """A further try of a question that has had its turn counts against our limit too."""
        if self._limiter is not None:
            await self._limiter.acquire()

    def hold(self, seconds: float) -> None:
        """The endpoint wants to be left alone so long; heeded up to its patience, so that no slot is held for hours."""
        self._not_before = max(self._not_before, time.monotonic() + min(seconds, self._longest))
