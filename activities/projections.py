"""The resident that rebuilds marked brand-days (3-results §3.4)."""

import logging
from typing import Final

import asyncpg

from activities.outages import is_outage, through_outages
from domain.errors import FencedOut
from store.database import Pool
from store.listen import PROJECTION, Listener, wait_for_wake
from store.projections import PACE, Mark, Pace, claim_mark, mark_unbuilt, postpone, rebuild_marked

log = logging.getLogger(__name__)

MAX_TRIES: Final = 5
# A mark put off by back-off, or by the rest of its day, is noticed within this many seconds, without a notification.
POLL_SECONDS: Final = 0.5


class ProjectionRebuilder:
    """Rebuilds one brand-day after the other until it is cancelled or fenced out.

    A day that can't be rebuilt holds up no other: it is put off, and parked with its error after 5 tries. A database
    that is away counts no try.
    """

    def __init__(self, pool: Pool, listener: Listener, pace: Pace = PACE) -> None:
        self._pool = pool
        self._listener = listener
        self._pace = pace

    async def run(self, name: str, epoch: int) -> None:
        """Rebuild until cancelled; FencedOut when another holds the resident's lease."""
        wake = self._listener.subscribe(PROJECTION)
        try:
            await through_outages(lambda: mark_unbuilt(self._pool, name, epoch), "projection rebuilder")
            while True:
                if not await through_outages(lambda: self.rebuild_next(name, epoch), "projection rebuilder"):
                    await wait_for_wake(wake, POLL_SECONDS)
        finally:
            self._listener.unsubscribe(PROJECTION, wake)

    async def rebuild_next(self, name: str, epoch: int) -> bool:
        """Rebuild the oldest due day; False when none is due."""
        mark = await claim_mark(self._pool, name, epoch)
        if mark is None:
            return False
        try:
            await rebuild_marked(self._pool, name, epoch, mark, self._pace)
        except FencedOut:
            raise
        except Exception as error:
            await self._put_off(name, epoch, mark, error)
        return True

    async def _put_off(self, name: str, epoch: int, mark: Mark, error: Exception) -> None:
        """A broken database is not the day's fault: no try is counted, the claim lapses by itself. Slowness is."""
        if is_outage(error) and not isinstance(error, TimeoutError | asyncpg.QueryCanceledError):
            raise error
        log.error("projection of %s: %r", mark.day, error)
        await postpone(self._pool, name, epoch, mark, f"{type(error).__name__}: {error}"[:500], max_tries=MAX_TRIES)
