"""The local order: lane weight, priority, availableAt, enqueuedAt, updatedAt (dispatch §14.2)."""

from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from desktop.local_task import LocalTask, order_key
from domain.lanes import MONITOR_LANES, Kind, Lane, rule_of
from tests.desktop.frames import NOON, available


def local(lane: Lane, priority: int | None = None, at: float = 0.0, **changes: Any) -> LocalTask:
    if priority is not None:
        changes["priority"] = priority
    return LocalTask(available(lane, **changes), at, at + 120, last_seen_generation=0)


@st.composite
def tasks(draw: st.DrawFn) -> LocalTask:
    lane = draw(st.sampled_from(MONITOR_LANES))
    rule = rule_of(Kind.MONITOR, lane)
    return local(
        lane,
        draw(st.integers(rule.lowest, rule.highest)),
        draw(st.floats(0, 3)),
        enqueued_at=NOON + timedelta(seconds=draw(st.integers(0, 2))),
        updated_at=NOON + timedelta(seconds=draw(st.integers(0, 2))),
        task_id=draw(st.sampled_from("abcdefgh")) + draw(st.sampled_from("abcdefgh")),
    )


@given(st.lists(tasks(), unique_by=lambda task: task.frame.task_id), st.randoms())
def test_order_is_total_and_does_not_depend_on_arrival_in_the_list(found: list[LocalTask], rng: Any) -> None:
    ordered = sorted(found, key=order_key)
    shuffled = found.copy()
    rng.shuffle(shuffled)
    assert sorted(shuffled, key=order_key) == ordered
    assert len({order_key(task) for task in found}) == len(found)


@given(tasks(), tasks())
def test_lane_comes_before_priority_and_priority_before_age(one: LocalTask, other: LocalTask) -> None:
    first, second = sorted([one, other], key=order_key)
    assert first.frame.lane_weight >= second.frame.lane_weight
    if first.frame.lane_weight == second.frame.lane_weight:
        assert first.frame.priority >= second.frame.priority
        if first.frame.priority == second.frame.priority:
            assert first.available_at <= second.available_at


def test_ties_are_broken_by_arrival_then_age_then_change_then_id() -> None:
    expected = [
        local(Lane.HIGH),
        local(Lane.NORMAL, 200, at=9.0),
        local(Lane.NORMAL, at=1.0, enqueued_at=NOON + timedelta(hours=1)),
        local(Lane.NORMAL, at=2.0, enqueued_at=NOON - timedelta(hours=1), updated_at=NOON + timedelta(hours=1)),
        local(Lane.NORMAL, at=2.0, updated_at=NOON - timedelta(hours=1)),
        local(Lane.NORMAL, at=2.0, task_id="a"),
        local(Lane.NORMAL, at=2.0, task_id="b"),
        local(Lane.RETRY, 99),
    ]
    backwards = expected[::-1]
    assert sorted(backwards, key=order_key) == expected
