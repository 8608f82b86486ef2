"""The scripted hub's leases: what it gave away, what the client did with it, and how each call is answered."""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from desktop.conformance.orders import lease_end
from domain.desktop_calls import CancelAnswer, LeaseAnswer, PullAnswer, PulledTask, ResultAnswer
from domain.errors import GivewayError, LeaseLost, NoSlot, NotFound, StaleGeneration
from domain.protocol import TaskAvailable

QUEUED: Final = "queued"
RUNNING: Final = "in_progress"


@dataclass(slots=True)
class Lease:
    """The server's side of one attempt. `generation` is the order's that waits, or the last one's."""

    frame: TaskAvailable
    generation: int
    status: str = QUEUED
    interrupted: bool = False
    valid: bool = True
    # Start calls wait for it before they are answered.
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    # Refusals to give instead of doing the call, by action, first come first served.
    troubles: dict[str, deque[GivewayError]] = field(default_factory=dict)

    @property
    def live(self) -> bool:
        """Neither ended nor taken away."""
        return self.valid and self.status in (QUEUED, RUNNING)

    def trouble(self, action: str, *errors: GivewayError) -> None:
        """Refuse the next calls of this kind."""
        self.troubles.setdefault(action, deque()).extend(errors)

    def __post_init__(self) -> None:
        self.gate.set()


class Ledger:
    """Leases by task. Calls raise the refusal; `slots` is how many tasks may run."""

    def __init__(self) -> None:
        self.leases: dict[str, Lease] = {}
        self.offers: list[TaskAvailable] = []
        self.slots = 1

    def grant(self, frame: TaskAvailable) -> Lease:
        """Lease a task."""
        lease = self.leases[frame.task_id] = Lease(frame, frame.interrupt_generation)
        return lease

    def verdict(self, task_id: str, attempt_id: str) -> bool:
        """Whether an attempt that the client lists is still its own."""
        lease = self.leases.get(task_id)
        return lease is not None and lease.valid and lease.frame.attempt_id == attempt_id

    def pull(self, count: int) -> PullAnswer:
        """Lease what is on offer."""
        taken, self.offers = self.offers[:count], self.offers[count:]
        for frame in taken:
            self.grant(frame)
        tasks = [PulledTask.model_validate(msgspec.to_builtins(msgspec.structs.asdict(frame))) for frame in taken]
        return PullAnswer(tasks=tasks, remaining=len(self.offers))

    def start(self, task_id: str, token: str) -> LeaseAnswer:
        """queued → in_progress."""
        lease = self._held(task_id, token, "start")
        busy = sum(one.status == RUNNING and one.valid for one in self.leases.values())
        if lease.status == QUEUED and busy >= self.slots:
            raise NoSlot(f"{busy} of {self.slots} tasks run here")
        lease.status = RUNNING
        return self._answer(lease)

    def extend(self, task_id: str, token: str) -> LeaseAnswer:
        """A longer lease."""
        return self._answer(self._held(task_id, token, "extend"))

    def stop(self, action: str, task_id: str, token: str | None, generation: int) -> CancelAnswer:
        """Cancel and interrupt-ack."""
        if token is None:
            return CancelAnswer(task_id=task_id, result="already_settled")
        lease = self._held(task_id, token, action)
        if lease.status == RUNNING and generation < lease.generation:
            raise StaleGeneration(
                f"generation {generation} is older than {lease.generation}",
                interrupt_requested=lease.interrupted,
                interrupt_generation=lease.generation,
            )
        preempted = lease.status == RUNNING and lease.interrupted
        lease.status, lease.valid = "aborted", False
        return CancelAnswer(task_id=task_id, result="preempted" if preempted else "requeued")

    def result(self, task_id: str, token: str, attempt_id: str) -> ResultAnswer:
        """Take a result, once."""
        lease = self._known(task_id)
        duplicate = lease.status == "done" and lease.frame.lease_token == token
        if not duplicate:
            self._held(task_id, token, "result")
        lease.status = "done"
        return ResultAnswer.model_validate({"task_id": task_id, "attempt_id": attempt_id, "duplicate": duplicate})

    def _known(self, task_id: str) -> Lease:
        lease = self.leases.get(task_id)
        if lease is None:
            raise NotFound(f"no task {task_id[:100]}")
        return lease

    def _held(self, task_id: str, token: str, action: str) -> Lease:
        lease = self._known(task_id)
        if trouble := lease.troubles.get(action):
            refusal = trouble.popleft()
            lease.valid = not isinstance(refusal, LeaseLost)
            raise refusal
        if token != lease.frame.lease_token or not lease.live:
            raise LeaseLost("the lease token is not the task's current one; drop the task")
        return lease

    def _answer(self, lease: Lease) -> LeaseAnswer:
        values: dict[str, Any] = {
            "task_id": lease.frame.task_id,
            "status": lease.status,
            "lease_expires_at": lease_end(),
            "interrupt_requested": lease.interrupted,
            "interrupt_generation": lease.generation,
        }
        return LeaseAnswer(**values)
