"""Driver `replay`: recorded answers in realistic time, the same for the same seed and task (2-desktop §2.4)."""

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from desktop.driver import Answer, DriverFailure, RunContext
from desktop.recorded import RecordedAnswers
from domain.phases import Phase
from domain.protocol import TaskAvailable

CONTENT_TYPES: Final[Mapping[str, str]] = {
    ".json": "application/json",
    ".jsonl": "application/x-ndjson",
    ".sse": "text/event-stream",
    ".md": "text/markdown",
    ".html": "text/html",
    ".htm": "text/html",
    ".txt": "text/plain",
}


@dataclass(frozen=True, slots=True)
class Spread:
    """A log-normal duration: its median in seconds, and the standard deviation of its logarithm."""

    median: float
    sigma: float

    def draw(self, rng: Random) -> float:
        return rng.lognormvariate(math.log(self.median), self.sigma)


# A question takes about 6 to 10 s in all, most of it waiting for the assistant (about 3 to 6 s).
PHASE_TIMES: Final[Mapping[Phase, Spread]] = {
    Phase.PREPARING: Spread(0.35, 0.25),
    Phase.NAVIGATING: Spread(0.90, 0.30),
    Phase.AUTHENTICATING: Spread(0.40, 0.30),
    Phase.INPUTTING: Spread(0.80, 0.25),
    Phase.SUBMITTING: Spread(0.30, 0.25),
    Phase.WAITING: Spread(4.30, 0.22),
    Phase.PARSING: Spread(0.20, 0.30),
}


@dataclass(frozen=True, slots=True)
class _Left:
    """What is left of an attempt's phase."""

    phase: Phase
    seconds: float


class ReplayDriver:
    """Answers from a folder of recorded answers.

    `speed` divides every phase's time (2.0 = twice as fast); 0 takes no time at all. `sessions` is the login health
    it claims, by platform. `profile`: how long phases take. `step`: seconds (at speed 1) after which a long phase
    pauses, so that it can be stopped where the phase allows it; without it each phase is one piece. Failures:
    `no_recorded_answer`, `answer_unreadable`.
    """

    def __init__(
        self,
        answers: RecordedAnswers,
        *,
        seed: int = 0,
        speed: float = 1.0,
        sessions: Mapping[str, str] | None = None,
        profile: Mapping[Phase, Spread] = PHASE_TIMES,
        step: float = math.inf,
    ) -> None:
        if not (speed >= 0 and math.isfinite(speed)):
            raise ValueError(f"speed must be a number from 0 upwards, not {speed}")
        self._answers = answers
        self._seed = seed
        self._speed = speed
        if not step > 0:
            raise ValueError(f"step must be positive, not {step}")
        self._sessions = dict(sessions or {})
        self._profile = profile
        self._step = step

    async def run_phase(self, phase: Phase, task: TaskAvailable, context: RunContext) -> bool:
        """Take the phase's time, or a step of it; at the end of WAITING the recorded answer is there."""
        if self._speed > 0 and await self._pass_time(phase, task, context):
            return True
        if phase is Phase.WAITING:
            context.answer = await self._answer(task)
        return False

    async def _pass_time(self, phase: Phase, task: TaskAvailable, context: RunContext) -> bool:
        """Sleep at most a step; whether some of the phase's time is left then (kept in `context.resources`)."""
        known = context.resources if isinstance(context.resources, _Left) else None
        left = known.seconds if known and known.phase is phase else self.durations(task.task_id)[phase]
        context.resources = _Left(phase, left - self._step)
        await asyncio.sleep(min(left, self._step) / self._speed)
        return left > self._step

    async def release(self, task: TaskAvailable, context: RunContext) -> None:
        """Nothing is held."""

    def sessions(self) -> Mapping[str, str]:
        """As given."""
        return self._sessions

    def durations(self, task_id: str) -> dict[Phase, float]:
        """Seconds of every phase at speed 1, the same for the same seed and task."""
        rng = Random(f"{self._seed}:{task_id}")
        return {phase: spread.draw(rng) for phase, spread in self._profile.items()}

    async def _answer(self, task: TaskAvailable) -> Answer:
        found = self._answers.answer_for(task.platform, task.question, self._seed)
        if found is None:
            raise DriverFailure("no_recorded_answer")
        try:
            body = await asyncio.to_thread(found.path.read_bytes)
            # Decoded as a whole: line ends and a byte order mark are part of what was recorded.
            return Answer(body.decode("utf-8"), content_type=_content_type(found.path))
        except (OSError, UnicodeDecodeError) as error:
            raise DriverFailure("answer_unreadable", f"{found.file} ({type(error).__name__})") from error


def _content_type(path: Path) -> str | None:
    return CONTENT_TYPES.get(path.suffix.lower())
