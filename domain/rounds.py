"""One round of the coordinator, in memory: which waiting tasks go to which desktop now (1-dispatch §1.3, §1.4)."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from domain.budgets import Limits, Refusal, Usage, decide
from domain.client_choice import ClientState, choose_for_task
from domain.lanes import Kind, Lane, order_key

RETRY_LOW_WATER: Final = 50


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
    # Platform concurrency counts over all tenants, not over one tenant's clients.
    platforms_are_global: bool = False


@dataclass(frozen=True, slots=True)
class Pick:
    """A task and the desktop it goes to."""

    task: Candidate
    client_id: UUID


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """What the round dispatches, and how often each budget refused."""

    picks: tuple[Pick, ...]
    refusals: Mapping[Refusal, int]

    @property
    def waits_for_window(self) -> bool:
        """A minute budget refused: the round is worth repeating when a window frees."""
        return bool(self.refusals.get(Refusal.CLUSTER_MINUTE) or self.refusals.get(Refusal.TENANT_MINUTE))


class Tally:
    """What is used now, with this round's picks added as they are made."""

    def __init__(self, state: RoundState) -> None:
        self._state = state
        self._cluster = state.cluster_minute
        self._tenants = Counter(state.tenant_minute)
        self._by_client: dict[UUID, list[Live]] = {}
        self._by_platform: dict[tuple[int, str], list[Live]] = {}
        for live in state.live:
            self._index(live)

    def _index(self, live: Live) -> None:
        self._by_client.setdefault(live.client_id, []).append(live)
        self._by_platform.setdefault(self._platform(live.tenant_id, live.platform), []).append(live)

    def _platform(self, tenant_id: int, platform: str) -> tuple[int, str]:
        return (0 if self._state.platforms_are_global else tenant_id, platform)

    def usage(self, task: Candidate, client_id: UUID) -> Usage:
        """Usage as this task sees it: slots under interrupt by its own request are free for it, on that client."""
        mine = self._by_client.get(client_id, ())
        platform = self._by_platform.get(self._platform(task.tenant_id, task.platform), ())
        return Usage(
            cluster_minute=self._cluster,
            tenant_minute=self._tenants[task.tenant_id],
            client_running=sum(live.running and not gives_way_to(live, task) for live in mine),
            client_queued=self.queued(client_id),
            platform_running=sum(not (live.client_id == client_id and gives_way_to(live, task)) for live in platform),
        )

    def queued(self, client_id: UUID) -> int:
        """How many tasks wait on the client, this round's picks included."""
        return sum(live.queued for live in self._by_client.get(client_id, ()))

    def has_high(self, client_id: UUID) -> bool:
        """Whether the client has unfinished high work, dispatched or bound to it."""
        if client_id in self._state.reserved:
            return True
        return any(live.lane is Lane.HIGH for live in self._by_client.get(client_id, ()))

    def add(self, pick: Pick) -> None:
        """Count a pick."""
        self._cluster += 1
        self._tenants[pick.task.tenant_id] += 1
        self._index(Live(pick.task.tenant_id, pick.client_id, pick.task.platform, False, pick.task.lane))


def gives_way_to(live: Live, task: Candidate) -> bool:
    """Whether the running task was asked to stop for this task's request."""
    return live.running and task.request_id is not None and live.interrupted_for == task.request_id


def plan_round(state: RoundState, candidates: Iterable[Candidate]) -> RoundPlan:
    """Go through the candidates in dispatch order and pick each that every budget allows. Pure; order is total."""
    tally = Tally(state)
    picks: list[Pick] = []
    refusals: Counter[Refusal] = Counter()
    for task in sorted(candidates, key=_order):
        if not _lane_open(task, state):
            continue
        client_id, refusal = _place(task, state, tally)
        if client_id is not None:
            picks.append(Pick(task, client_id))
            tally.add(picks[-1])
        elif refusal is not None:
            refusals[refusal] += 1
    return RoundPlan(tuple(picks), refusals)


def _order(task: Candidate) -> tuple[int, int, datetime, int]:
    return (*order_key(Kind.MONITOR, task.lane, task.priority, task.enqueued_at), task.task_id)


def _lane_open(task: Candidate, state: RoundState) -> bool:
    """Retry runs only while the tenant's high is empty and its normal work is under the low-water mark."""
    if task.lane in state.paused_lanes:
        return False
    if task.lane is not Lane.RETRY:
        return True
    return task.tenant_id not in state.high_waiting and state.normal_waiting.get(task.tenant_id, 0) < RETRY_LOW_WATER


def _place(task: Candidate, state: RoundState, tally: Tally) -> tuple[UUID | None, Refusal | None]:
    """The best client whose budgets allow the task, else what the best one refused with."""
    first_refusal: Refusal | None = None
    for client in _able_clients(task, state, tally):
        limits = state.limits[client.client_id]
        usage = tally.usage(task, client.client_id)
        refusal = decide(task.lane, usage, _on_platform(limits, state.platform_limits.get(task.platform, 0)))
        if refusal is None:
            return client.client_id, None
        first_refusal = first_refusal or refusal
    return None, first_refusal


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


def _able_clients(task: Candidate, state: RoundState, tally: Tally) -> list[ClientState]:
    if task.bound_to is not None:
        bound = state.clients.get(task.bound_to)
        clients = [bound] if bound is not None else []
    else:
        clients = [client for client in state.clients.values() if client.tenant_id == task.tenant_id]
    if task.lane is not Lane.HIGH:
        clients = [client for client in clients if not tally.has_high(client.client_id)]
    same_workspace = [client for client in clients if client.workspace_id == task.workspace_id]
    return choose_for_task(same_workspace, task.platform, tally.queued)
