"""The desktops: they start what they hold, pass safe points, give way, finish, fail, hang (2-desktop §2.2–§2.4)."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from domain.dispatch_settings import PlatformScope
from domain.lanes import Kind, rule_of
from simulation.context import Context
from simulation.effects import Effects
from simulation.load import intervals
from simulation.state import Attempt, Client, Request, State, Tenant

# What hangs comes to its next safe point only after this: longer than any hard timeout.
HANG_SECONDS: Final = 600.0
WAITING_INTERVAL: Final = 3


class Desks:
    """All desktops. The server's answers are part of the same instant."""

    def __init__(self, context: Context, effects: Effects) -> None:
        self._context = context
        self._effects = effects
        self._random = context.random("desks")

    # --- what arrives --------------------------------------------------------------------------------------------

    def arrive(self, attempts: Sequence[Attempt]) -> None:
        """Frames of one round are there; on a desktop that is away they are in vain."""
        clients = {}
        for attempt in attempts:
            if attempt.state is State.QUEUED and attempt.client.connected:
                attempt.arrived = True
                clients[attempt.client.id] = attempt.client
        for client in clients.values():
            self.begin(client)

    def begin(self, client: Client) -> None:
        """Start what the desktop holds, most urgent first, as far as the server lets it."""
        if not client.connected:
            return
        waiting = [one for one in client.held if one.state is State.QUEUED and one.arrived]
        for attempt in sorted(waiting, key=_local_order):
            if attempt.state is State.QUEUED and not self._start(attempt):
                attempt.task.tenant.blocked.append(attempt)

    def freed(self, ended: Attempt) -> None:
        """Something has ended: its desktop goes on, and so do those whom its platform had refused."""
        self.begin(ended.client)
        for tenant in self._blocked_tenants(ended):
            blocked, tenant.blocked = tenant.blocked, []
            for attempt in blocked:
                if attempt.state is State.QUEUED and attempt.client is not ended.client:
                    self.begin(attempt.client)

    def order(self, victims: list[Attempt]) -> None:
        """Interrupts arrive: each victim stops at its next safe point."""
        for victim in victims:
            if victim.state is State.RUNNING and victim.interrupted_for is not None:
                self._plan_stop(victim)

    # --- running -------------------------------------------------------------------------------------------------

    def _start(self, attempt: Attempt) -> bool:
        """What physically runs decides, promises or not: 409 `no_slot` leaves it queued."""
        client, now = attempt.client, self._context.clock.now
        if client.running() >= self._context.slots or self._platform_is_full(attempt):
            return False
        attempt.state, attempt.started = State.RUNNING, now
        attempt.fails = self._random.random() < self._context.load.failures
        lengths = intervals(attempt.task.platform, self._random)
        if self._random.random() < self._context.load.hangs:
            lengths[WAITING_INTERVAL] += HANG_SECONDS
        attempt.points = tuple(accumulate(lengths, initial=now))[1:]
        self._effects.show(attempt)
        self._context.ledger.start(attempt)
        self._note_start(attempt.request)
        self._plan_end(attempt, attempt.points[-1])
        return True

    def _note_start(self, request: Request | None) -> None:
        if request is not None and request.first_start is None:
            request.first_start = self._context.clock.now
            self._context.meters.click_started.append(request.first_start - request.clicked)

    def _platform_is_full(self, attempt: Attempt) -> bool:
        mine = attempt.task.platform.name
        lives = (live for tenant in self._sharing(attempt.task.tenant) for live in tenant.live.values())
        return sum(live.platform == mine and not live.queued for live in lives) >= self._context.platform_limit

    def _plan_end(self, attempt: Attempt, at: float) -> None:
        attempt.stops_at = at
        self._context.clock.at(at, self._finish, attempt, at)

    def _plan_stop(self, attempt: Attempt) -> None:
        """The next safe point; past the last one before the end, the end itself settles the order."""
        points, now = attempt.points, self._context.clock.now
        index = bisect_left(points, now)
        if index < len(points) - 1:
            attempt.stops_at = points[index]
            self._context.clock.at(points[index], self._stop, attempt, points[index])

    # --- ends ----------------------------------------------------------------------------------------------------

    def _finish(self, attempt: Attempt, at: float) -> None:
        if not self._happens(attempt, at):
            return
        if attempt.interrupted_for is not None:
            self._context.meters.preempted["finished_instead"] += 1
        if attempt.fails:
            self._effects.fail(attempt)
        else:
            self._effects.complete(attempt)

    def _stop(self, attempt: Attempt, at: float) -> None:
        """A safe point with an order to stop; one that was withdrawn meanwhile lets it run on."""
        if not self._happens(attempt, at):
            return
        if attempt.interrupted_for is None:
            self._plan_end(attempt, attempt.points[-1])
            return
        meters, now = self._context.meters, self._context.clock.now
        meters.preempted["settled"] += 1
        meters.wasted += now - attempt.started
        meters.settle.append(now - attempt.interrupted_for.victims[attempt])
        self._effects.release(attempt, preempted=True)

    def _happens(self, attempt: Attempt, at: float) -> bool:
        """Whether this is still the moment planned, on a desktop that is there. What ends while away waits for it."""
        if attempt.state not in (State.RUNNING, State.UNKNOWN) or attempt.dead or attempt.stops_at != at:
            return False
        if attempt.client.connected:
            return True
        attempt.stops_at = 0.0
        attempt.client.kept.append(attempt)
        return False

    def resume(self, client: Client) -> None:
        """Back after a lost connection: results that were kept are posted."""
        kept, client.kept = client.kept, []
        for attempt in kept:
            if attempt.state in (State.RUNNING, State.UNKNOWN):
                attempt.stops_at = self._context.clock.now
                self._finish(attempt, attempt.stops_at)

    # --- who shares a platform -----------------------------------------------------------------------------------

    def _sharing(self, tenant: Tenant) -> list[Tenant]:
        everybody = self._context.settings.platform_concurrency_scope is PlatformScope.GLOBAL
        return self._context.tenants if everybody else [tenant]

    def _blocked_tenants(self, ended: Attempt) -> list[Tenant]:
        return [tenant for tenant in self._sharing(ended.task.tenant) if tenant.blocked]


def _local_order(attempt: Attempt) -> tuple[int, int, float, int]:
    """Lane weight, priority, age (2-desktop §2.3)."""
    task = attempt.task
    return (-rule_of(Kind.MONITOR, attempt.lane).weight, -task.priority, task.enqueued, attempt.id)
