"""A timer that signals do not restart: each restart would cost two history events."""

import asyncio
from datetime import datetime

from temporalio import workflow


class Alarm:
    """Rings at the earliest time it was set for; setting a later one leaves it as it is."""

    def __init__(self) -> None:
        self._timer: asyncio.Task[None] | None = None
        self._at: datetime | None = None

    def set(self, at: datetime | None) -> None:
        """Ring at `at` at the latest; None asks for nothing."""
        if self._armed and (at is None or (self._at is not None and self._at <= at)):
            return
        self.stop()
        if at is None:
            return
        self._at = at
        wait = max((at - workflow.now()).total_seconds(), 0.001)
        self._timer = asyncio.create_task(asyncio.sleep(wait))

    @property
    def _armed(self) -> bool:
        return self._timer is not None and not self._timer.done()

    @property
    def rang(self) -> bool:
        """True from the set time on, until it is set again."""
        return self._timer is not None and self._timer.done()

    def stop(self) -> None:
        """Forget the timer."""
        if self._timer is not None and not self._timer.done():
            self._timer.cancel()
        self._timer = None
        self._at = None
