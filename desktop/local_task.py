"""One attempt held by this desktop, and the local order (2-desktop §2.3, dispatch §14.2)."""

from dataclasses import dataclass
from datetime import datetime

from domain.lanes import Kind
from domain.legacy import ExecutionOwner, may_yield
from domain.phases import Phase
from domain.protocol import HeldAttempt, TaskAvailable

OrderKey = tuple[int, int, float, datetime, datetime, str]


@dataclass(frozen=True, slots=True)
class Interrupt:
    """A pending order to give way."""

    generation: int
    reason: str


@dataclass(slots=True)
class LocalTask:
    """An attempt that waits or runs here. Only the scheduler's loop writes it; times are monotonic seconds."""

    frame: TaskAvailable
    available_at: float
    lease_until: float
    last_seen_generation: int
    interrupt: Interrupt | None = None
    canceled: bool = False
    running: bool = False
    # Why it was stopped at once; it keeps its slot until the execution has really ended.
    halted: str | None = None
    phase: Phase | None = None
    not_before: float = 0.0
    extend_not_before: float = 0.0

    @property
    def attempt_id(self) -> str:
        return self.frame.attempt_id

    @property
    def publishes(self) -> bool:
        return self.frame.kind == Kind.PUBLISH

    @property
    def yields(self) -> bool:
        """Whether an order to stop is still followed: on the legacy path only before the question has begun."""
        return self.frame.owner != ExecutionOwner.LEGACY or may_yield(self.phase)

    def held(self) -> HeldAttempt:
        """The attempt as hello, sync and heartbeats list it."""
        return HeldAttempt(
            task_id=self.frame.task_id,
            attempt_id=self.frame.attempt_id,
            phase=self.phase,
            state=self._state(),
        )

    def _state(self) -> str:
        if not self.running:
            return "queued"
        return "posting" if self.phase is Phase.POSTING else "running"


def order_key(task: LocalTask) -> OrderKey:
    """Ascending sort gives the most urgent first; the task id last makes the order total."""
    frame = task.frame
    return (
        -frame.lane_weight,
        -frame.priority,
        task.available_at,
        frame.enqueued_at,
        frame.updated_at,
        frame.task_id,
    )
