"""What a round of the coordinator reads and what it decides: plain values (1-dispatch §1.3, §1.4)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from domain.budgets import Limits, Refusal
from domain.client_choice import ClientState
from domain.lanes import Kind, Lane, order_key
from domain.quota import Quota

# Stands for all tenants where a tenant's id is expected.
EVERYBODY: Final = 0


class Hold(StrEnum):
    """Rules, beside the budgets, that keep a task back; in the order in which they are asked.

    The first group is about the task alone, the second about one client.
    """

    LANE_PAUSED = "lane_paused"
    TENANT_PAUSED = "tenant_paused"
    PLATFORM_PAUSED = "platform_paused"
    AWAITS_CLIENT = "awaits_client"
    RETRY_AFTER_HIGH = "retry_after_high"
    RETRY_AFTER_NORMAL = "retry_after_normal"
    NO_CLIENT = "no_client"
    CLIENT_PAUSED = "client_paused"
    LOGIN_BROKEN = "login_broken"
    CLIENT_HAS_HIGH = "client_has_high"


Reason = Hold | Refusal

# How far a task came, by what stopped it: of several clients, the one that let it furthest names the reason.
REASONS: Final[tuple[Reason, ...]] = (*Hold, *Refusal)


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
    # Its path: the coordinator offers it instead of pushing it. The rules are the same.
    legacy: bool = False


def dispatch_order(task: Candidate) -> tuple[int, int, datetime, int]:
    """Sort key of candidates, total: lane weight, priority, age, and the task id where all are equal."""
    return (*order_key(Kind.MONITOR, task.lane, task.priority, task.enqueued_at), task.task_id)


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
    # A legacy lease (running) or offer (queued): counted like any other.
    legacy: bool = False

    @property
    def queued(self) -> bool:
        """Waits on the client."""
        return not self.running and not self.unknown


@dataclass(frozen=True, slots=True)
class RoundState:
    """One consistent reading of what decisions need. `limits`: by client; minutes are sliding windows of 60 s."""

    clients: Mapping[UUID, ClientState]
    limits: Mapping[UUID, Limits]
    # Open platforms only: work on any other one is kept back.
    platform_limits: Mapping[str, int]
    live: Sequence[Live]
    cluster_minute: int
    tenant_minute: Mapping[int, int]
    # Clients that a waiting high task is bound to, beside those of the round's candidates.
    reserved: frozenset[UUID] = frozenset()
    paused_lanes: frozenset[Lane] = frozenset()
    # Tenants with high work waiting or running, and how much normal work each has waiting.
    high_waiting: frozenset[int] = frozenset()
    normal_waiting: Mapping[int, int] = field(default_factory=dict)
    retry_low_water: int = 50
    # Platform concurrency counts over all tenants, not over one tenant's clients.
    platforms_are_global: bool = False
    # The ceiling of scheduled work in the cluster's minute, when it is used up: scheduled work was not even read.
    share_used_up: int | None = None
    # Of the minutes above, what normal, boosted and retry took.
    scheduled_minute: int = 0
    tenant_scheduled_minute: Mapping[int, int] = field(default_factory=dict)
    # Share of each minute window that stays for scheduled work while high is backlogged.
    normal_floor: float = 0.0
    # Fair weights that differ from 1.
    weights: Mapping[int, int] = field(default_factory=dict)
    paused_tenants: frozenset[int] = frozenset()
    # This coordinator's permits of the cluster's minute, when several share it. They then stand for the window.
    quota: Quota | None = None


@dataclass(frozen=True, slots=True)
class Pick:
    """A task and the desktop it goes to."""

    task: Candidate
    client_id: UUID


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """What the round dispatches, and how many candidates each budget turned away."""

    picks: tuple[Pick, ...]
    refusals: Mapping[Refusal, int]
    # Minute windows that refused, by tenant or EVERYBODY: the limit that each must fall below.
    full_minutes: Mapping[int, int] = field(default_factory=dict)
    # With a quota: permits that the round would have used beyond those it had; each kind may be more than it gets.
    lacking: Quota | None = None
