"""Percentiles of measured times."""

import math
from collections.abc import Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest-rank percentile; `share` from 0 to 1."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summary(values: Sequence[float]) -> dict[str, float]:
    """P50, P95, P99 in the values' unit, rounded to 0.01, and how many there were."""
    shares = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
    return {**{name: round(percentile(values, share), 2) for name, share in shares.items()}, "n": len(values)}
