"""What the board asks of the scheduler, what an execution asks of the board, and how an execution ends."""

from dataclasses import dataclass
from enum import StrEnum

from desktop.events import EventKind
from desktop.local_task import LocalTask
from domain.phases import SafePoint
from domain.protocol import Control, TaskAvailable


@dataclass(frozen=True, slots=True)
class Begin:
    """Run this attempt: it has a local slot."""

    task: LocalTask


@dataclass(frozen=True, slots=True)
class Halt:
    """Stop this execution at once: its lease is over."""

    attempt_id: str


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Return a lease: never started, or stopped because the desktop ends."""

    frame: TaskAvailable
    generation: int
    reason: str


@dataclass(frozen=True, slots=True)
class AckUnheld:
    """Answer an order for work this desktop does not run, at the order's generation."""

    task_id: str
    generation: int
    reason: str


@dataclass(frozen=True, slots=True)
class Extend:
    """Extend a lease by REST: heartbeats have not done so for too long."""

    frame: TaskAvailable


@dataclass(frozen=True, slots=True)
class Pull:
    """Lease legacy tasks that are on offer, at most so many: there are local slots for them."""

    count: int


@dataclass(frozen=True, slots=True)
class Note:
    """Something to report about a task."""

    kind: EventKind
    task_id: str
    frame: TaskAvailable | None = None
    control: Control | None = None
    generation: int | None = None
    detail: str | None = None


Effect = Begin | Halt | GiveBack | AckUnheld | Extend | Pull | Note


@dataclass(frozen=True, slots=True)
class GoOn:
    """Verdict: enter the next phase."""


@dataclass(frozen=True, slots=True)
class GiveWay:
    """Verdict: stop here and acknowledge this order."""

    generation: int
    reason: str


@dataclass(frozen=True, slots=True)
class Abandon:
    """Verdict: stop here and tell nobody, the lease is over already."""

    why: str


Verdict = GoOn | GiveWay | Abandon


class EndKind(StrEnum):
    """The ways in which an execution ends."""

    FINISHED = "finished"
    GAVE_WAY = "gave_way"
    DROPPED = "dropped"
    NO_SLOT = "no_slot"


@dataclass(frozen=True, slots=True)
class Ending:
    """How one execution ended; the rest is in the events it reported."""

    kind: EndKind
    why: str = ""
    safe_point: SafePoint | None = None
