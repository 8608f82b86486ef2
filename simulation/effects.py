"""What changes a task's place: let it wait, hold it, end it (the effects of store/settlement and store/releases)."""

from datetime import datetime
from typing import Final, assert_never
from uuid import UUID

from domain.lanes import Lane, default_priority
from domain.rounds import Live
from domain.settlement import Case, TaskEffect, counted_failure
from simulation.context import Context
from simulation.state import Attempt, Client, Outcome, Request, State, Task, moment

MAX_ATTEMPTS: Final = 3
_ANY: Final = UUID(int=0)


class Effects:
    """Each call is one transaction of the real system: tasks, leases, counters and wake-up move together."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._attempts = 0

    # --- waiting -------------------------------------------------------------------------------------------------

    def ask(self, task: Task) -> None:
        """A task is wanted, and waits."""
        self._context.ledger.ask(task)
        task.open = True
        self.let_wait(task)

    def let_wait(self, task: Task) -> None:
        """It may be dispatched."""
        task.seen, task.waits_since = None, self._context.clock.now
        task.tenant.waiting.add(task)
        self._context.wake(task.tenant)

    def take(self, task: Task) -> None:
        """It waits no longer."""
        task.tenant.waiting.remove(task)
        task.seen = None

    def expire(self, task: Task) -> None:
        """The cut-off of its day found it waiting."""
        self.take(task)
        task.open, task.outcome = False, Outcome.EXPIRED
        self._context.ledger.end(task, Outcome.EXPIRED)
        if not task.dispatched:
            self._context.meters.wait(task, self._context.clock.now - task.enqueued)

    def return_to_origin(self, task: Task) -> None:
        """Out of its request and into the lane it came from, with its age; if it waits, it goes on waiting there."""
        waits = task.open and task.attempt is None
        if waits:
            self.take(task)
        task.lane, task.priority = task.origin or (Lane.NORMAL, default_priority(Lane.NORMAL))
        task.origin = task.bound = task.request = None
        if waits:
            self.let_wait(task)

    # --- held by a desktop ---------------------------------------------------------------------------------------

    def hold(self, task: Task, client: Client) -> Attempt:
        """Dispatched: an execution row, queued on the client."""
        self.take(task)
        self._attempts += 1
        mine = task.request if task.lane is Lane.HIGH else None
        attempt = Attempt(self._attempts, task, client, task.lane, _is_scheduled(task), mine)
        task.attempt = attempt
        client.held.append(attempt)
        self.show(attempt)
        return attempt

    def show(self, attempt: Attempt) -> None:
        """Write what the planner reads of it, and of its client."""
        tenant = attempt.task.tenant
        tenant.live[attempt] = Live(
            tenant_id=tenant.id,
            client_id=attempt.client.id,
            platform=attempt.task.platform.name,
            running=attempt.state is State.RUNNING,
            lane=attempt.lane,
            interrupted_for=attempt.interrupted_for.id if attempt.interrupted_for else None,
            unknown=attempt.state is State.UNKNOWN,
        )
        self._context.publish(attempt.client)

    # --- endings -------------------------------------------------------------------------------------------------

    def complete(self, attempt: Attempt) -> None:
        """An answer: the task has ended."""
        self._close(attempt, aborted=False)
        self._end(attempt.task, Outcome.COMPLETED)

    def fail(self, attempt: Attempt, *, aborted: bool = False) -> None:
        """A counted failure: the task retries, stays high for its open request, or has failed."""
        self._close(attempt, aborted=aborted)
        task = attempt.task
        effect = counted_failure(_case(task))
        self._context.meters.retried[effect.value] += 1
        task.attempts += 1
        match effect:
            case TaskEffect.FAIL:
                self._end(task, Outcome.FAILED)
            case TaskEffect.RETRY:
                task.lane, task.priority = Lane.RETRY, default_priority(Lane.RETRY)
                task.base = task.priority
                self.let_wait(task)
            case TaskEffect.RETRY_HIGH:
                self.let_wait(task)
            case TaskEffect.KEEP | TaskEffect.RELEASE | TaskEffect.COMPLETE:
                raise AssertionError(f"a counted failure never has the effect {effect}")
            case _:
                assert_never(effect)

    def release(self, attempt: Attempt, *, preempted: bool = False, aborted: bool = False) -> None:
        """Out of its lease without counting an attempt: lane, priority and age as they are."""
        self._close(attempt, aborted=aborted)
        attempt.task.preemptions += preempted
        self.let_wait(attempt.task)

    def _close(self, attempt: Attempt, *, aborted: bool) -> None:
        context, task, client = self._context, attempt.task, attempt.client
        if attempt.state is not State.QUEUED:
            context.ledger.stop_running(attempt)
            client.endings.append((context.clock.now, aborted))
        context.ledger.release(attempt)
        attempt.state, task.attempt = State.OVER, None
        client.held.remove(attempt)
        del task.tenant.live[attempt]
        self.settle(attempt)
        context.publish(client)
        context.freed(attempt)
        context.wake(task.tenant)

    def settle(self, attempt: Attempt) -> None:
        """It is no longer asked to stop."""
        if attempt.interrupted_for is not None:
            attempt.interrupted_for.victims.pop(attempt, None)
            attempt.interrupted_for = None

    def _end(self, task: Task, outcome: Outcome) -> None:
        task.open, task.outcome = False, outcome
        self._context.ledger.end(task, outcome)
        if task.request is not None:
            self._context.settled(task.request)


def _is_scheduled(task: Task) -> bool:
    """Source `daily_schedule`: what an accept may interrupt. High work of a request and retries are not."""
    return not (task.lane is Lane.RETRY or (task.lane is Lane.HIGH and task.request is not None))


def _case(task: Task) -> Case:
    """The task as the settlement's rule sees it."""
    request = task.request
    return Case(
        attempt_id=_ANY,
        attempt_outcome=None,
        began_at=moment(0.0),
        execution_id=_ANY,
        execution_status="in_progress",
        is_current=True,
        source=None,
        task_id=task.id,
        task_status="pending",
        active_task_id=_ANY,
        request_accepted_at=_opened(request),
        dispatch_attempts=task.attempts,
        max_attempts=MAX_ATTEMPTS,
    )


def _opened(request: Request | None) -> datetime | None:
    return moment(request.accepted) if request is not None and request.open else None
