"""One round of the coordinator, in memory: which waiting tasks go to which desktop now (1-dispatch §1.3, §1.4)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from domain.budgets import Limits, Refusal, Usage, decide
from domain.client_choice import ClientState, choose_for_task
from domain.lanes import Kind, Lane, order_key

# Stands for all tenants where a tenant's id is expected.
EVERYBODY: Final = 0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A business task that may be dispatched: pending, and no execution task holds it."""

    task_id: int
    tenant_id: int
    workspace_id: int
    platform: str
    lane: Lane
    priority: int
    enqueued_at: datetime
    bound_to: UUID | None = None
    request_id: UUID | None = None
    # High, of an open request, and without a client: binding comes first, for it also makes room there.
    awaits_client: bool = False


@dataclass(frozen=True, slots=True)
class Live:
    """An execution task that is queued, running without a received result, or unknown."""

    tenant_id: int
    client_id: UUID
    platform: str
    running: bool
    lane: Lane
    # The request whose interrupt it is under, if any.
    interrupted_for: UUID | None = None
    # Holds its platform, but neither a slot nor a place in the queue.
    unknown: bool = False

    @property
    def queued(self) -> bool:
        """Waits on the client."""
        return not self.running and not self.unknown


@dataclass(frozen=True, slots=True)
class RoundState:
    """One consistent reading of what decisions need. `limits`: by client and platform."""

    clients: Mapping[UUID, ClientState]
    limits: Mapping[UUID, Limits]
    platform_limits: Mapping[str, int]
    live: Sequence[Live]
    cluster_minute: int
    tenant_minute: Mapping[int, int]
    # Clients that a waiting high task is bound to.
    reserved: frozenset[UUID] = frozenset()
    paused_lanes: frozenset[Lane] = frozenset()
    # Tenants with high work waiting or running, and how much normal work each has waiting.
    high_waiting: frozenset[int] = frozenset()
    normal_waiting: Mapping[int, int] = field(default_factory=dict)
    retry_low_water: int = 50
    # Platform concurrency counts over all tenants, not over one tenant's clients.
    platforms_are_global: bool = False
    # The scheduled share of the cluster's minute, when it is used up: scheduled work was not even read.
    share_used_up: int | None = None


@dataclass(frozen=True, slots=True)
class Pick:
    """A task and the desktop it goes to."""

    task: Candidate
    client_id: UUID


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """What the round dispatches, and how often each budget refused; a full minute refuses once for all behind it."""

    picks: tuple[Pick, ...]
    refusals: Mapping[Refusal, int]
    # Minute windows that refused, by tenant or EVERYBODY: the limit that each must fall below.
    full_minutes: Mapping[int, int] = field(default_factory=dict)


class Tally:
    """What is used now, with this round's picks added as they are made. Counters only: each question is a look-up."""

    def __init__(self, state: RoundState) -> None:
        self._platforms_are_global = state.platforms_are_global
        self._cluster = state.cluster_minute
        self._tenants = Counter(state.tenant_minute)
        self._running: Counter[UUID] = Counter()
        self._queued: Counter[UUID] = Counter()
        self._platforms: Counter[tuple[int, str]] = Counter()
        # Running tasks that were asked to stop, by client and the request they stop for; then by platform as well.
        self._yielding: Counter[tuple[UUID, UUID | None]] = Counter()
        self._yielding_on: Counter[tuple[UUID, UUID | None, str]] = Counter()
        self._with_high = set(state.reserved)
        for live in state.live:
            self._count(live)

    def _count(self, live: Live) -> None:
        self._running[live.client_id] += live.running
        self._queued[live.client_id] += live.queued
        self._platforms[self._platform(live.tenant_id, live.platform)] += 1
        if live.lane is Lane.HIGH:
            self._with_high.add(live.client_id)
        if live.running and live.interrupted_for is not None:
            self._yielding[live.client_id, live.interrupted_for] += 1
            self._yielding_on[live.client_id, live.interrupted_for, live.platform] += 1

    def _platform(self, tenant_id: int, platform: str) -> tuple[int, str]:
        return (EVERYBODY if self._platforms_are_global else tenant_id, platform)

    def usage(self, task: Candidate, client_id: UUID) -> Usage:
        """Usage as this task sees it: slots under interrupt by its own request are free for it, on that client."""
        platform = self._platforms[self._platform(task.tenant_id, task.platform)]
        return Usage(
            cluster_minute=self._cluster,
            tenant_minute=self._tenants[task.tenant_id],
            client_running=self._running[client_id] - self._yielding[client_id, task.request_id],
            client_queued=self._queued[client_id],
            platform_running=platform - self._yielding_on[client_id, task.request_id, task.platform],
        )

    def queued(self, client_id: UUID) -> int:
        """How many tasks wait on the client, this round's picks included."""
        return self._queued[client_id]

    def has_high(self, client_id: UUID) -> bool:
        """Whether the client has unfinished high work, dispatched or bound to it."""
        return client_id in self._with_high

    def add(self, pick: Pick) -> None:
        """Count a pick."""
        self._cluster += 1
        self._tenants[pick.task.tenant_id] += 1
        self._count(Live(pick.task.tenant_id, pick.client_id, pick.task.platform, False, pick.task.lane))


def plan_round(state: RoundState, candidates: Iterable[Candidate]) -> RoundPlan:
    """Go through the candidates in dispatch order and pick each that every budget allows. Pure; order is total.

    High comes first and has the highest ceiling: who is refused by the cluster's minute is the last one looked at.
    """
    planner = _Planner(state)
    for task in sorted(candidates, key=_order):
        if planner.may_go(task) and planner.place(task) is Refusal.CLUSTER_MINUTE:
            break
    return RoundPlan(tuple(planner.picks), planner.refusals, planner.full_minutes)


class _Planner:
    """One round under way."""

    def __init__(self, state: RoundState) -> None:
        self.picks: list[Pick] = []
        self.refusals: Counter[Refusal] = Counter()
        self.full_minutes: dict[int, int] = {}
        if state.share_used_up is not None:
            self.full_minutes[EVERYBODY] = state.share_used_up
        self._state = state
        self._tally = Tally(state)
        self._fleet: dict[tuple[int, int], list[ClientState]] = defaultdict(list)
        for client in state.clients.values():
            self._fleet[client.tenant_id, client.workspace_id].append(client)

    def may_go(self, task: Candidate) -> bool:
        """Whether the task is worth a look: its lane is open, and nothing before it has settled its fate."""
        if task.awaits_client or not _lane_open(task, self._state):
            return False
        # Only scheduled work fills these, and no high task comes after it.
        return task.tenant_id not in self.full_minutes

    def place(self, task: Candidate) -> Refusal | None:
        """Pick the best client whose budgets allow the task; else what the best one refused with."""
        first: Refusal | None = None
        for client in self._able_clients(task):
            refusal = self._decide(task, client.client_id)
            if refusal is None:
                self.picks.append(Pick(task, client.client_id))
                self._tally.add(self.picks[-1])
                return None
            first = first or refusal
        if first is not None:
            self.refusals[first] += 1
        return first

    def _decide(self, task: Candidate, client_id: UUID) -> Refusal | None:
        limits = self._state.limits[client_id]
        on_platform = _on_platform(limits, self._state.platform_limits.get(task.platform, 0))
        refusal = decide(task.lane, self._tally.usage(task, client_id), on_platform)
        if refusal is Refusal.CLUSTER_MINUTE:
            self.full_minutes[EVERYBODY] = limits.cluster_ceiling(task.lane)
        elif refusal is Refusal.TENANT_MINUTE:
            self.full_minutes[task.tenant_id] = limits.tenant_per_minute
        return refusal

    def _able_clients(self, task: Candidate) -> list[ClientState]:
        clients = self._fleet.get((task.tenant_id, task.workspace_id), [])
        if task.bound_to is not None:
            clients = [client for client in clients if client.client_id == task.bound_to]
        if task.lane is not Lane.HIGH:
            clients = [client for client in clients if not self._tally.has_high(client.client_id)]
        return choose_for_task(clients, task.platform, self._tally.queued)


def _order(task: Candidate) -> tuple[int, int, datetime, int]:
    return (*order_key(Kind.MONITOR, task.lane, task.priority, task.enqueued_at), task.task_id)


def _lane_open(task: Candidate, state: RoundState) -> bool:
    """Retry runs only while the tenant's high is empty and its normal work is under the low-water mark."""
    if task.lane in state.paused_lanes:
        return False
    if task.lane is not Lane.RETRY:
        return True
    return (
        task.tenant_id not in state.high_waiting and state.normal_waiting.get(task.tenant_id, 0) < state.retry_low_water
    )


def _on_platform(limits: Limits, platform: int) -> Limits:
    return Limits(
        limits.cluster_per_minute,
        limits.cluster_fuse,
        limits.scheduled_share,
        limits.tenant_per_minute,
        limits.client_concurrency,
        limits.client_queue_depth,
        platform,
    )
