"""How interrupt timeouts follow from measured safe-point intervals (dispatch §10.5)."""

from typing import Final

# Below so many intervals in the window a P95 says little.
LEAST_SAMPLES: Final = 50
WINDOW_DAYS: Final = 7
PERCENTILE: Final = 0.95

LEAST_SOFT_MS: Final = 15_000
# A platform whose safe points are further apart is broken, not slow; three times this is well within a request's end.
MOST_SOFT_MS: Final = 240_000
SOFT_PER_P95: Final = 1.5
HARD_PER_SOFT: Final = 3


def tuned_timeouts(p95_ms: float) -> tuple[int, int]:
    """Soft and hard timeout, ms: 1.5 × P95 but 15 s at least and 4 minutes at most, and three times that."""
    soft = min(max(round(SOFT_PER_P95 * p95_ms), LEAST_SOFT_MS), MOST_SOFT_MS)
    return soft, HARD_PER_SOFT * soft
