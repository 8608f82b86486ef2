"""Waiting times that grow and are spread, so that a thousand desktops do not come back in the same instant."""

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Backoff:
    """Full jitter: try n waits `least`, and a uniform share of `first · 2^n` on top; at most `longest`. Seconds."""

    first: float
    longest: float
    least: float = 0.0

    def delay(self, tries: int, rng: Random) -> float:
        """Seconds before the next try after `tries` failures in a row (0 = the first failure)."""
        return self.least + rng.uniform(0.0, min(self.longest - self.least, self.first * 2.0 ** min(tries, 32)))
