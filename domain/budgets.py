"""The budget decision: one pure function, five checks in order, the first that fails is named (1-dispatch §1.3).

cluster minute → tenant minute → client concurrency → client queue depth → platform concurrency.
High bypasses tenant minute and queue depth, nothing else. A check is a pair: what is used, and the ceiling it must
stay below. `decide` compares the pairs, `checks` shows them.
The floor of §1.4 rule 3 is part of the two minutes: below it scheduled work goes on although high has filled them.
"""

import math
import sys
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from domain.dispatch_settings import DispatchSettings
from domain.lanes import Lane

# The ceiling of a budget that does not bind.
UNLIMITED: Final = sys.maxsize
# As floating-point numbers 7 % of 100 is a little more than 7, and 29 % a little less than 29.
_ROUNDING: Final = 1e-9


class Refusal(StrEnum):
    """Why a task is not dispatched now; the values label `monitor_dispatch_reject_by_reason_count`."""

    CLUSTER_MINUTE = "cluster_minute"
    TENANT_MINUTE = "tenant_minute"
    CLIENT_CONCURRENCY = "client_concurrency"
    CLIENT_QUEUE_DEPTH = "client_queue_depth"
    PLATFORM_CONCURRENCY = "platform_concurrency"


# In the order of the checks.
REFUSALS: Final = tuple(Refusal)
# The sliding windows: they depend on no desktop, and free themselves.
MINUTES: Final = frozenset({Refusal.CLUSTER_MINUTE, Refusal.TENANT_MINUTE})


@dataclass(slots=True)
class Usage:
    """What is used at this moment, as seen by one task on one client. Made for one decision and dropped.

    Minutes are sliding windows of the last 60 s. Slots under interrupt by the task's own request are not in
    `client_running` and, on the same client, not in `platform_running`: they are free for that preemptor alone.
    """

    cluster_minute: int
    tenant_minute: int
    client_running: int
    client_queued: int
    platform_running: int
    # Of the minutes, what normal, boosted and retry took.
    cluster_scheduled: int = 0
    tenant_scheduled: int = 0
    # Permits of the cluster's minute that high leaves to normal work waiting for another client (the floor).
    held_for_normal: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that apply to that task on that client. Floors: dispatches a minute that are scheduled work's."""

    cluster_per_minute: int
    cluster_fuse: int
    scheduled_share: float
    tenant_per_minute: int
    client_concurrency: int
    client_queue_depth: int
    platform_concurrency: int
    cluster_floor: int = 0
    tenant_floor: int = 0

    def cluster_ceiling(self, lane: Lane, *, scheduled: int = 0, held: int = 0) -> int:
        """Scheduled work stops at its share of the setting; high may use the room up to the fuse.

        `scheduled`: what scheduled work has had of the window. Below the floor it may go on beside any amount of high
        work, up to the fuse. `held`: what high leaves to it.
        """
        if lane is Lane.HIGH:
            return self.cluster_fuse - held
        if scheduled < self.cluster_floor:
            return self.cluster_fuse
        return math.floor(self.cluster_per_minute * self.scheduled_share + _ROUNDING)

    def tenant_ceiling(self, lane: Lane, *, scheduled: int = 0) -> int:
        """High bypasses the tenant's minute; scheduled work does so below its floor, for high's dispatches fill it."""
        if lane is Lane.HIGH or scheduled < self.tenant_floor:
            return UNLIMITED
        return self.tenant_per_minute

    def depth_ceiling(self, lane: Lane) -> int:
        """High bypasses the queue depth."""
        return UNLIMITED if lane is Lane.HIGH else self.client_queue_depth


@dataclass(frozen=True, slots=True)
class Check:
    """One budget as a task meets it; `limit` is None where the budget does not bind the task."""

    name: Refusal
    used: int
    limit: int | None

    @property
    def passed(self) -> bool:
        """Whether there is room for one more."""
        return self.limit is None or self.used < self.limit


def limits_of(
    settings: DispatchSettings,
    *,
    client_concurrency: int | None,
    client_queue_depth: int | None,
    platform: int,
    tenant_per_minute: int | None = None,
) -> Limits:
    """The settings with a client's and its tenant's own limits, which may lower or raise them up to the fuse.

    Without floors: the setting is the round's (`with_floors`).
    """
    concurrency = settings.client_concurrency if client_concurrency is None else client_concurrency
    depth = settings.client_queue_depth if client_queue_depth is None else client_queue_depth
    minute = settings.tenant_per_minute if tenant_per_minute is None else tenant_per_minute
    return Limits(
        cluster_per_minute=min(settings.cluster_per_minute, settings.fuses.cluster_per_minute),
        cluster_fuse=settings.fuses.cluster_per_minute,
        scheduled_share=settings.scheduled_share,
        tenant_per_minute=min(minute, settings.fuses.tenant_per_minute),
        client_concurrency=min(concurrency, settings.fuses.client_concurrency),
        client_queue_depth=min(depth, settings.fuses.client_queue_depth),
        platform_concurrency=platform,
    )


def floor_of(limit: int, share: float) -> int:
    """At least `share` of the limit, in whole dispatches a minute."""
    return math.ceil(limit * share - _ROUNDING)


def with_floors(limits: Limits, normal_floor: float) -> Limits:
    """The same limits with what stays for scheduled work: `normal_floor` of each minute's setting."""
    return replace(
        limits,
        cluster_floor=floor_of(limits.cluster_per_minute, normal_floor),
        tenant_floor=floor_of(limits.tenant_per_minute, normal_floor),
    )


def decide(lane: Lane, usage: Usage, limits: Limits) -> Refusal | None:
    """The first budget that refuses the task, or None: it may be dispatched."""
    for refusal, (used, ceiling) in zip(REFUSALS, _pairs(lane, usage, limits), strict=True):
        if used >= ceiling:
            return refusal
    return None


def checks(lane: Lane, usage: Usage, limits: Limits) -> tuple[Check, ...]:
    """All five as `decide` compares them, in order."""
    pairs = zip(REFUSALS, _pairs(lane, usage, limits), strict=True)
    return tuple(Check(name, used, None if ceiling == UNLIMITED else ceiling) for name, (used, ceiling) in pairs)


def _pairs(lane: Lane, usage: Usage, limits: Limits) -> tuple[tuple[int, int], ...]:
    return (
        (
            usage.cluster_minute,
            limits.cluster_ceiling(lane, scheduled=usage.cluster_scheduled, held=usage.held_for_normal),
        ),
        (usage.tenant_minute, limits.tenant_ceiling(lane, scheduled=usage.tenant_scheduled)),
        (usage.client_running, limits.client_concurrency),
        (usage.client_queued, limits.depth_ceiling(lane)),
        (usage.platform_running, limits.platform_concurrency),
    )
