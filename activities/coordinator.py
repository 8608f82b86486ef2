"""The dispatch coordinator: a resident loop, woken by NOTIFY and by the earliest known time, never by busy polling."""

import asyncio
import logging
from collections import Counter
from typing import Final
from uuid import UUID

import asyncpg

from domain.budgets import Refusal
from domain.errors import FencedOut, GivewayError
from domain.rounds import plan_round
from store import residents
from store.binding import bind_request
from store.database import Pool, transaction
from store.dispatch import find_unbound_requests, read_round, write_round
from store.listen import DISPATCH, Listener, wait_for_wake

log = logging.getLogger(__name__)

# LISTEN dies silently, so the loop also looks by itself.
FALLBACK_SECONDS: Final = 2.0


class Coordinator:
    """Binds, picks and dispatches, round after round, while work and budget remain (1-dispatch §1.4)."""

    def __init__(self, pool: Pool, listener: Listener) -> None:
        self._pool = pool
        self._listener = listener
        self.refusals: Counter[Refusal] = Counter()

    async def run(self, name: str, epoch: int) -> None:
        """Run until cancelled, or until FencedOut says that another has taken over."""
        wake = self._listener.subscribe(DISPATCH)
        try:
            while True:
                await wait_for_wake(wake, await self._dispatch_all(name, epoch))
        finally:
            self._listener.unsubscribe(DISPATCH, wake)

    async def _dispatch_all(self, name: str, epoch: int) -> float:
        """Rounds until one dispatches nothing; returns how long to sleep at most, in seconds."""
        try:
            await self.bind(name, epoch)
            while True:
                dispatched, pause = await self.round(name, epoch)
                if not dispatched:
                    return pause
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            log.warning("dispatch round failed: %s", error)
            await asyncio.sleep(0.2)
            return 0.5

    async def round(self, name: str, epoch: int) -> tuple[int, float]:
        """One round: read once, pick in memory, write everything in one transaction."""
        async with transaction(self._pool) as connection:
            await residents.hold(connection, name, epoch)
            reading = await read_round(connection)
            plan = plan_round(reading.state, reading.candidates)
            self.refusals.update(plan.refusals)
            dispatched = await write_round(connection, plan.picks, reading.generations) if plan.picks else 0
        if plan.picks and not dispatched:
            return 0, 0.02  # an accept of that tenant is in its transaction; its NOTIFY usually comes first
        frees = reading.window_frees_in if plan.waits_for_window else None
        return dispatched, FALLBACK_SECONDS if frees is None else min(max(frees, 0.01), FALLBACK_SECONDS)

    async def bind(self, name: str, epoch: int) -> None:
        """Give waiting high tasks without a client one that is online; a transaction a request."""
        for request_id, tenant_id in await self._unbound():
            try:
                async with transaction(self._pool) as connection:
                    await residents.hold(connection, name, epoch)
                    await bind_request(connection, request_id, tenant_id)
            except FencedOut:
                raise
            except GivewayError as error:
                log.warning("request %s stays unbound: %s", request_id, error)

    async def _unbound(self) -> list[tuple[UUID, int]]:
        async with self._pool.acquire() as connection:
            return await find_unbound_requests(connection)
