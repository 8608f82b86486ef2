"""What a simulated day asks of the dispatcher: fleet, tenants, plans, clicks, absences, failures, machine."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from random import Random
from typing import Any, Final

from domain.errors import InvalidInput

HOUR: Final = 3600.0
MIDNIGHT: Final = 24.0

# Of a normal distribution: the deviation that a quarter of it lies above.
_UPPER_QUARTER: Final = 0.6745


@dataclass(frozen=True, slots=True)
class Load:
    """Knobs of the load; times of day in hours, rates a working day or a day. Everything random comes from `seed`."""

    clients: int = 50_000
    tenants: int = 1_000
    hours: float = 24.0
    seed: int = 1
    # Time of day at which the run begins; every tenant's plan is due within `batch_minutes` from then.
    start: float = 8.0
    batch_minutes: float = 60.0
    # Questions of a tenant's plan, each asked on every platform: median, and the deviation of its logarithm.
    questions: float = 40.0
    questions_spread: float = 0.5
    # Collect-now requests a tenant and working day, each for so many questions on average, on every platform.
    clicks: float = 6.0
    click_questions: float = 2.0
    work_from: float = 8.0
    work_to: float = 18.0
    # Absences a client and day, and their mean length. A short share of them is a lost connection: the work goes on.
    absences: float = 1.0
    away_minutes: float = 20.0
    blips: float = 0.3
    # Shares of attempts that fail, and that hang until they are stopped.
    failures: float = 0.02
    hangs: float = 0.001
    # Share of (client, platform) pairs whose login is broken.
    logged_out: float = 0.05

    @property
    def end(self) -> float:
        """Seconds of the run."""
        return self.hours * HOUR

    @property
    def cut_off(self) -> float:
        """Seconds until scheduled work of the day expires: local midnight, or the run's end when that comes first."""
        return min((MIDNIGHT - self.start) * HOUR, self.end)


@dataclass(frozen=True, slots=True)
class Machine:
    """What the real parts take, as the benchmarks measure it on one machine."""

    # A coordinator's round: in all, for each desktop of its tenants, and for each task that it dispatches.
    round_ms: float = 10.0
    desktop_us: float = 10.0
    pick_us: float = 125.0
    # From a click to the commit of its accept, in ms (`giveway bench collect-now`).
    accept_ms: float = 65.0
    # From the commit of a round to its frames at the desktops, and of an accept to its orders there, in ms.
    push_ms: float = 15.0


@dataclass(frozen=True, slots=True)
class Interval:
    """A log-normal time between two safe points: its median in seconds, and the deviation of its logarithm."""

    median: float
    sigma: float

    def draw(self, rng: Random) -> float:
        """Seconds."""
        return rng.lognormvariate(math.log(self.median), self.sigma)


@dataclass(frozen=True, slots=True)
class Platform:
    """An AI platform: the P95 of its safe-point intervals and its interrupt timeouts, in seconds (dispatch §10.5)."""

    name: str
    p95: float
    soft: float
    hard: float

    @property
    def waiting(self) -> Interval:
        """From submitting to the answer: the one long interval of five, so a quarter of its draws exceeds the P95."""
        sigma = 0.35
        return Interval(self.p95 / math.exp(_UPPER_QUARTER * sigma), sigma)


# Until before_open, before_input and before_submit; then the answer (Platform.waiting); then until after_question.
BEFORE: Final = (Interval(1.0, 0.25), Interval(3.0, 0.30), Interval(2.0, 0.30))
AFTER: Final = Interval(1.0, 0.30)

PLATFORMS: Final = (
    Platform("openai", 8.0, 15.0, 45.0),
    Platform("openai_deep", 40.0, 60.0, 180.0),
    Platform("google", 20.0, 30.0, 90.0),
    Platform("perplexity", 30.0, 45.0, 120.0),
    Platform("qwen", 20.0, 30.0, 90.0),
)


def intervals(platform: Platform, rng: Random) -> list[float]:
    """Seconds between the five safe points of one attempt; their sum is its duration."""
    return [*(interval.draw(rng) for interval in BEFORE), platform.waiting.draw(rng), AFTER.draw(rng)]


def check_load(values: Mapping[str, Any]) -> Load:
    """The load of these knobs over the defaults; InvalidInput for one that is not positive, or a share over 1."""
    load = Load(**values)
    for field in fields(Load):
        value = getattr(load, field.name)
        if not math.isfinite(value) or value < 0 or (field.name in _POSITIVE and value == 0):
            raise InvalidInput(f"{field.name} must be a {'positive' if field.name in _POSITIVE else 'finite'} number")
        if field.name in _SHARES and value > 1:
            raise InvalidInput(f"{field.name} is a share: at most 1")
    if load.clients < load.tenants:
        raise InvalidInput("every tenant needs a client: --clients must not be below --tenants")
    return load


_POSITIVE: Final = frozenset({"clients", "tenants", "hours", "questions", "click_questions", "away_minutes"})
_SHARES: Final = frozenset({"blips", "failures", "hangs", "logged_out"})
