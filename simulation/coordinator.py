"""The coordinator in virtual time: the same rounds, planned tenant by tenant (1-dispatch §1.4).

The real one reads everything each round. Here a round looks only at tenants that something happened to, and while the
cluster's minute lasts for all of them that is the same: no other budget is shared between tenants. When it does not
last, tenants are taken one pick at a time in the order of their fair-queueing start tags, as the planner itself does.
"""

from collections.abc import Sequence
from itertools import islice
from math import inf
from time import perf_counter
from typing import Final

from domain.budgets import Limits, Refusal, with_floors
from domain.lanes import MONITOR_LANES, Lane
from domain.quota import Quota
from domain.rounds import EVERYBODY, Pick, RoundPlan, plan_round
from simulation.context import Context
from simulation.desks import Desks
from simulation.effects import Effects
from simulation.load import PLATFORMS
from simulation.permits import ASK_AGAIN_SECONDS, Permits
from simulation.reading import Reader
from simulation.requests import Requests
from simulation.state import Attempt, Tenant
from simulation.turns import SCHEDULED, Turns
from simulation.window import Window

# From the commit that wakes it to the round.
NOTIFY_SECONDS: Final = 0.002
# Near the fuse a high task must see who else waits: so many tenants of the queue are planned with it.
COMPANY: Final = 4
# Tenants planned in one go: more share the planner's fixed cost no better.
TOGETHER: Final = 32
NOTHING: Final = RoundPlan((), {})


class Coordinator:
    """One coordinator: the tenants that woke it, those that wait for the cluster's minute, and its own time."""

    def __init__(
        self,
        context: Context,
        effects: Effects,
        desks: Desks,
        requests: Requests,
        reader: Reader,
        minute: Window,
        permits: Permits | None,
        shard: int,
    ) -> None:
        """`permits`: the blocks of the cluster's minute, when there are several coordinators."""
        self._context = context
        self._effects = effects
        self._desks = desks
        self._requests = requests
        self._reader = reader
        self._minute = minute
        self._permits = permits
        self._shard = shard
        self._limits: Limits = with_floors(context.limits(), context.settings.normal_floor)
        # Where scheduled work stops once it has had its floor.
        self._share = self._limits.cluster_ceiling(Lane.NORMAL, scheduled=self._limits.cluster_floor)
        self._woken: dict[int, Tenant] = {}
        self._queue = Turns()
        self._alarms: set[int] = set()
        # What the minute must fall below for the high work that it turned away last.
        self._high_below = self._limits.cluster_fuse
        self._sent: list[Attempt] = []
        self._next = inf
        self._free_at = 0.0

    # --- when ----------------------------------------------------------------------------------------------------

    def wake(self, tenant: Tenant) -> None:
        """Something happened to the tenant: a round follows, when the one under way is written."""
        self._woken[tenant.id] = tenant
        self._plan_round(self._context.clock.now + NOTIFY_SECONDS)

    def _plan_round(self, at: float) -> None:
        at = max(at, self._free_at)
        if at < self._next:
            self._next = at
            self._context.clock.at(at, self._round, at)

    def _round(self, at: float) -> None:
        """One round, if it is still the next one planned."""
        if at != self._next:
            return
        self._bind()
        woken, self._woken = list(self._woken.values()), {}
        self._next = inf
        self._free_at = at + self._reading_seconds()
        self._free_at += self._dispatch(woken) * self._context.machine.pick_us / 1e6
        self._push()
        self._context.meters.rounds += 1
        self._plan_next()

    def _reading_seconds(self) -> float:
        machine, shards = self._context.machine, self._context.settings.coordinator_shards
        return machine.round_ms / 1000 + machine.desktop_us / 1e6 * len(self._context.clients) / shards

    def _bind(self) -> None:
        for tenant in list(self._woken.values()):
            if tenant.waiting.unbound_high:
                self._requests.bind(tenant)

    def _plan_next(self) -> None:
        """What came meanwhile, or the moment at which the cluster's minute has room again."""
        now = self._context.clock.now
        if self._woken:
            urgent = any(tenant.waiting.by_lane[Lane.HIGH] for tenant in self._woken.values())
            self._plan_round(self._frees_at(self._high_below) if urgent else now + NOTIFY_SECONDS)
        if self._queue:
            self._plan_round(self._frees_at(self._share))

    def _frees_at(self, ceiling: int) -> float:
        """When the cluster's minute may have room below the ceiling; who shares it has to ask again."""
        now = self._context.clock.now
        if self._permits is not None:
            return now + ASK_AGAIN_SECONDS
        frees = self._minute.frees_at(ceiling)
        return now + NOTIFY_SECONDS if frees is None else frees

    # --- what ----------------------------------------------------------------------------------------------------

    def _dispatch(self, woken: Sequence[Tenant]) -> int:
        """All at once while the minute lasts for everybody; else high first, and scheduled work by turns."""
        for tenant in woken:
            self._queue.add(tenant)
        high = sorted((tenant for tenant in woken if tenant.waiting.by_lane[Lane.HIGH]), key=_eldest_high)
        self._take_block(high)
        if self._room() >= (len(high) + len(self._queue)) * len(PLATFORMS) * self._context.platform_limit:
            return self._dispatch_all(high)
        picks = sum(map(self._dispatch_high, high)) + self._dispatch_by_turns()
        # Each is turned away once: the planner would not look at what waits for the minute until it has room.
        self._context.meters.refusals[Refusal.CLUSTER_MINUTE] += sum(tenant in self._queue for tenant in woken)
        return picks

    def _dispatch_all(self, high: Sequence[Tenant]) -> int:
        tenants = {tenant.id: tenant for tenant in high}
        while self._queue:
            tenant = self._queue.pop()
            tenants[tenant.id] = tenant
        picks, rest = 0, iter(tenants.values())
        while batch := list(islice(rest, TOGETHER)):
            picks += len(self._plan(batch, MONITOR_LANES).picks)
        return picks

    def _dispatch_by_turns(self) -> int:
        picks = 0
        while self._queue and self._room() > 0:
            tenant = self._queue.pop()
            plan = self._plan([tenant], SCHEDULED, limit=1)
            picks += len(plan.picks)
            if plan.picks or _minute_is_full(plan):
                self._queue.add(tenant)
            if _minute_is_full(plan) and not plan.picks:
                break
        return picks

    def _take_block(self, high: Sequence[Tenant]) -> None:
        """One of several coordinators: permits for what this round may want."""
        if self._permits is None:
            return
        places = len(PLATFORMS) * self._context.platform_limit
        held = self._permits.held(self._shard)
        wanted = Quota(len(self._queue) * places, len(high) * places)
        if held.scheduled < wanted.scheduled or held.high < wanted.high:
            self._permits.take(self._shard, wanted)

    def _dispatch_high(self, tenant: Tenant) -> int:
        """A tenant's high work; near the fuse beside those whose normal work has a floor."""
        near = self._limits.cluster_fuse - self._minute.total(self._context.clock.now) <= self._limits.cluster_floor
        company = [one for one in self._queue.first(COMPANY) if one is not tenant] if near else []
        plan = self._plan([tenant, *company], MONITOR_LANES if near else (Lane.HIGH,))
        if _minute_is_full(plan):
            self._woken[tenant.id] = tenant
            self._high_below = plan.full_minutes.get(EVERYBODY, self._limits.cluster_fuse)
        return len(plan.picks)

    def _room(self) -> int:
        """Dispatches of scheduled work that the cluster's minute has left: of its share, of its floor, of the block."""
        if self._permits is not None:
            return self._permits.held(self._shard).scheduled
        limits, now = self._limits, self._context.clock.now
        total = self._minute.total(now)
        of_floor = min(limits.cluster_fuse - total, limits.cluster_floor - self._minute.scheduled(now))
        return max(self._share - total, of_floor)

    def _plan(self, tenants: Sequence[Tenant], lanes: tuple[Lane, ...], *, limit: int | None = None) -> RoundPlan:
        """Plan with the real rules, and write the picks."""
        meters = self._context.meters
        candidates = self._reader.candidates(tenants, lanes)
        if not candidates:
            return NOTHING
        quota = self._permits.held(self._shard) if self._permits else None
        state = self._reader.state(tenants, quota, limit)
        began = perf_counter()
        plan = plan_round(state, candidates, limit=limit)
        meters.rule_seconds += perf_counter() - began
        meters.refusals.update(plan.refusals)
        for pick in plan.picks:
            self._write(pick)
        for tenant in tenants:
            if tenant.id in plan.full_minutes:
                self._set_alarm(tenant, plan.full_minutes[tenant.id])
        return plan

    def _write(self, pick: Pick) -> None:
        """One pick: an execution row, the windows, the turn, the books."""
        context, now = self._context, self._context.clock.now
        task, client = context.tasks[pick.task.task_id], context.clients[pick.client_id]
        attempt = self._effects.hold(task, client)
        scheduled = attempt.lane is not Lane.HIGH
        self._minute.add(now, scheduled)
        task.tenant.minute.add(now, scheduled)
        self._queue.charge(task.tenant, attempt.lane)
        if self._permits is not None:
            self._permits.spend(self._shard, attempt.lane)
        context.ledger.dispatch(attempt, now)
        self._sent.append(attempt)

    def _push(self) -> None:
        """The round commits, and its frames reach their desktops: only then is a task dispatched."""
        if not self._sent:
            return
        sent, self._sent = self._sent, []
        at = self._free_at + self._context.machine.push_ms / 1000
        for attempt in sent:
            self._context.meters.dispatch(attempt, at)
            self._requests.dispatched(attempt, at)
        self._context.clock.at(at, self._desks.arrive, sent)

    def _set_alarm(self, tenant: Tenant, limit: int) -> None:
        """Look at the tenant again when its own minute has room."""
        at = tenant.minute.frees_at(limit)
        if at is not None and tenant.id not in self._alarms:
            self._alarms.add(tenant.id)
            self._context.clock.at(at, self._ring, tenant)

    def _ring(self, tenant: Tenant) -> None:
        self._alarms.discard(tenant.id)
        self.wake(tenant)


def _minute_is_full(plan: RoundPlan) -> bool:
    """Whether the cluster's minute, or the block of it, turned something away."""
    return EVERYBODY in plan.full_minutes or (plan.lacking is not None and plan.lacking.total > 0)


def _eldest_high(tenant: Tenant) -> float:
    return tenant.waiting.eldest((Lane.HIGH,))[1]
