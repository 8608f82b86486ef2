"""One attempt from its start call to its result, giving way at safe points (2-desktop §2.3, dispatch §10.4, §14.4).

Between submitting and the answer nothing is asked, so nothing stops there. Stopping at `before_parse` gives up an
answer that is already there, on purpose: the source names it a safe point, and the person who clicked waits.
"""

import logging
import time
from dataclasses import dataclass, field
from typing import Final, Protocol

from desktop.driver import Driver, DriverFailure, RunContext
from desktop.effects import Abandon, Ending, EndKind, GiveWay, Verdict
from desktop.events import EventKind, Reporter
from desktop.health import Health
from desktop.posting import Posted
from desktop.rest import Reason, Refused
from desktop.results import KeptResult, failed, succeeded
from domain.desktop_calls import CancelAnswer, InterruptAckCall, LeaseAnswer, LeaseCall
from domain.legacy import point_before
from domain.phases import Phase, SafePoint, pause_point_in
from domain.protocol import TaskAvailable

log = logging.getLogger(__name__)

DRIVEN: Final = tuple(phase for phase in Phase if phase is not Phase.POSTING)
_GONE: Final = (Reason.LEASE_LOST, Reason.NOT_FOUND)


class Gate(Protocol):
    """Whom an execution asks before each phase: the scheduler's loop."""

    async def pass_into(self, attempt_id: str, phase: Phase, point: SafePoint | None) -> Verdict: ...

    def told(self, attempt_id: str, answer: LeaseAnswer) -> None: ...

    async def void(self, attempt_id: str, generation: int, grace: float) -> None: ...


class LeaseCalls(Protocol):
    """The REST calls an execution makes (desktop/rest.py)."""

    async def start(self, task_id: str, call: LeaseCall) -> LeaseAnswer | Refused: ...

    async def interrupt_ack(self, task_id: str, call: InterruptAckCall) -> CancelAnswer | Refused: ...


class Submitter(Protocol):
    """Where results go (desktop/posting.py)."""

    async def submit(self, result: KeptResult) -> Posted: ...


@dataclass(frozen=True, slots=True)
class Tools:
    """What every execution of one desktop shares. `stale_grace` in seconds (config.Timings)."""

    gate: Gate
    rest: LeaseCalls
    driver: Driver
    poster: Submitter
    reporter: Reporter
    stale_grace: float
    health: Health = field(default_factory=lambda: Health(lambda: True))


@dataclass(slots=True)
class Stopwatch:
    """Times of one attempt, in milliseconds."""

    phases: dict[Phase, float] = field(default_factory=dict)
    last_safe_point: float = field(default_factory=time.monotonic)
    _longest: float = 0.0

    @property
    def longest_interval(self) -> float:
        """Between two safe points, the one that is coming included."""
        return max(self._longest, self.since_safe_point())

    def since_safe_point(self) -> float:
        return (time.monotonic() - self.last_safe_point) * 1000

    def pass_safe_point(self) -> float:
        """The interval that ends here; the next one begins."""
        interval = self.since_safe_point()
        self.last_safe_point, self._longest = time.monotonic(), max(self._longest, interval)
        return interval

    def add(self, phase: Phase, began: float) -> None:
        self.phases[phase] = self.phases.get(phase, 0.0) + (time.monotonic() - began) * 1000


class Execution:
    """Runs one attempt; `run` is called once."""

    def __init__(self, task: TaskAvailable, tools: Tools) -> None:
        self._task = task
        self._tools = tools
        self._context = RunContext()
        self._watch = Stopwatch()
        self._phase = Phase.PREPARING

    async def run(self) -> Ending:
        """Start, go through the phases, post. Cancelled = stop at once (the lease is over)."""
        refused = await self._start()
        if refused is not None:
            return refused
        try:
            stopped = await self._drive()
            result = None if stopped is not None else self._result()
        except DriverFailure as failure:
            log.warning("task %s failed in %s: %s", self._task.task_id, self._phase, failure)
            stopped, result = None, failed(self._task, failure, self._watch.phases, self._watch.longest_interval)
        finally:
            await self._release()
        if result is not None:
            return await self._post(result)
        return stopped or Ending(EndKind.DROPPED, "no_result")

    async def _start(self) -> Ending | None:
        call = LeaseCall(lease_token=self._task.lease_token, phase=Phase.PREPARING)
        answer = await self._tools.rest.start(self._task.task_id, call)
        if isinstance(answer, LeaseAnswer):
            self._tools.gate.told(self._task.attempt_id, answer)
            self._tools.reporter.task(EventKind.STARTED, self._task, generation=answer.interrupt_generation)
            self._watch = Stopwatch()
            return None
        if answer.reason in (Reason.NO_SLOT, Reason.UNAVAILABLE):
            return Ending(EndKind.NO_SLOT, answer.reason)
        return Ending(EndKind.DROPPED, answer.reason)

    async def _drive(self) -> Ending | None:
        """All phases that the driver runs; an ending when the attempt stops at a safe point."""
        for phase in DRIVEN:
            stopped = await self._enter(phase, self._if_safe(point_before(self._task.owner, phase)))
            while stopped is None and await self._timed(phase):
                stopped = await self._enter(phase, self._if_safe(pause_point_in(phase)))
            if stopped is not None:
                return stopped
        return None

    def _if_safe(self, point: SafePoint | None) -> SafePoint | None:
        """Between phases too: a page may be in a login that the next phase waits for."""
        return None if self._context.unsafe else point

    async def _timed(self, phase: Phase) -> bool:
        """Run the phase, or its next step; whether a step is left."""
        began = time.monotonic()
        try:
            return await self._run_phase(phase)
        finally:
            self._watch.add(phase, began)

    async def _run_phase(self, phase: Phase) -> bool:
        try:
            return bool(await self._tools.driver.run_phase(phase, self._task, self._context))
        except DriverFailure:
            raise
        except Exception as error:
            log.exception("driver failed in %s of %s", phase, self._task.task_id)
            self._tools.health.failed()
            raise DriverFailure("driver_error", type(error).__name__) from error

    async def _enter(self, phase: Phase, point: SafePoint | None) -> Ending | None:
        """Ask the loop; stop when it says so and the server takes the acknowledgement, else enter the phase."""
        verdict = await self._tools.gate.pass_into(self._task.attempt_id, phase, point)
        while isinstance(verdict, GiveWay):
            assert point is not None
            settled = await self._give_way(verdict, point)
            if isinstance(settled, Ending):
                return settled
            verdict = await self._ask_again(settled, verdict, phase, point)
        if isinstance(verdict, Abandon):
            return Ending(EndKind.DROPPED, verdict.why)
        self._entered(phase, point)
        return None

    async def _give_way(self, order: GiveWay, point: SafePoint) -> Ending | Refused:
        interval = self._watch.since_safe_point()
        call = InterruptAckCall(
            lease_token=self._task.lease_token,
            reason=order.reason,
            interrupt_generation=order.generation,
            phase=self._phase,
            safe_point=point,
            safe_point_interval_ms=interval,
            phase_times=self._watch.phases,
        )
        answer = await self._tools.rest.interrupt_ack(self._task.task_id, call)
        if isinstance(answer, Refused):
            return Ending(EndKind.DROPPED, answer.reason) if answer.reason in _GONE else answer
        self._tools.reporter.task(
            EventKind.GAVE_WAY,
            self._task,
            safe_point=point,
            generation=order.generation,
            phase=self._phase,
            interval_ms=interval,
            detail=answer.result,
        )
        return Ending(EndKind.GAVE_WAY, answer.result, point)

    async def _ask_again(self, refused: Refused, order: GiveWay, phase: Phase, point: SafePoint) -> Verdict:
        """The acknowledgement was not taken.

        Stale: a newer order is on its way, so wait for it a moment. No answer: go on, and try at the next safe point.
        """
        if refused.reason is not Reason.STALE_GENERATION:
            return await self._tools.gate.pass_into(self._task.attempt_id, phase, None)
        await self._tools.gate.void(self._task.attempt_id, order.generation, self._tools.stale_grace)
        return await self._tools.gate.pass_into(self._task.attempt_id, phase, point)

    def _entered(self, phase: Phase, point: SafePoint | None) -> None:
        if point is not None:
            interval = self._watch.pass_safe_point()
            self._tools.reporter.task(
                EventKind.SAFE_POINT_PASSED, self._task, safe_point=point, phase=self._phase, interval_ms=interval
            )
        if phase is not self._phase or phase is DRIVEN[0]:
            self._tools.reporter.task(EventKind.PHASE_ENTERED, self._task, phase=phase)
        self._phase = phase

    def _result(self) -> KeptResult:
        if self._context.answer is None:
            raise DriverFailure("no_answer")
        self._tools.health.worked()
        try:
            return succeeded(self._task, self._context.answer, self._watch.phases, self._watch.longest_interval)
        except ValueError as error:
            # Text that JSON cannot carry, such as lone surrogates, or fields out of their bounds.
            raise DriverFailure("answer_unusable", type(error).__name__) from error

    async def _release(self) -> None:
        try:
            await self._tools.driver.release(self._task, self._context)
        except Exception:
            log.exception("driver failed to release %s", self._task.task_id)

    async def _post(self, result: KeptResult) -> Ending:
        """POSTING keeps the local slot until the server has answered once; a result that waits does not."""
        verdict = await self._tools.gate.pass_into(self._task.attempt_id, Phase.POSTING, None)
        if isinstance(verdict, Abandon):
            return Ending(EndKind.DROPPED, verdict.why)
        self._entered(Phase.POSTING, None)
        posted = await self._tools.poster.submit(result)
        interval = self._watch.pass_safe_point()
        # After the question: an order that waits is settled by the result itself, so nothing is acknowledged.
        self._tools.reporter.task(
            EventKind.FINISHED,
            self._task,
            safe_point=SafePoint.AFTER_QUESTION,
            interval_ms=interval,
            outcome=result.call.outcome,
            detail=posted,
        )
        return Ending(EndKind.FINISHED, posted, SafePoint.AFTER_QUESTION)
