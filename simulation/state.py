"""What the simulated world consists of: the rows of the real one that decisions depend on, as plain objects."""

from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum, StrEnum
from typing import Final
from uuid import UUID

from domain.client_choice import ClientState
from domain.lanes import Lane
from domain.rounds import Candidate, Live
from simulation.load import Platform
from simulation.waiting import Waiting
from simulation.window import Window

MIDNIGHT: Final = datetime(2026, 4, 20, tzinfo=UTC)


def moment(seconds: float) -> datetime:
    """A second of the run as the rules' time; distances are all that matters to them."""
    return MIDNIGHT + timedelta(seconds=seconds)


class State(Enum):
    """Where an attempt is: the statuses of `desktop_tasks` that hold something, and the end."""

    QUEUED = "queued"
    RUNNING = "in_progress"
    UNKNOWN = "unknown"
    OVER = "over"


class Outcome(StrEnum):
    """How a task that was asked for ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"


@dataclass(slots=True, eq=False)
class Tenant:
    """A tenant with its one workspace. `states`: its available clients, as the rules read them."""

    id: int
    clients: list["Client"] = field(default_factory=list)
    states: dict[UUID, ClientState] = field(default_factory=dict)
    # The same clients, the best for the next task first.
    ranked: list[tuple[tuple[float, ...], "Client"]] = field(default_factory=list)
    waiting: Waiting = field(default_factory=Waiting)
    live: dict["Attempt", Live] = field(default_factory=dict)
    minute: Window = field(default_factory=Window)
    tasks: dict[tuple[int, str], "Task"] = field(default_factory=dict)
    requests: list["Request"] = field(default_factory=list)
    # Starts that the platform refused; asked again as soon as something of the tenant's ends.
    blocked: list["Attempt"] = field(default_factory=list)
    questions: int = 0


@dataclass(slots=True, eq=False)
class Client:
    """A desktop. `connected`: it is there; `online`: the server takes it for available; `seen`: last heartbeat."""

    id: UUID
    tenant: Tenant
    # Login health by platform; absent: healthy.
    sessions: dict[str, str]
    connected: bool = True
    online: bool = True
    seen: float = 0.0
    # Absences so far: what was planned for an earlier one is void.
    epoch: int = 0
    # Its key in the tenant's ranking; None while it is not available.
    rank: tuple[float, ...] | None = None
    held: list["Attempt"] = field(default_factory=list)
    # Ended while the connection was lost; posted when it is back.
    kept: list["Attempt"] = field(default_factory=list)
    # Endings of the last minute: second, and whether it was an abort that counts against the client.
    endings: deque[tuple[float, bool]] = field(default_factory=deque)

    def running(self) -> int:
        """Slots in use, as the server counts them."""
        return [attempt.state for attempt in self.held].count(State.RUNNING)

    def queued(self) -> int:
        """Tasks that wait on it."""
        return [attempt.state for attempt in self.held].count(State.QUEUED)


@dataclass(slots=True, eq=False)
class Task:
    """A business task. `lane` and `priority` as stored; a boosted one's priority follows from its `base` and age."""

    id: int
    tenant: Tenant
    platform: Platform
    question: int
    lane: Lane
    priority: int
    enqueued: float
    base: int
    enqueued_at: datetime
    origin: tuple[Lane, int] | None = None
    bound: Client | None = None
    request: "Request | None" = None
    # Wanted, and not ended; how it ended last.
    open: bool = False
    outcome: Outcome | None = None
    attempts: int = 0
    preemptions: int = 0
    attempt: "Attempt | None" = None
    dispatched: bool = False
    # Since when it waits this time.
    waits_since: float = 0.0
    # As the planner sees it; None after a change.
    seen: Candidate | None = None


@dataclass(slots=True, eq=False)
class Attempt:
    """One execution of a task on a client. `points`: the seconds of its safe points, the last one its end."""

    id: int
    task: Task
    client: Client
    lane: Lane
    scheduled: bool
    request: "Request | None"
    state: State = State.QUEUED
    arrived: bool = False
    started: float = 0.0
    points: tuple[float, ...] = ()
    fails: bool = False
    # The desktop died with it, or it came to nothing: only its lease is left.
    dead: bool = False
    interrupted_for: "Request | None" = None
    # When the desktop stops by itself: what was planned for another moment is void.
    stops_at: float = 0.0


@dataclass(slots=True, eq=False)
class Request:
    """A collect-now request: a row of `monitoring_collect_requests`, its counters recounted where they are needed."""

    id: UUID
    tenant: Tenant
    clicked: float
    accepted: float
    client: Client | None = None
    tasks: dict[int, Task] = field(default_factory=dict)
    open: bool = True
    first_dispatch: float | None = None
    first_start: float | None = None
    # Attempts asked to stop for it that have not yet, and when each was asked.
    victims: dict[Attempt, float] = field(default_factory=dict)
