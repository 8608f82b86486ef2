"""Kinds, lanes, weights and priorities (1-dispatch §1.2).

Order everywhere: lane weight descending, priority descending, enqueued_at ascending.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """What an execution task does: monitor asks a question, publish posts content."""

    MONITOR = "monitor"
    PUBLISH = "publish"


class Lane(StrEnum):
    """The lanes of both kinds; `urgent` is publish's alone, boosted and retry monitor's alone."""

    URGENT = "urgent"
    HIGH = "high"
    NORMAL_BOOSTED = "normal_boosted"
    NORMAL = "normal"
    RETRY = "retry"


@dataclass(frozen=True, slots=True)
class LaneRule:
    """One row of the table in §1.2."""

    weight: int
    lowest: int
    highest: int
    default: int


LANE_RULES: Final[dict[tuple[Kind, Lane], LaneRule]] = {
    (Kind.PUBLISH, Lane.URGENT): LaneRule(100, 20000, 29999, 25000),
    (Kind.PUBLISH, Lane.HIGH): LaneRule(90, 15000, 19999, 18000),
    (Kind.PUBLISH, Lane.NORMAL): LaneRule(80, 10000, 14999, 12000),
    (Kind.MONITOR, Lane.HIGH): LaneRule(70, 5000, 5999, 5000),
    (Kind.MONITOR, Lane.NORMAL_BOOSTED): LaneRule(50, 1000, 4999, 1000),
    (Kind.MONITOR, Lane.NORMAL): LaneRule(40, 100, 999, 100),
    (Kind.MONITOR, Lane.RETRY): LaneRule(20, 10, 99, 50),
}

MONITOR_LANES: Final = (Lane.HIGH, Lane.NORMAL_BOOSTED, Lane.NORMAL, Lane.RETRY)


def rule_of(kind: Kind, lane: Lane) -> LaneRule:
    """The lane's rule; KeyError when the kind has no such lane."""
    return LANE_RULES[kind, lane]


def default_priority(lane: Lane, kind: Kind = Kind.MONITOR) -> int:
    """The priority a task gets when nobody says another."""
    return rule_of(kind, lane).default


def allows(kind: Kind, lane: Lane, priority: int) -> bool:
    """Whether the priority lies in the lane's range (the check constraint's twin)."""
    rule = LANE_RULES.get((kind, lane))
    return rule is not None and rule.lowest <= priority <= rule.highest


def order_key(kind: Kind, lane: Lane, priority: int, enqueued_at: datetime) -> tuple[int, int, datetime]:
    """Sort key of the dispatch order: ascending sort gives the most urgent first."""
    return (-rule_of(kind, lane).weight, -priority, enqueued_at)


def route_lane(lane: Lane) -> str:
    """The lane's name in routing keys: boosted travels as normal (2-desktop §2.1)."""
    return "normal" if lane is Lane.NORMAL_BOOSTED else lane.value
