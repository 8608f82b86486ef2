"""The one serial loop that owns a desktop's state (dispatch §14.4, §17.3).

Frames, answers and the questions of executions are posted into its inbox; it applies them to the board one after the
other and performs the effects. Nobody else writes the board, so no order can slip between a check and its use.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, assert_never

from desktop.board import Board
from desktop.effects import AckUnheld, Begin, Effect, Ending, EndKind, Extend, GiveBack, Halt, Note, Pull, Verdict
from desktop.events import EventKind, Reporter
from desktop.rest import Reason, Refused, RestClient
from domain.desktop_calls import CancelCall, InterruptAckCall, LeaseAnswer, LeaseCall, PullCall
from domain.phases import Phase, SafePoint
from domain.protocol import HeldTask, TaskAvailable, TaskControl

log = logging.getLogger(__name__)

Step = Callable[[Board, float], list[Effect]]
Execute = Callable[[TaskAvailable], Awaitable[Ending]]


@dataclass(frozen=True, slots=True)
class _Question:
    """An execution's question at a phase change, with where the answer goes."""

    attempt_id: str
    phase: Phase
    point: SafePoint | None
    answer: asyncio.Future[Verdict]


class Scheduler:
    """Runs the loop; executions ask it before every phase. `execute` runs one attempt to its end."""

    def __init__(
        self, board: Board, rest: RestClient, reporter: Reporter, on_generation: Callable[[int], None] = lambda _: None
    ) -> None:
        self.board = board
        self._rest = rest
        self._reporter = reporter
        self._on_generation = on_generation
        self._inbox: asyncio.Queue[Step | _Question] = asyncio.Queue()
        self._executions: dict[str, asyncio.Task[None]] = {}
        self._calls: set[asyncio.Task[None]] = set()
        # Set at the end of the round in progress, then replaced.
        self._turned = asyncio.Event()
        self._execute: Execute | None = None

    # --- posted from outside: none of these changes anything before the loop gets to it --------------------

    def offered(self, frames: list[TaskAvailable], at: float) -> None:
        """Tasks that arrived together, at monotonic time `at`."""
        self._post(lambda board, _now: [effect for frame in frames for effect in board.offer(frame, at)])

    def ordered(self, control: TaskControl) -> None:
        """A control frame."""
        self._post(lambda board, _now: board.order(control))

    def reported(self, held: list[HeldTask]) -> None:
        """What a snapshot says about the attempts we hold."""
        self._post(lambda board, _now: [effect for one in held for effect in board.reported(one)])

    def extended(self, attempt_ids: frozenset[str]) -> None:
        """Leases that the server has extended."""
        self._post(lambda board, now: board.extended(attempt_ids, now))

    # --- asked by executions --------------------------------------------------------------------------------

    async def pass_into(self, attempt_id: str, phase: Phase, point: SafePoint | None) -> Verdict:
        """Ask to enter a phase; the loop answers in its turn."""
        answer: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._inbox.put_nowait(_Question(attempt_id, phase, point, answer))
        return await answer

    def told(self, attempt_id: str, answer: LeaseAnswer) -> None:
        """The server's answer to start or extend."""
        generation, interrupt = answer.interrupt_generation, answer.interrupt_requested
        self._post(lambda board, _now: board.told(attempt_id, generation, interrupt))
        self.extended(frozenset({attempt_id}))

    async def void(self, attempt_id: str, generation: int, grace: float) -> None:
        """The server called the acknowledged order stale. Returns when a newer one is here, at most after `grace` s."""
        self._post(lambda board, _now: board.void(attempt_id, generation))
        with suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self._turned.wait()
                while not self.board.ordered_away(attempt_id):
                    await self._turned.wait()

    # --- the loop -------------------------------------------------------------------------------------------

    async def run(self, execute: Execute) -> None:
        """Serve until cancelled; executions still running then are cancelled too."""
        self._execute = execute
        try:
            while True:
                await self._round()
        finally:
            await self._cancel_all()

    async def drained(self, *, finish: bool) -> None:
        """Begin nothing more and wait until nothing runs; without `finish` only answers already there are posted."""
        self._post(lambda board, _now: board.close(finish=finish))
        while self._executions or self._calls or not self._inbox.empty() or not self.board.idle:
            pending = [*self._executions.values(), *self._calls]
            if pending:
                await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(0)

    async def _round(self) -> None:
        first = await self._next()
        seen = self.board.highest_generation
        if first is not None:
            self._apply(first)
        # What arrived together is applied together, so that the most urgent begins and not the first read.
        while not self._inbox.empty():
            self._apply(self._inbox.get_nowait())
        now = time.monotonic()
        self._perform([*self.board.due(now), *self.board.expiring(now)])
        if self.board.highest_generation != seen:
            self._on_generation(self.board.highest_generation)
        self._turned.set()
        self._turned = asyncio.Event()

    async def _next(self) -> Step | _Question | None:
        try:
            async with asyncio.timeout(self.board.next_wake(time.monotonic())):
                return await self._inbox.get()
        except TimeoutError:
            return None

    def _apply(self, item: Step | _Question) -> None:
        if not isinstance(item, _Question):
            self._perform(item(self.board, time.monotonic()))
        elif not item.answer.done():
            item.answer.set_result(self.board.pass_into(item.attempt_id, item.phase, item.point))

    def _post(self, step: Step) -> None:
        self._inbox.put_nowait(step)

    # --- effects --------------------------------------------------------------------------------------------

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            self._perform_one(effect)

    def _perform_one(self, effect: Effect) -> None:
        match effect:
            case Begin(task):
                self._begin(task.frame)
            case Halt(attempt_id):
                if (execution := self._executions.get(attempt_id)) is not None:
                    execution.cancel()
            case GiveBack():
                self._spawn(self._give_back(effect))
            case AckUnheld():
                self._spawn(self._ack_unheld(effect))
            case Extend(frame):
                self._spawn(self._extend(frame))
            case Pull(count):
                self._spawn(self._pull(count))
            case Note():
                self._report(effect)
            case other:
                assert_never(other)

    def _begin(self, frame: TaskAvailable) -> None:
        name = f"execution {frame.attempt_id}"
        self._executions[frame.attempt_id] = asyncio.create_task(self._run_execution(frame), name=name)

    async def _run_execution(self, frame: TaskAvailable) -> None:
        ending = Ending(EndKind.DROPPED, "halted")
        try:
            assert self._execute is not None
            ending = await self._execute(frame)
        except Exception:
            log.exception("execution of %s failed", frame.task_id)
            ending = Ending(EndKind.DROPPED, "internal_error")
        finally:
            self._executions.pop(frame.attempt_id, None)
            self._post(lambda board, now: board.ended(frame.attempt_id, ending, now))

    async def _give_back(self, effect: GiveBack) -> None:
        frame = effect.frame
        call = CancelCall(lease_token=frame.lease_token, reason=effect.reason, interrupt_generation=effect.generation)
        answer = await self._rest.cancel(frame.task_id, call)
        detail = answer.reason if isinstance(answer, Refused) else answer.result
        self._reporter.task(EventKind.RETURNED, frame, generation=effect.generation, detail=detail)

    async def _ack_unheld(self, effect: AckUnheld) -> None:
        call = InterruptAckCall(interrupt_generation=effect.generation, reason=effect.reason)
        answer = await self._rest.interrupt_ack(effect.task_id, call)
        detail = answer.reason if isinstance(answer, Refused) else answer.result
        self._reporter.emit(EventKind.ACKED_UNHELD, task_id=effect.task_id, generation=effect.generation, detail=detail)

    async def _pull(self, count: int) -> None:
        answer = await self._rest.lease(PullCall(count=count))
        if isinstance(answer, Refused):
            self._post(lambda board, now: board.pull_failed(now))
            return
        frames, remaining = [TaskAvailable(**task.model_dump()) for task in answer.tasks], answer.remaining
        for frame in frames:
            self._reporter.task(EventKind.PULLED, frame, generation=frame.interrupt_generation)
        self._post(lambda board, now: board.pulled(frames, remaining, now))

    async def _extend(self, frame: TaskAvailable) -> None:
        answer = await self._rest.extend(frame.task_id, LeaseCall(lease_token=frame.lease_token))
        if not isinstance(answer, Refused):
            self.told(frame.attempt_id, answer)
        elif answer.reason in (Reason.LEASE_LOST, Reason.NOT_FOUND):
            self._post(lambda board, _now: board.lease_over(frame.attempt_id, answer.reason))

    def _report(self, note: Note) -> None:
        frame = note.frame
        self._reporter.emit(
            note.kind,
            task_id=note.task_id,
            attempt_id=frame.attempt_id if frame else None,
            lane=frame.lane if frame else None,
            control=note.control,
            generation=note.generation,
            detail=note.detail,
        )

    def _spawn(self, call: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(call)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _cancel_all(self) -> None:
        tasks = [*self._executions.values(), *self._calls]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
