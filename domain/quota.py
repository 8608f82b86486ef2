"""Blocks of the cluster's minute for coordinators that share it (1-dispatch §1.4).

A coordinator of several takes permits before it dispatches: the window plus all permits outstanding never exceed the
ceilings, so neither do the dispatches, whoever uses its permits when. A permit is spent in the transaction that
dispatches; one that has expired unused is nobody's. High and scheduled permits are not exchanged: the floor stays
exact, and who lacks a kind asks for it in the same round.
"""

import math
from dataclasses import dataclass
from typing import Final

from domain.budgets import Limits
from domain.lanes import Lane

# Nobody takes more than a sixth of its part of the minute at once: others find something left.
_BLOCKS_A_MINUTE: Final = 6


@dataclass(frozen=True, slots=True)
class Quota:
    """A number of dispatches of each kind: permits held or wanted, or what the last 60 s have had."""

    scheduled: int = 0
    high: int = 0

    @property
    def total(self) -> int:
        """Of both kinds."""
        return self.scheduled + self.high


def ask(lacking: Quota, limits: Limits, shards: int) -> Quota:
    """How many permits to ask for when a round lacks so many: at most one block of each kind."""
    return Quota(
        scheduled=min(lacking.scheduled, _block(_share(limits), shards)),
        high=min(lacking.high, _block(limits.cluster_ceiling(Lane.HIGH), shards)),
    )


def _share(limits: Limits) -> int:
    """Where scheduled work stops once it has had its floor."""
    return limits.cluster_ceiling(Lane.NORMAL, scheduled=limits.cluster_floor)


def _block(ceiling: int, shards: int) -> int:
    return math.ceil(ceiling / (_BLOCKS_A_MINUTE * shards))


def grant(used: Quota, others: Quota, limits: Limits, wanted: Quota, *, normal_waits: bool = True) -> Quota:
    """The permits that may be taken now, at most `wanted`; high is served first.

    `used`: dispatches in the window. `others`: unexpired permits of the other coordinators. `limits`: with the floors.
    `normal_waits`: whether any coordinator has normal work that could go; without it the floor lapses.
    """
    scheduled = used.scheduled + others.scheduled
    total = used.total + others.total
    floor = limits.cluster_floor - scheduled
    high = _within(wanted.high, limits.cluster_ceiling(Lane.HIGH, held=max(floor, 0) if normal_waits else 0) - total)
    total += high
    room = max(
        _share(limits) - total,
        min(floor, limits.cluster_fuse - total),
    )
    return Quota(scheduled=_within(wanted.scheduled, room), high=high)


def _within(wanted: int, room: int) -> int:
    return max(min(wanted, room), 0)
