"""The dispatch coordinator: a resident loop, woken by NOTIFY and by the earliest known time, never by busy polling."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

import asyncpg

from domain.budgets import Refusal
from domain.errors import FencedOut, GivewayError
from domain.fairness import FairShares
from domain.lanes import Lane
from domain.quota import Quota
from domain.rounds import RoundPlan, plan_round
from store import aging, quota, residents, windows
from store.binding import bind_request
from store.database import Connection, Pool, transaction
from store.dispatch import MOST_PICKS, Owner, Reading, add_scheduled, find_unbound_requests, lock_rounds, read_urgent
from store.dispatch_write import Written, write_round
from store.listen import DISPATCH, Listener, wait_for_wake

log = logging.getLogger(__name__)

# LISTEN dies silently, so the loop also looks by itself.
FALLBACK_SECONDS: Final = 2.0
# After a round whose every pick had changed meanwhile; each time twice as late. Usually the NOTIFY of what changed it
# comes first.
FIRST_RETRY_SECONDS: Final = 0.02
# Several coordinators: how soon to ask again for permits that there were none of.
ASK_AGAIN_SECONDS: Final = 0.5
# With more candidates the plan is made in a thread: this loop has other residents' heartbeats to send.
LARGE_ROUND: Final = 500
# Work where nothing can go is looked at this often, so that its refusals are counted and cost little.
LOOK_SECONDS: Final = 1.0
# After a scan that failed.
AGE_AGAIN_SECONDS: Final = 10.0
# A task that could not be written is left out for so long; reconcile may have mended it by then.
BARRED_SECONDS: Final = 60.0

CountRefusals = Callable[[Mapping[Refusal, int]], None]


def _count_nothing(_refusals: Mapping[Refusal, int]) -> None:
    """Nobody wants to know."""


class Round(NamedTuple):
    """What a round did. `pause`: seconds to sleep at most when there is nothing else to do.

    `again`: another round has something to do at once (work dispatched, permits granted).
    """

    dispatched: int
    pause: float
    awaits_binding: bool = False
    again: bool = False


class Coordinator:
    """Binds, picks and dispatches, round after round, while work and budget remain (1-dispatch §1.4).

    One of `coordinator_shards`, the owner of the tenants of its `index`. Remembers between rounds who had his fair
    share, and what could not be written: so there is one object an epoch.
    """

    def __init__(
        self, pool: Pool, listener: Listener, index: int = 0, *, count_refusals: CountRefusals = _count_nothing
    ) -> None:
        self._pool = pool
        self._listener = listener
        self._index = index
        self._count_refusals = count_refusals
        self._retry_seconds = FIRST_RETRY_SECONDS
        self._shares = FairShares()
        # Business tasks, and the loop's time at which they are tried again.
        self._barred: dict[int, float] = {}
        # The loop's times: when to look everywhere, when aging was last tried and when it is due.
        self._look_at = self._aged_at = self._age_at = 0.0
        self.refusals: Counter[Refusal] = Counter()

    async def run(self, name: str, epoch: int) -> None:
        """Run until cancelled, or until FencedOut says that another has taken over."""
        wake = self._listener.subscribe(DISPATCH)
        try:
            while True:
                pause = await self.dispatch_all(name, epoch)
                await wait_for_wake(wake, min(pause, max(self._age_at - _now(), 0.01)))
        finally:
            self._listener.unsubscribe(DISPATCH, wake)

    async def dispatch_all(self, name: str, epoch: int) -> float:
        """Rounds until one moves nothing; returns how long to sleep at most, in seconds."""
        try:
            pause = await self._dispatch(name, epoch)
            return 0.0 if await self.age(name, epoch) else pause
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            log.warning("dispatch round failed: %s", error)
            await asyncio.sleep(0.2)
            return 0.5

    async def _dispatch(self, name: str, epoch: int) -> float:
        await self.bind(name, epoch)
        while True:
            done = await self.round(name, epoch)
            bound = await self.bind(name, epoch) if done.awaits_binding else 0
            if not done.again and not bound:
                return done.pause
            # Rounds may go on for long.
            await self.age(name, epoch)

    async def round(self, name: str, epoch: int) -> Round:
        """One round: read once, pick in memory, write everything in one transaction."""
        plan, written, weights = RoundPlan((), {}), Written(), dict[int, int]()
        try:
            async with transaction(self._pool) as connection:
                await residents.hold(connection, name, epoch)
                reading, plan = await self._decide(connection, epoch)
                weights = dict(reading.state.weights)
                # A shorter time between scans is in force at once.
                self._age_at = min(self._age_at, self._aged_at + reading.settings.aging_scan_seconds)
                result = await write_round(connection, plan.picks, reading.generations)
                await self._spend(connection, epoch, plan, result)
                full = {} if result.dispatched else plan.full_minutes
                frees = await windows.frees_in(connection, full, reading.settings)
            written = result
        finally:
            self._remember(plan, written, weights)
        granted = await self._ask(name, epoch, plan)
        pause = self._pause(plan, written, frees)
        return Round(len(written.dispatched), pause, reading.awaits_binding, bool(written.dispatched or granted))

    async def _decide(self, connection: Connection, epoch: int) -> tuple[Reading, RoundPlan]:
        """High work first: where no window makes it heed scheduled work, that is not even read before it has gone."""
        await lock_rounds(connection)
        reading = await read_urgent(connection, Owner(self._index, epoch), barred=self._still_barred())
        # High work that somebody holds must not keep all others waiting: after a round in vain both are read.
        if reading.urgent_alone and self._retry_seconds == FIRST_RETRY_SECONDS:
            plan = plan_round(reading.state, reading.urgent, limit=MOST_PICKS)
            if plan.picks:
                return reading, plan
        reading = await add_scheduled(connection, reading, look_everywhere=self._may_look())
        return reading, await self._plan(reading)

    async def _plan(self, reading: Reading) -> RoundPlan:
        if len(reading.candidates) < LARGE_ROUND:
            return plan_round(reading.state, reading.candidates, self._shares, limit=MOST_PICKS)
        return await asyncio.to_thread(plan_round, reading.state, reading.candidates, self._shares, limit=MOST_PICKS)

    def _remember(self, plan: RoundPlan, written: Written, weights: Mapping[int, int]) -> None:
        """Shares are charged for what was dispatched; what was barred is left out for a while."""
        for pick in plan.picks:
            if pick.task.task_id not in written.dispatched:
                tenant = pick.task.tenant_id
                self._shares.refund(tenant, pick.task.lane, weights.get(tenant, 1))
        if written.barred:
            log.warning("tasks %s have live execution tasks that they do not know", sorted(written.barred))
        self._barred |= dict.fromkeys(written.barred, _now() + BARRED_SECONDS)
        self.refusals.update(plan.refusals)
        self._count_refusals(plan.refusals)

    def _still_barred(self) -> list[int]:
        self._barred = {task_id: until for task_id, until in self._barred.items() if until > _now()}
        return list(self._barred)

    def _may_look(self) -> bool:
        if _now() < self._look_at:
            return False
        self._look_at = _now() + LOOK_SECONDS
        return True

    def _pause(self, plan: RoundPlan, written: Written, frees: float | None) -> float:
        if plan.picks and not written.dispatched:
            pause, self._retry_seconds = self._retry_seconds, min(2 * self._retry_seconds, FALLBACK_SECONDS)
            return pause
        self._retry_seconds = FIRST_RETRY_SECONDS
        if plan.lacking is not None and plan.lacking.total:
            return ASK_AGAIN_SECONDS
        return FALLBACK_SECONDS if frees is None else min(max(frees, 0.01), FALLBACK_SECONDS)

    async def _spend(self, connection: Connection, epoch: int, plan: RoundPlan, written: Written) -> None:
        if plan.lacking is None or not written.dispatched:
            return
        gone = [pick for pick in plan.picks if pick.task.task_id in written.dispatched]
        high = sum(pick.task.lane is Lane.HIGH for pick in gone)
        await quota.spend(connection, self._index, epoch, Quota(scheduled=len(gone) - high, high=high))

    async def _ask(self, name: str, epoch: int, plan: RoundPlan) -> bool:
        """Ask for the permits that the round lacked, in a transaction of its own; whether any were granted."""
        if plan.lacking is None or not plan.lacking.total:
            return False
        async with transaction(self._pool) as connection:
            await residents.hold(connection, name, epoch)
            return (await quota.take_block(connection, self._index, epoch, plan.lacking)).total > 0

    async def age(self, name: str, epoch: int) -> int:
        """Promote what has waited for long, when a scan is due; returns how many tasks it moved."""
        if _now() < self._age_at:
            return 0
        # Also when it fails: what cannot age must not keep work from going.
        self._aged_at, self._age_at = _now(), _now() + AGE_AGAIN_SECONDS
        async with transaction(self._pool) as connection:
            await residents.hold(connection, name, epoch)
            done = await aging.age(connection, self._index)
            await windows.prune(connection)
        self._age_at = self._aged_at + done.next_scan
        return done.promoted + done.raised

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
            return await find_unbound_requests(connection, self._index)


def _now() -> float:
    return asyncio.get_running_loop().time()
