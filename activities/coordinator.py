"""The dispatch coordinator: a resident loop, woken by NOTIFY and by the earliest known time, never by busy polling."""

import asyncio
import logging
from collections import Counter
from typing import Final, NamedTuple
from uuid import UUID

import asyncpg

from domain.budgets import Refusal
from domain.errors import FencedOut, GivewayError
from domain.rounds import RoundPlan, plan_round
from store import residents
from store.binding import bind_request
from store.database import Pool, transaction
from store.dispatch import Reading, find_unbound_requests, read_round, write_round
from store.listen import DISPATCH, Listener, wait_for_wake

log = logging.getLogger(__name__)

# LISTEN dies silently, so the loop also looks by itself.
FALLBACK_SECONDS: Final = 2.0
# After a round whose every pick had changed meanwhile; each time twice as late. Usually the NOTIFY of what changed it
# comes first.
FIRST_RETRY_SECONDS: Final = 0.02
# With more candidates the plan is made in a thread: this loop has other residents' heartbeats to send.
LARGE_ROUND: Final = 500


class Round(NamedTuple):
    """What a round did. `pause`: seconds to sleep at most when there is nothing else to do."""

    dispatched: int
    pause: float
    awaits_binding: bool = False


class Coordinator:
    """Binds, picks and dispatches, round after round, while work and budget remain (1-dispatch §1.4)."""

    def __init__(self, pool: Pool, listener: Listener) -> None:
        self._pool = pool
        self._listener = listener
        self._retry_seconds = FIRST_RETRY_SECONDS
        self.refusals: Counter[Refusal] = Counter()

    async def run(self, name: str, epoch: int) -> None:
        """Run until cancelled, or until FencedOut says that another has taken over."""
        wake = self._listener.subscribe(DISPATCH)
        try:
            while True:
                await wait_for_wake(wake, await self.dispatch_all(name, epoch))
        finally:
            self._listener.unsubscribe(DISPATCH, wake)

    async def dispatch_all(self, name: str, epoch: int) -> float:
        """Rounds until one moves nothing; returns how long to sleep at most, in seconds."""
        try:
            await self.bind(name, epoch)
            while True:
                done = await self.round(name, epoch)
                bound = await self.bind(name, epoch) if done.awaits_binding else 0
                if not done.dispatched and not bound:
                    return done.pause
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            log.warning("dispatch round failed: %s", error)
            await asyncio.sleep(0.2)
            return 0.5

    async def round(self, name: str, epoch: int) -> Round:
        """One round: read once, pick in memory, write everything in one transaction."""
        async with transaction(self._pool) as connection:
            await residents.hold(connection, name, epoch)
            reading = await read_round(connection)
            plan = await _plan(reading)
            self.refusals.update(plan.refusals)
            dispatched = await write_round(connection, plan.picks, reading.generations) if plan.picks else 0
        return Round(dispatched, self._pause(reading, plan, dispatched), reading.awaits_binding)

    def _pause(self, reading: Reading, plan: RoundPlan, dispatched: int) -> float:
        if plan.picks and not dispatched:
            pause, self._retry_seconds = self._retry_seconds, min(2 * self._retry_seconds, FALLBACK_SECONDS)
            return pause
        self._retry_seconds = FIRST_RETRY_SECONDS
        frees = reading.frees_in(plan)
        return FALLBACK_SECONDS if frees is None else min(max(frees, 0.01), FALLBACK_SECONDS)

    async def bind(self, name: str, epoch: int) -> int:
        """Give waiting high tasks without an able client one; a transaction a request. Returns how many were bound."""
        bound = 0
        for request_id, tenant_id in await self._unbound():
            try:
                async with transaction(self._pool) as connection:
                    await residents.hold(connection, name, epoch)
                    bound += await bind_request(connection, request_id, tenant_id) is not None
            except FencedOut:
                raise
            except (GivewayError, asyncpg.DataError, asyncpg.IntegrityConstraintViolationError) as error:
                log.warning("request %s stays unbound: %s", request_id, error)
        return bound

    async def _unbound(self) -> list[tuple[UUID, int]]:
        async with self._pool.acquire() as connection:
            return await find_unbound_requests(connection)


async def _plan(reading: Reading) -> RoundPlan:
    if len(reading.candidates) < LARGE_ROUND:
        return plan_round(reading.state, reading.candidates)
    return await asyncio.to_thread(plan_round, reading.state, reading.candidates)
