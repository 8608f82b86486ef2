"""Interrupt timeouts follow from the measured P95 (dispatch §10.5)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.tuning import LEAST_SOFT_MS, MOST_SOFT_MS, tuned_timeouts


@pytest.mark.parametrize(
    ("p95_seconds", "soft_seconds", "hard_seconds"), [(8, 15, 45), (20, 30, 90), (30, 45, 135), (40, 60, 180)]
)
def test_the_sources_examples(p95_seconds: int, soft_seconds: int, hard_seconds: int) -> None:
    assert tuned_timeouts(p95_seconds * 1000) == (soft_seconds * 1000, hard_seconds * 1000)


@given(st.floats(min_value=0, max_value=86_400_000), st.floats(min_value=0, max_value=86_400_000))
def test_bounded_and_monotone(one: float, other: float) -> None:
    (soft, hard), (soft_2, hard_2) = sorted([tuned_timeouts(one), tuned_timeouts(other)])
    assert LEAST_SOFT_MS <= soft <= soft_2 <= MOST_SOFT_MS
    assert (hard, hard_2) == (3 * soft, 3 * soft_2)
    assert tuned_timeouts(min(one, other)) == (soft, hard)
