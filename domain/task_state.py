"""Where a business task is, from what its rows say: for people who ask why nothing happens (1-dispatch §1.3)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from domain.round_state import Hold


class TaskState(StrEnum):
    """What a task is doing. Waiting and paused ones wait for the coordinator; the others' rows say it."""

    WAITING = "waiting"
    PAUSED = "paused"
    SCHEDULED_LATER = "scheduled_later"
    # No desktop's: a provider's API collects it.
    ELSEWHERE = "elsewhere"
    # Held by a desktop, on either path.
    OFFERED = "offered"
    QUEUED = "queued"
    RUNNING = "running"
    GIVING_WAY = "giving_way"
    UNKNOWN = "unknown"
    # Held by an execution task that is not there: damage, which reconcile mends.
    ASTRAY = "astray"
    RECEIVED = "received"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    EXPIRED = "expired"


TERMINAL: Final = {
    "completed": TaskState.COMPLETED,
    "failed": TaskState.FAILED,
    "skipped": TaskState.SKIPPED,
    "expired": TaskState.EXPIRED,
}
# Rules of the planner that somebody has set, and takes away again.
PAUSES: Final = frozenset(
    {Hold.LANE_PAUSED.value, Hold.TENANT_PAUSED.value, Hold.PLATFORM_PAUSED.value, Hold.CLIENT_PAUSED.value}
)
BATCH_PAUSED: Final = "batch_paused"


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """What the rows of one task say. `execution_status` None: no execution task of it is live."""

    status: str
    desktop: bool
    # Held by a paused batch.
    batch_paused: bool = False
    # Held by an execution task, there or not.
    held: bool = False
    execution_status: str | None = None
    result_received: bool = False
    leased: bool = False
    interrupt_requested: bool = False
    started: bool = False
    offered: bool = False
    due: bool = True


def state_of(facts: TaskFacts) -> TaskState:
    """The task's state; WAITING may turn out to be PAUSED once the planner is asked."""
    if facts.status in TERMINAL:
        return TERMINAL[facts.status]
    if facts.status == "received" or facts.result_received:
        return TaskState.RECEIVED
    if facts.status == "leased":
        return _working(facts) if facts.started else TaskState.QUEUED
    if facts.batch_paused:
        return TaskState.PAUSED
    if facts.held:
        return _held(facts)
    if not facts.desktop:
        return TaskState.ELSEWHERE
    if facts.offered:
        return TaskState.OFFERED
    return TaskState.WAITING if facts.due else TaskState.SCHEDULED_LATER


def _held(facts: TaskFacts) -> TaskState:
    match facts.execution_status:
        case "queued":
            return TaskState.QUEUED
        case "in_progress":
            return _working(facts)
        case "unknown":
            return TaskState.UNKNOWN
        case _:
            return TaskState.ASTRAY


def _working(facts: TaskFacts) -> TaskState:
    return TaskState.GIVING_WAY if facts.interrupt_requested else TaskState.RUNNING


def sentence_of(state: TaskState, facts: TaskFacts) -> str | None:
    """What would move it on, for a person; None where the planner says it (WAITING, and a pause of the planner's)."""
    match state:
        case TaskState.WAITING:
            return None
        case TaskState.PAUSED:
            return "Its batch is paused; it waits again when the batch is resumed." if facts.batch_paused else None
        case TaskState.SCHEDULED_LATER:
            return "It may not be dispatched before its time; then it waits for its turn."
        case TaskState.ELSEWHERE:
            return "No desktop collects it: it is collected through the provider's API."
        case TaskState.OFFERED:
            return "It is on offer to a desktop, which pulls it when it has room; an offer that runs out waits again."
        case TaskState.QUEUED:
            return "A desktop has it and starts it when it has a slot." if facts.leased else _NOT_YET_LEASED
        case TaskState.RUNNING:
            return "A desktop is running it."
        case TaskState.GIVING_WAY:
            return "A desktop is running it and has been asked to stop at its next safe point, for a collect-now."
        case TaskState.UNKNOWN:
            return "Its lease is over and nobody knows how it ended; it is settled when the desktop says, or is gone."
        case TaskState.ASTRAY:
            return "It is held by an execution task that is over; reconcile frees it within minutes."
        case TaskState.RECEIVED:
            return "Its result has been received and waits to be ingested."
        case TaskState.COMPLETED:
            return "It is completed."
        case TaskState.FAILED:
            return "It has failed, its attempts used up; collecting it again starts it anew."
        case TaskState.SKIPPED:
            return "It was skipped and will not be collected, unless somebody collects it again."
        case TaskState.EXPIRED:
            return "Its time was over before it was collected; it is collected again by a backfill or a collect-now."
        case _:
            assert_never(state)


_NOT_YET_LEASED: Final = "It waits for its desktop, which has not been sent it yet."
