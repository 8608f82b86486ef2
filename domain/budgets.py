"""The budget decision: one pure function, five checks in order, the first that fails is named (1-dispatch §1.3).

cluster minute → tenant minute → client concurrency → client queue depth → platform concurrency.
High bypasses tenant minute and queue depth, nothing else.
"""

from dataclasses import dataclass
from enum import StrEnum

from domain.dispatch_settings import DispatchSettings
from domain.lanes import Lane


class Refusal(StrEnum):
    """Why a task is not dispatched now; the values label `monitor_dispatch_reject_by_reason_count`."""

    CLUSTER_MINUTE = "cluster_minute"
    TENANT_MINUTE = "tenant_minute"
    CLIENT_CONCURRENCY = "client_concurrency"
    CLIENT_QUEUE_DEPTH = "client_queue_depth"
    PLATFORM_CONCURRENCY = "platform_concurrency"


@dataclass(frozen=True, slots=True)
class Usage:
    """What is used at this moment, as seen by one task on one client.

    Minutes are sliding windows of the last 60 s. Slots under interrupt by the task's own request are not in
    `client_running` and, on the same client, not in `platform_running`: they are free for that preemptor alone.
    """

    cluster_minute: int
    tenant_minute: int
    client_running: int
    client_queued: int
    platform_running: int


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that apply to that task on that client."""

    cluster_per_minute: int
    cluster_fuse: int
    scheduled_share: float
    tenant_per_minute: int
    client_concurrency: int
    client_queue_depth: int
    platform_concurrency: int

    def cluster_ceiling(self, lane: Lane) -> int:
        """Scheduled work stops at its share of the setting; high may use the room up to the fuse."""
        if lane is Lane.HIGH:
            return self.cluster_fuse
        return int(self.cluster_per_minute * self.scheduled_share)


def limits_of(
    settings: DispatchSettings,
    *,
    client_concurrency: int | None,
    client_queue_depth: int | None,
    platform: int,
    tenant_per_minute: int | None = None,
) -> Limits:
    """The settings with a client's and its tenant's own limits, which may lower or raise them up to the fuse."""
    concurrency = settings.client_concurrency if client_concurrency is None else client_concurrency
    depth = settings.client_queue_depth if client_queue_depth is None else client_queue_depth
    minute = settings.tenant_per_minute if tenant_per_minute is None else tenant_per_minute
    return Limits(
        cluster_per_minute=settings.cluster_per_minute,
        cluster_fuse=settings.fuses.cluster_per_minute,
        scheduled_share=settings.scheduled_share,
        tenant_per_minute=min(minute, settings.fuses.tenant_per_minute),
        client_concurrency=min(concurrency, settings.fuses.client_concurrency),
        client_queue_depth=min(depth, settings.fuses.client_queue_depth),
        platform_concurrency=platform,
    )


def decide(lane: Lane, usage: Usage, limits: Limits) -> Refusal | None:
    """The first budget that refuses the task, or None: it may be dispatched."""
    high = lane is Lane.HIGH
    if usage.cluster_minute >= limits.cluster_ceiling(lane):
        return Refusal.CLUSTER_MINUTE
    if not high and usage.tenant_minute >= limits.tenant_per_minute:
        return Refusal.TENANT_MINUTE
    if usage.client_running >= limits.client_concurrency:
        return Refusal.CLIENT_CONCURRENCY
    if not high and usage.client_queued >= limits.client_queue_depth:
        return Refusal.CLIENT_QUEUE_DEPTH
    if usage.platform_running >= limits.platform_concurrency:
        return Refusal.PLATFORM_CONCURRENCY
    return None
