"""Aging of scheduled work that waits (1-dispatch §1.4; dispatch §9.4). Minutes since `enqueued_at`.

Retry ages by the same formula and into the same lane, so that a tenant's normal work cannot starve it.
"""

import math
from typing import Final

from domain.lanes import Kind, Lane, default_priority, rule_of

# The most that a scan promotes over all tenants.
MOST_PROMOTIONS_A_SCAN: Final = 1000
_SCALE: Final = 50
_MINUTES: Final = 5
_HIGHEST_BOOST: Final = 900
_SHARE: Final = 10
_BOOSTED: Final = rule_of(Kind.MONITOR, Lane.NORMAL_BOOSTED)


def aging_boost(waited_minutes: float) -> int:
    """What waiting adds to a priority: logarithmic, so that old work rises and never runs away; 0 to 900."""
    return math.floor(min(_HIGHEST_BOOST, _SCALE * math.log2(1 + max(waited_minutes, 0.0) / _MINUTES)))


def aged_priority(base: int, waited_minutes: float) -> int:
    """The priority in `normal_boosted` of a task whose own is `base` (normal or retry); within the lane's range."""
    raised = _BOOSTED.lowest + (base - default_priority(Lane.NORMAL)) + aging_boost(waited_minutes)
    return min(max(raised, _BOOSTED.lowest), _BOOSTED.highest)


def rescored(current: int, base: int, waited_minutes: float) -> int:
    """The priority of a task in `normal_boosted` that waits on: it rises with its age and never falls."""
    return max(current, aged_priority(base, waited_minutes))


def promotions(ready: int, *, budget: int) -> int:
    """How many of a tenant's ready tasks that waited long enough are promoted: the oldest tenth, one at least."""
    return min(max(ready // _SHARE, 1), ready, max(budget, 0))
