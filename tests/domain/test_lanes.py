"""Order and ranges of lanes (1-dispatch §1.2)."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.lanes import LANE_RULES, Kind, Lane, allows, default_priority, order_key, route_lane

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
tasks = st.sampled_from(sorted(LANE_RULES)).flatmap(
    lambda key: st.tuples(
        st.just(key[0]),
        st.just(key[1]),
        st.integers(LANE_RULES[key].lowest, LANE_RULES[key].highest),
        st.integers(0, 1000).map(lambda seconds: NOON + timedelta(seconds=seconds)),
    )
)


@given(st.lists(tasks, min_size=2))
def test_publish_always_precedes_monitor_and_high_the_other_lanes(given_tasks: list[tuple]) -> None:
    ordered = sorted(given_tasks, key=lambda task: order_key(*task))
    kinds = [task[0] for task in ordered]
    assert kinds == sorted(kinds, key=[Kind.PUBLISH, Kind.MONITOR].index)
    monitor = [task[1] for task in ordered if task[0] is Kind.MONITOR]
    assert monitor == sorted(monitor, key=[Lane.HIGH, Lane.NORMAL_BOOSTED, Lane.NORMAL, Lane.RETRY].index)


@given(tasks, tasks)
def test_within_a_lane_priority_then_age_decides(one: tuple, other: tuple) -> None:
    if one[:2] == other[:2] and one[2] > other[2]:
        assert order_key(*one) < order_key(*other)
    if one[:3] == other[:3] and one[3] < other[3]:
        assert order_key(*one) < order_key(*other)


@pytest.mark.parametrize(("kind", "lane"), sorted(LANE_RULES))
def test_a_priority_outside_its_lane_is_refused(kind: Kind, lane: Lane) -> None:
    rule = LANE_RULES[kind, lane]
    assert allows(kind, lane, default_priority(lane, kind))
    assert not allows(kind, lane, rule.lowest - 1)
    assert not allows(kind, lane, rule.highest + 1)


def test_a_kind_has_only_its_own_lanes() -> None:
    assert not allows(Kind.MONITOR, Lane.URGENT, 25000)
    assert not allows(Kind.PUBLISH, Lane.RETRY, 50)


def test_boosted_travels_as_normal() -> None:
    assert [route_lane(lane) for lane in (Lane.HIGH, Lane.NORMAL_BOOSTED, Lane.NORMAL, Lane.RETRY)] == [
        "high",
        "normal",
        "normal",
        "retry",
    ]
