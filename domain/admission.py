"""Whether a waiting task may go now, and to which desktop: a round's rules for one task (1-dispatch §1.3, §1.4).

The planner asks for each task in its turn, `explain` for a single one: there is no second copy of the rules.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from domain.budgets import MINUTES, Check, Limits, Refusal, Usage, checks, decide, with_floors
from domain.desks import Desk, Fleet, Fleets
from domain.lanes import Lane
from domain.round_state import REASONS, Candidate, Hold, Reason, RoundState
from domain.tally import Tally

REACH: Final = {reason: reach for reach, reason in enumerate(REASONS)}
_FAIR_LANES: Final = (Lane.NORMAL_BOOSTED, Lane.NORMAL)
# What closes a desktop to scheduled work of any platform, for the rest of the round.
_CLOSING: Final = frozenset[Reason](
    {Hold.CLIENT_PAUSED, Hold.CLIENT_HAS_HIGH, Refusal.CLIENT_CONCURRENCY, Refusal.CLIENT_QUEUE_DEPTH}
)

_Closing = list[tuple[Desk, Reason]]


class Admission:
    """The rules over one reading, with the picks made so far counted. Load only grows: a refusal stays true."""

    def __init__(self, state: RoundState, ordered: Sequence[Candidate]) -> None:
        """`ordered`: all candidates in dispatch order, for what the waiting of one means to another."""
        self._state = state
        self._tally = Tally(state)
        high = [task for task in ordered if task.lane is Lane.HIGH]
        self._tenants_with_high = state.high_waiting | {task.tenant_id for task in high}
        self._fleets = Fleets(state, _clients_with_high(state, high))
        # Work that the floor protects: the first `_passed` of it cannot go anywhere, and `_taken` is on its way.
        self._normal = [task for task in ordered if task.lane in _FAIR_LANES]
        self._passed = 0
        self._taken: set[int] = set()

    def hold(self, task: Candidate) -> Hold | None:
        """The rule that keeps the task back whatever the desktops do, or None."""
        state = self._state
        if task.lane in state.paused_lanes:
            return Hold.LANE_PAUSED
        if task.tenant_id in state.paused_tenants:
            return Hold.TENANT_PAUSED
        if task.platform not in state.platform_limits:
            return Hold.PLATFORM_PAUSED
        if task.awaits_client:
            return Hold.AWAITS_CLIENT
        return self._retry_hold(task) if task.lane is Lane.RETRY else None

    def _retry_hold(self, task: Candidate) -> Hold | None:
        """Retry runs only while the tenant's high is empty and its normal work is under the low-water mark."""
        if task.tenant_id in self._tenants_with_high:
            return Hold.RETRY_AFTER_HIGH
        if self._state.normal_waiting.get(task.tenant_id, 0) >= self._state.retry_low_water:
            return Hold.RETRY_AFTER_NORMAL
        return None

    def find(self, task: Candidate, besides: Desk | None = None) -> Desk | Reason:
        """The best desktop (but `besides`) that may take the task; else what stopped it where it came furthest."""
        fleet = self._fleets.of(task)
        if task.bound_to is not None:
            bound = fleet.desks.get(task.bound_to)
            return self._ask(task, [] if bound is None or bound is besides else [bound])
        if task.lane is Lane.HIGH:
            return self._ask(task, fleet.best_first())
        if besides is not None:
            return self._ask(task, [desk for desk in fleet.open if desk is not besides])
        return self._ask_open(task, fleet)

    def _ask(self, task: Candidate, desks: Sequence[Desk], closing: _Closing | None = None) -> Desk | Reason:
        furthest: Reason = Hold.NO_CLIENT
        for desk in desks:
            reason = self.judge(task, desk)
            if reason is None:
                return desk
            if closing is not None and reason in _CLOSING:
                closing.append((desk, reason))
            if REACH[reason] > REACH[furthest]:
                furthest = reason
            if reason in MINUTES or (reason is Refusal.PLATFORM_CONCURRENCY and task.lane is not Lane.HIGH):
                break  # no other desktop would change that
        return furthest

    def _ask_open(self, task: Candidate, fleet: Fleet) -> Desk | Reason:
        """What the round has learned about desktops and platforms is not asked again."""
        if (stuck := fleet.stuck.get(task.platform)) is not None:
            return stuck
        closing: _Closing = []
        found = self._ask(task, fleet.open, closing)
        if closing:
            fleet.close(closing)
        if isinstance(found, Desk) or found in MINUTES:
            return found
        furthest = max((found, *fleet.closed_on(task.platform)), key=REACH.__getitem__)
        fleet.stuck[task.platform] = furthest
        return furthest

    def judge(self, task: Candidate, desk: Desk) -> Reason | None:
        """What stops the task on this desktop, or None: it may go there."""
        if desk.client.paused:
            return Hold.CLIENT_PAUSED
        if not desk.client.logged_in(task.platform):
            return Hold.LOGIN_BROKEN
        if desk.has_high and task.lane is not Lane.HIGH:
            return Hold.CLIENT_HAS_HIGH
        return decide(task.lane, self._usage(task, desk), self._limits(task, desk))

    def checks(self, task: Candidate, desk: Desk) -> tuple[Check, ...]:
        """The budgets as the task meets them on this desktop."""
        return checks(task.lane, self._usage(task, desk), self._limits(task, desk))

    def desks(self, task: Candidate) -> list[Desk]:
        """The desktops that the task may ask, the best first."""
        fleet = self._fleets.of(task)
        return [desk for desk in fleet.best_first() if task.bound_to in (None, desk.client_id)]

    def take(self, task: Candidate, desk: Desk) -> None:
        """Count a pick."""
        self._tally.add(task)
        self._taken.add(task.task_id)
        self._fleets.of(task).take(desk)
        desk.has_high = desk.has_high or task.lane is Lane.HIGH

    def full_minute(self, task: Candidate, refusal: Refusal) -> int:
        """What the window that refused the task must fall below."""
        limits = self._limits(task, self.desks(task)[0])
        if refusal is Refusal.TENANT_MINUTE:
            return limits.tenant_per_minute
        return limits.cluster_ceiling(task.lane, scheduled=self._tally.scheduled)

    def _usage(self, task: Candidate, desk: Desk) -> Usage:
        """Slots under interrupt are free for high work of the request they stop for, on that desktop."""
        tally, high = self._tally, task.lane is Lane.HIGH
        return Usage(
            tally.cluster_minute(task.lane),
            tally.tenants[task.tenant_id],
            desk.running - (desk.yields_to(task) if high else 0),
            desk.queued,
            tally.on_platform(task) - (desk.yields_to(task, task.platform) if high else 0),
            tally.scheduled,
            tally.tenants_scheduled[task.tenant_id],
            self._held_for_normal(task, desk) if high else 0,
        )

    def _limits(self, task: Candidate, desk: Desk) -> Limits:
        limits = desk.limits_on.get(task.platform)
        if limits is None:
            limits = _limits_on(task.platform, self._state, self._state.limits[desk.client_id])
            desk.limits_on[task.platform] = limits
        return limits

    def _held_for_normal(self, task: Candidate, desk: Desk) -> int:
        """What high leaves of the cluster's minute: the floor, as long as another desktop can make use of it."""
        limits = self._limits(task, desk)
        missing = limits.cluster_floor - self._tally.scheduled
        if not limits.cluster_fuse - missing <= self._tally.cluster < limits.cluster_fuse:
            return 0
        return missing if self._normal_elsewhere(desk) else 0

    def _normal_elsewhere(self, desk: Desk) -> bool:
        """Whether normal work waits that could go now to another desktop than this."""
        while self._passed < len(self._normal):
            found = self._would_go(self._normal[self._passed])
            if isinstance(found, Desk):
                rest = self._normal[self._passed :]
                return found is not desk or any(isinstance(self._would_go(task, desk), Desk) for task in rest)
            self._passed += 1
        return False

    def _would_go(self, task: Candidate, besides: Desk | None = None) -> Desk | Reason | None:
        if task.task_id in self._taken or self.hold(task) is not None:
            return None
        return self.find(task, besides)


def _clients_with_high(state: RoundState, high: Sequence[Candidate]) -> frozenset[UUID]:
    """Clients with unfinished high work, waiting or dispatched."""
    dispatched = (live.client_id for live in state.live if live.lane is Lane.HIGH)
    return state.reserved.union(dispatched, (task.bound_to for task in high if task.bound_to is not None))


def _limits_on(platform: str, state: RoundState, limits: Limits) -> Limits:
    """A client's limits with the platform's and the floors; a quota's permits stand for the cluster's minute."""
    limits = replace(with_floors(limits, state.normal_floor), platform_concurrency=state.platform_limits[platform])
    if state.quota is None:
        return limits
    return replace(
        limits,
        cluster_per_minute=state.quota.scheduled,
        cluster_fuse=state.quota.high,
        scheduled_share=1.0,
        cluster_floor=0,
    )
