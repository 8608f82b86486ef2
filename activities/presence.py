"""The presence sweeper: silence and lease expiry take effect within a second or two (2-desktop §2.1, §2.2)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

import asyncpg

from activities.outages import is_outage, through_outages
from domain.errors import FencedOut
from domain.protocol import SILENCE_SECONDS
from store import legacy_ends, legacy_offers, presence, proxy_calls
from store.database import Connection, Pool, transaction
from store.residents import hold

log = logging.getLogger(__name__)

INTERVAL_SECONDS: Final = 1.0

Sweep = Callable[[Connection], Awaitable[int]]

# In this order, so that one round carries a silent client's work all the way.
SWEEPS: Final[tuple[tuple[str, Sweep], ...]] = (
    ("lost", presence.mark_lost),
    ("returned", presence.return_queued_of_lost),
    ("expired", presence.return_expired_queued),
    ("unknown", presence.make_expired_unknown),
    ("resolved", presence.resolve_unknown),
    ("never_ingested", presence.fail_never_ingested),
    ("hinted", presence.repeat_lost_hints),
    ("legacy_offers", legacy_offers.withdraw_stale),
    ("legacy_returned", legacy_ends.return_expired),
    ("legacy_failed", legacy_ends.fail_expired),
    ("legacy_never_ingested", legacy_ends.fail_never_ingested),
    ("legacy_hinted", legacy_offers.repeat_hints),
    ("resumed", presence.resume_all_batches),
    ("histories", presence.forget_histories),
    ("proxy_calls", proxy_calls.sweep),
)


class PresenceSweeper:
    """A resident loop over the sweeps of `store.presence`, each in a transaction fenced by the resident's epoch.

    After an outage of the database nobody is lost for `patience` seconds: the hubs could not report anybody, and the
    silence of a whole fleet would take its work away just as its beats arrive again.
    """

    def __init__(self, pool: Pool, *, interval: float = INTERVAL_SECONDS, patience: float = SILENCE_SECONDS) -> None:
        self._pool = pool
        self._interval = interval
        self._patience = patience
        self._was_away = False
        self._patient_until = 0.0

    async def run(self, name: str, epoch: int, shard: int = 0) -> None:
        """Sweep until cancelled; FencedOut once another holds the lease. An outage of the database is waited out."""
        while True:
            await through_outages(lambda: self.sweep(name, epoch), "presence")
            await asyncio.sleep(self._interval)

    async def sweep(self, name: str, epoch: int) -> dict[str, int]:
        """One round; how many rows each sweep changed. A second round at once changes nothing.

        A sweep that fails is logged and not in the answer, and the later ones run all the same. Raises FencedOut, and
        what passes by itself: at once when the database is away, else after the last sweep.
        """
        changed: dict[str, int] = {}
        passing: list[Exception] = []
        for kind, sweep in SWEEPS:
            if kind == "lost" and self._is_patient():
                continue
            try:
                changed[kind] = await self._step(name, epoch, sweep)
            except Exception as error:
                if _stops_all(error):
                    self._was_away = not isinstance(error, FencedOut)
                    raise
                log.exception("presence sweep %s failed; the others go on", kind)
                passing += [error] if is_outage(error) else []
        if passing:
            raise passing[0]
        return changed

    def _is_patient(self) -> bool:
        now = asyncio.get_running_loop().time()
        if self._was_away:
            self._was_away, self._patient_until = False, now + self._patience
        return now < self._patient_until

    async def _step(self, name: str, epoch: int, sweep: Sweep) -> int:
        async with transaction(self._pool) as connection:
            await hold(connection, name, epoch)
            return await sweep(connection)


def _stops_all(error: Exception) -> bool:
    """Whether the next sweep would meet the same: another holds the lease, or the database does not answer."""
    if isinstance(error, FencedOut):
        return True
    return is_outage(error) and not isinstance(error, asyncpg.PostgresError)
