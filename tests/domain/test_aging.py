"""Aging: monotone, bounded, and for retries too (1-dispatch §1.4, dispatch §9.4)."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.aging import aged_priority, aging_boost, promotions, rescored
from domain.lanes import LANE_RULES, Kind, Lane, allows

minutes = st.floats(0, 1e9)
bases = st.integers(LANE_RULES[Kind.MONITOR, Lane.RETRY].lowest, LANE_RULES[Kind.MONITOR, Lane.NORMAL].highest)


@pytest.mark.parametrize(("waited", "priority"), [(0, 1000), (5, 1050), (10, 1079), (30, 1140), (120, 1232)])
def test_the_formula_at_a_few_ages(waited: float, priority: int) -> None:
    assert aged_priority(100, waited) == priority


@given(bases, minutes)
def test_an_aged_priority_lies_in_the_boosted_lane_and_never_reaches_high(base: int, waited: float) -> None:
    assert allows(Kind.MONITOR, Lane.NORMAL_BOOSTED, aged_priority(base, waited))


@given(bases, minutes, minutes)
def test_who_waits_longer_never_stands_behind_who_waits_less(base: int, one: float, other: float) -> None:
    assert aged_priority(base, max(one, other)) >= aged_priority(base, min(one, other))


@given(bases, bases, minutes)
def test_a_higher_priority_stays_higher_at_the_same_age(one: int, other: int, waited: float) -> None:
    assert aged_priority(max(one, other), waited) >= aged_priority(min(one, other), waited)


def test_the_boost_never_exceeds_900_and_an_age_in_the_future_counts_as_none() -> None:
    assert aging_boost(math.inf) == 900
    assert aging_boost(-7.0) == 0
    assert aged_priority(999, math.inf) == 2799


@given(bases, st.integers(1000, 4999), minutes, minutes, minutes)
def test_of_equal_tasks_the_older_is_not_overtaken_by_one_that_was_promoted_later(
    base: int, current: int, ahead: float, entered: float, later: float
) -> None:
    # `ahead`: how much longer the older one has waited when both are scored again.
    older = rescored(aged_priority(base, entered), base, later + ahead)
    assert older >= rescored(aged_priority(base, later), base, later)
    assert rescored(current, base, later) >= current


@given(st.integers(0, 10**7), st.integers(0, 1000))
def test_a_scan_promotes_the_oldest_tenth_and_one_at_least_within_its_budget(ready: int, budget: int) -> None:
    number = promotions(ready, budget=budget)
    assert number <= min(ready, budget)
    assert number == min(budget, max(ready // 10, min(ready, 1)))


def test_nothing_ready_or_no_budget_left_promotes_nothing() -> None:
    assert promotions(0, budget=1000) == promotions(5, budget=0) == promotions(5, budget=-1) == 0
