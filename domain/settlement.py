"""What a result does to its attempt, its execution task and its business task (2-desktop §2.2, dispatch §11.2).

Pure rules; `store/settlement.py` reads the cases and writes the rulings.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

LIVE: Final = frozenset({"queued", "in_progress", "unknown"})
UNFINISHED: Final = frozenset({"pending", "leased", "received"})


class TaskEffect(StrEnum):
    """What happens to the business task. The last four clear `active_task_id`; `retry` and `fail` count an attempt."""

    KEEP = "keep"
    # Dispatchable again, nothing counted: the answer came from before the request that now wants the task.
    RELEASE = "release"
    COMPLETE = "complete"
    RETRY = "retry"
    RETRY_HIGH = "retry_high"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Case:
    """An attempt with its execution and business task, as they stand under lock.

    `began_at`: when the attempt started, or was leased if it never reported a start. `is_current`: the execution
    row's newest lease is this attempt. `request_accepted_at`: set while the task belongs to an open request.
    A legacy attempt has no execution row.
    """

    attempt_id: UUID
    attempt_outcome: str | None
    began_at: datetime
    execution_id: UUID | None
    execution_status: str | None
    is_current: bool
    source: str | None
    task_id: int
    task_status: str
    active_task_id: UUID | None
    request_accepted_at: datetime | None
    dispatch_attempts: int
    max_attempts: int
    # Whether the attempt asked the text that the task asks now.
    asked_current_text: bool = True

    @property
    def runs(self) -> bool:
        """Whether this attempt is the one that the execution row (legacy: the business row) stands for now."""
        if self.execution_id is None:
            return self.task_status in ("leased", "received") and self.attempt_outcome is None
        return self.execution_status in LIVE and self.is_current

    @property
    def holds_task(self) -> bool:
        """Whether the business task waits for this execution row."""
        if self.task_status not in UNFINISHED:
            return False
        return self.runs if self.execution_id is None else self.active_task_id == self.execution_id

    @property
    def satisfies_request(self) -> bool:
        """An attempt from before the accept counts for the request only if the accept adopted it."""
        return (
            self.request_accepted_at is None
            or self.began_at >= self.request_accepted_at
            or self.source == "collect_now"
        )


@dataclass(frozen=True, slots=True)
class Ruling:
    """The new attempt outcome and execution status (None: as they are) and the effect on the business task."""

    attempt_outcome: str | None = None
    execution_status: str | None = None
    effect: TaskEffect = TaskEffect.KEEP


DUPLICATE: Final = Ruling()


def rule_success(case: Case) -> Ruling:
    """An answer is expensive: taken from any genuine attempt, even a revoked one, while the task is unfinished.

    An answer to an older wording is kept as a fact, and is none to the present one: the task goes on.
    """
    if case.attempt_outcome == "succeeded":
        return DUPLICATE
    if case.task_status not in UNFINISHED:
        return Ruling("succeeded", "succeeded" if case.runs else None)
    if case.satisfies_request and case.asked_current_text:
        return Ruling("succeeded", "succeeded" if case.execution_status in LIVE else None, TaskEffect.COMPLETE)
    if not case.runs:
        return Ruling("succeeded")
    return Ruling("succeeded", "succeeded", TaskEffect.RELEASE if case.holds_task else TaskEffect.KEEP)


def rule_failure(case: Case, outcome: str = "failed") -> Ruling:
    """A failure counts once, and only for the attempt that the task waits for; `outcome` says how the attempt ended."""
    if case.attempt_outcome in ("succeeded", "failed"):
        return DUPLICATE
    if not case.runs:
        return Ruling(outcome) if case.attempt_outcome is None else DUPLICATE
    return Ruling(outcome, "failed", counted_failure(case) if case.holds_task else TaskEffect.KEEP)


def counted_failure(case: Case) -> TaskEffect:
    """Used-up attempts fail the task; an open request's task stays high, others retry (1-dispatch §1.5)."""
    if case.dispatch_attempts + 1 >= case.max_attempts:
        return TaskEffect.FAIL
    return TaskEffect.RETRY if case.request_accepted_at is None else TaskEffect.RETRY_HIGH
