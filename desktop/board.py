"""The state of one desktop and its rules, without time and without I/O (2-desktop §2.3, dispatch §14.4).

Every method is one step of the scheduler's loop: it changes the state and answers with the effects to perform.
Control frames only set flags here; an execution learns of them when it asks at its next safe point.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, assert_never

from desktop.config import Timings
from desktop.effects import (
    Abandon,
    AckUnheld,
    Begin,
    Effect,
    Ending,
    EndKind,
    Extend,
    GiveBack,
    GiveWay,
    GoOn,
    Halt,
    Note,
    Pull,
    Verdict,
)
from desktop.events import EventKind
from desktop.local_task import Interrupt, LocalTask, order_key
from desktop.offers import Offers
from domain.phases import Phase, SafePoint
from domain.protocol import Control, HeldAttempt, HeldTask, TaskAvailable, TaskControl

STOPPING: Final = "client_stopping"
DEFAULT_REASON: Final = "collect_now_preempt"
# Attempts that ended here lately: a frame that was on its way when they ended must not revive them.
REMEMBERED_ENDS: Final = 1000
PUBLISH_SLOTS: Final = 1


class Board:
    """Attempts held here, by attempt id. `result_waits(task_id)`: a result of the task is kept, not yet accepted."""

    def __init__(
        self,
        max_concurrent: int,
        timings: Timings,
        *,
        highest_generation: int = 0,
        result_waits: Callable[[str], bool] = lambda _task_id: False,
    ) -> None:
        self._tasks: dict[str, LocalTask] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._offers = Offers(timings.no_slot)
        self._timings = timings
        self._result_waits = result_waits
        self.max_concurrent = max_concurrent
        self.highest_generation = highest_generation
        self.stale_orders = 0
        self.closing = False

    # --- what the server says -----------------------------------------------------------------------------

    def offer(self, frame: TaskAvailable, now: float) -> list[Effect]:
        """A task with its lease. Known attempts are left alone, a newer lease replaces an older one.

        A legacy task without a lease is only on offer: it is pulled when there is a slot.
        """
        self._see(frame.interrupt_generation)
        if frame.is_offer:
            self._offers.announce(frame)
            return []
        mine = self._of_task(frame.task_id)
        if frame.attempt_id in self._ended or (mine is not None and not _supersedes(frame, mine)):
            return []
        if self.closing:
            return [GiveBack(frame, frame.interrupt_generation, STOPPING)]
        task = LocalTask(frame, now, now + self._timings.lease, last_seen_generation=frame.interrupt_generation)
        effects = [] if mine is None else self._replace(mine, task)
        self._tasks[frame.attempt_id] = task
        return effects

    def pulled(self, frames: list[TaskAvailable], remaining: int, now: float) -> list[Effect]:
        """The answer of a pull: leased tasks, and how many still stand on offer for lack of a slot."""
        self._offers.answered(frozenset(frame.task_id for frame in frames), remaining, now)
        return [effect for frame in frames for effect in self.offer(frame, now)]

    def pull_failed(self, now: float) -> list[Effect]:
        """A pull was not answered."""
        self._offers.failed(now)
        return []

    def order(self, control: TaskControl) -> list[Effect]:
        """An order about a task: set or clear its flag, unless it is older than what was seen."""
        self._see(control.interrupt_generation)
        task = self._of_task(control.task_id)
        if task is None:
            return self._order_for_unheld(control)
        if control.interrupt_generation < task.last_seen_generation:
            self.stale_orders += 1
            return [_noted(EventKind.ORDER_STALE, task, control)]
        task.last_seen_generation = control.interrupt_generation
        return [_noted(EventKind.ORDER_TAKEN, task, control), *self._obey(task, control)]

    def reported(self, held: HeldTask) -> list[Effect]:
        """What a snapshot thinks of an attempt we said we hold."""
        task = self._tasks.get(held.attempt_id)
        if task is None or held.valid or task.phase is Phase.POSTING:
            # A result on its way out is judged by the result call.
            return []
        return self._lose(task, "lease_lost")

    def told(self, attempt_id: str, generation: int, interrupt: bool) -> list[Effect]:
        """The start or extend answer shows the task as it stands.

        It may tell of an interrupt whose frame is still on its way, or that there is none any more.
        """
        task = self._tasks.get(attempt_id)
        if task is None:
            return []
        self._see(generation)
        if generation >= task.last_seen_generation and not task.publishes:
            task.last_seen_generation = generation
            task.interrupt = Interrupt(generation, DEFAULT_REASON) if interrupt else None
        return []

    def lease_over(self, attempt_id: str, why: str) -> list[Effect]:
        """A call was answered `lease_lost`."""
        task = self._tasks.get(attempt_id)
        return [] if task is None else self._lose(task, why)

    def extended(self, attempt_ids: frozenset[str], now: float) -> list[Effect]:
        """Heartbeat or extend call accepted: these leases run on."""
        for task in self._tasks.values():
            if task.attempt_id in attempt_ids:
                task.lease_until = now + self._timings.lease
        return []

    # --- what an execution asks ---------------------------------------------------------------------------

    def pass_into(self, attempt_id: str, phase: Phase, point: SafePoint | None) -> Verdict:
        """May the attempt enter the phase? Without a safe point before it, always, unless its lease is over."""
        task = self._tasks.get(attempt_id)
        if task is None or task.halted is not None:
            return Abandon("lease_lost")
        if point is not None and task.canceled:
            return Abandon("canceled")
        if point is not None and task.interrupt is not None and task.yields:
            return GiveWay(task.interrupt.generation, task.interrupt.reason)
        task.phase = phase
        return GoOn()

    def void(self, attempt_id: str, generation: int) -> list[Effect]:
        """The server called this order stale: forget it, a newer one comes or none."""
        task = self._tasks.get(attempt_id)
        if task is not None and task.interrupt is not None and task.interrupt.generation <= generation:
            task.interrupt = None
        return []

    def ordered_away(self, attempt_id: str) -> bool:
        """Whether the next safe point of the attempt will stop it, or it is over already."""
        task = self._tasks.get(attempt_id)
        return task is None or task.halted is not None or task.canceled or task.interrupt is not None

    def ended(self, attempt_id: str, ending: Ending, now: float) -> list[Effect]:
        """An execution is over: its slot is free, and what was refused a slot may try again."""
        task = self._tasks.get(attempt_id)
        if task is None:
            return []
        if ending.kind is EndKind.NO_SLOT and task.halted is None:
            return self._requeue(task, now)
        self._forget(task)
        for other in self._tasks.values():
            other.not_before = 0.0
        if task.halted == STOPPING:
            return [GiveBack(task.frame, task.last_seen_generation, STOPPING)]
        why = task.halted or (ending.why if ending.kind is EndKind.DROPPED else None)
        return [] if why is None else [_dropped(task, why)]

    # --- what runs next -----------------------------------------------------------------------------------

    def due(self, now: float) -> list[Effect]:
        """Begin the most urgent tasks while there are local slots; pull for those left. Publish has its own slot."""
        begun: list[Effect] = []
        while not self.closing and (task := self._next(now)) is not None and not self._offers.outranks(task, now):
            task.running, task.phase = True, Phase.PREPARING
            begun.append(Begin(task))
        count = 0 if self.closing else self._offers.ask(self._free_slots(), now)
        return [*begun, Pull(count)] if count else begun

    def expiring(self, now: float) -> list[Effect]:
        """Leases in their last third that no heartbeat has extended."""
        margin = self._timings.lease / 3
        late = [t for t in self._alive() if t.lease_until - now < margin and t.extend_not_before <= now]
        for task in late:
            task.extend_not_before = now + margin / 4
        return [Extend(task.frame) for task in late]

    def next_wake(self, now: float) -> float:
        """Seconds until something here is due without an event; at most a quarter of a lease."""
        times = [task.not_before - now for task in self._waiting() if task.not_before > now]
        return max(0.01, min([self._timings.lease / 4, *times, *self._offers.wakes_in(now)]))

    def close(self, *, finish: bool) -> list[Effect]:
        """Begin nothing more. Leases go back: waiting ones now, unless `finish` also those without an answer."""
        self.closing = True
        effects = [effect for task in self._waiting() for effect in self._give_back(task)]
        if not finish:
            early = [task for task in self._alive() if task.phase not in (Phase.PARSING, Phase.POSTING)]
            effects += [effect for task in early for effect in self._lose(task, STOPPING)]
        return effects

    @property
    def idle(self) -> bool:
        """Nothing waits or runs here."""
        return not self._tasks

    def held(self) -> tuple[list[HeldAttempt], list[HeldAttempt]]:
        """(running, queued), as heartbeats list them."""
        alive = self._alive()
        return [t.held() for t in alive if t.running], [t.held() for t in alive if not t.running]

    # --- inside -------------------------------------------------------------------------------------------

    def _obey(self, task: LocalTask, control: TaskControl) -> list[Effect]:
        reason = control.reason or DEFAULT_REASON
        match control.control:
            case Control.INTERRUPT_REQUESTED:
                if task.publishes:
                    return []
                task.interrupt = Interrupt(control.interrupt_generation, reason)
                return [] if task.running else self._give_back(task)
            case Control.INTERRUPT_WITHDRAWN:
                task.interrupt = None
                return []
            case Control.CANCELED:
                task.canceled = True
                return [] if task.running else self._lose(task, "canceled")
            case other:
                assert_never(other)

    def _order_for_unheld(self, control: TaskControl) -> list[Effect]:
        if control.control is not Control.INTERRUPT_REQUESTED or self._result_waits(control.task_id):
            # A result that waits settles the order itself once it is accepted.
            return []
        return [AckUnheld(control.task_id, control.interrupt_generation, control.reason or DEFAULT_REASON)]

    def _replace(self, mine: LocalTask, fresh: LocalTask) -> list[Effect]:
        if mine.running:
            return self._lose(mine, "lease_replaced")
        # A fresh token for a task that still waits keeps its place in the order.
        fresh.available_at = mine.available_at
        fresh.last_seen_generation = max(mine.last_seen_generation, fresh.last_seen_generation)
        del self._tasks[mine.attempt_id]
        return []

    def _requeue(self, task: LocalTask, now: float) -> list[Effect]:
        task.running, task.phase, task.not_before = False, None, now + self._timings.no_slot
        if task.canceled:
            return self._lose(task, "canceled")
        if self.closing or task.interrupt is not None:
            return self._give_back(task)
        return [Note(EventKind.NO_SLOT, task.frame.task_id, task.frame)]

    def _give_back(self, task: LocalTask) -> list[Effect]:
        self._forget(task)
        reason = STOPPING if task.interrupt is None else task.interrupt.reason
        return [GiveBack(task.frame, task.last_seen_generation, reason)]

    def _lose(self, task: LocalTask, why: str) -> list[Effect]:
        if task.running:
            task.halted = why
            return [Halt(task.attempt_id)]
        self._forget(task)
        return [_dropped(task, why)]

    def _forget(self, task: LocalTask) -> None:
        del self._tasks[task.attempt_id]
        self._ended[task.attempt_id] = None
        if len(self._ended) > REMEMBERED_ENDS:
            self._ended.popitem(last=False)

    def _see(self, generation: int) -> None:
        self.highest_generation = max(self.highest_generation, generation)

    def _alive(self) -> list[LocalTask]:
        return [task for task in self._tasks.values() if task.halted is None]

    def _waiting(self) -> list[LocalTask]:
        return [task for task in self._tasks.values() if not task.running]

    def _of_task(self, task_id: str) -> LocalTask | None:
        return next((task for task in self._alive() if task.frame.task_id == task_id), None)

    def _free_slots(self) -> int:
        return self.max_concurrent - sum(task.running and not task.publishes for task in self._tasks.values())

    def _next(self, now: float) -> LocalTask | None:
        busy = [task.publishes for task in self._tasks.values() if task.running]
        open_kinds = {True: busy.count(True) < PUBLISH_SLOTS, False: busy.count(False) < self.max_concurrent}
        ready = (t for t in self._waiting() if t.not_before <= now and open_kinds[t.publishes])
        return min(ready, key=order_key, default=None)


def _supersedes(frame: TaskAvailable, mine: LocalTask) -> bool:
    """Whether the frame is a newer lease of a task we hold: a later attempt, or a fresh token while it waits."""
    if frame.attempt_id == mine.attempt_id:
        return not mine.running and frame.lease_token != mine.frame.lease_token
    return frame.attempt >= mine.frame.attempt


def _noted(kind: EventKind, task: LocalTask, control: TaskControl) -> Note:
    return Note(kind, control.task_id, task.frame, control.control, control.interrupt_generation)


def _dropped(task: LocalTask, why: str) -> Note:
    return Note(EventKind.DROPPED, task.frame.task_id, task.frame, detail=why)
