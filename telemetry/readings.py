"""Gauges that are read from the database: the truth is there, whichever process is asked (dispatch §15.1).

The worker shows them. Several workers show the same numbers: aggregate with `max`, never with `sum`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from telemetry.families import gauge_family
from telemetry.fleet_readings import FleetReading, fleet_families

log = logging.getLogger(__name__)

# However often it is scraped, the database is read at most this often, and for a twentieth of the time.
LEAST_SECONDS: Final = 5.0
COST: Final = 20
# Numbers older than this are not shown: no series says more than a wrong one.
STALE_SECONDS: Final = 120.0
# Tenants in `tenant_monitor_normal_backlog`: those with the most waiting.
MOST_TENANTS: Final = 100


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """How many tasks wait on the online desktops: on the fullest, on the one at 95 % of them, on average."""

    highest: int = 0
    p95: int = 0
    average: float = 0.0


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of the database. Ages in milliseconds, of the oldest item; 0 when there is none."""

    # Seconds and rows by the database's own clock and count: two readings make a rate.
    at: float
    rows_written: int
    high_backlog: int = 0
    high_oldest_ms: float = 0.0
    normal_backlog: int = 0
    retry_backlog: int = 0
    normal_p99_ms: float = 0.0
    ingest_lag_ms: float = 0.0
    projection_lag_ms: float = 0.0
    projections_parked: int = 0
    outbox_overdue: int = 0
    legacy_open: int = 0
    desktop_tasks_open: int = 0
    online_clients: int = 0
    minute_used: int = 0
    queue_depth: QueueDepth = QueueDepth()
    # The tenants with the most normal work waiting, at most MOST_TENANTS.
    tenant_backlogs: Mapping[int, int] = field(default_factory=dict)
    safe_point_p95_ms: Mapping[str, float] = field(default_factory=dict)
    fleet: FleetReading = field(default_factory=FleetReading)


Read = Callable[[], Awaitable[Reading]]


class Readings(Collector):
    """The newest reading as gauges. `refresh` before a scrape; concurrent scrapes share one reading."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._lock = asyncio.Lock()
        self._newest: Reading | None = None
        self._before: Reading | None = None
        self._taken_at = 0.0
        self._due_at = 0.0

    async def refresh(self) -> None:
        """Read the database if the last reading is old enough. Never raises: a scrape shows what there is."""
        async with self._lock:
            began = monotonic()
            if began < self._due_at:
                return
            try:
                reading = await self._read()
            except Exception as error:
                log.warning("the gauges were not read: %r", error)
            else:
                self._before, self._newest, self._taken_at = self._newest, reading, began
            self._due_at = began + max(LEAST_SECONDS, COST * (monotonic() - began))

    def collect(self) -> Iterable[Metric]:
        """The families of the newest reading; none when it is stale, or before the first."""
        if self._newest is None or monotonic() - self._taken_at > STALE_SECONDS:
            return []
        newest = self._newest
        return [*_single(newest, self._write_rate()), *_labelled(newest), *fleet_families(newest.fleet)]

    def _write_rate(self) -> float:
        """Rows a second between the last two readings; counts that were reset meanwhile say nothing."""
        newest, before = self._newest, self._before
        if newest is None or before is None or newest.at <= before.at:
            return 0.0
        return max(0.0, (newest.rows_written - before.rows_written) / (newest.at - before.at))


def _single(reading: Reading, write_rate: float) -> list[Metric]:
    values = [
        ("monitor_dispatch_high_backlog", "High tasks that wait for a desktop.", reading.high_backlog),
        (
            "monitor_dispatch_high_oldest_age_ms",
            "Age of the oldest waiting high task, since it became high or was last dispatched.",
            reading.high_oldest_ms,
        ),
        (
            "monitor_dispatch_normal_backlog",
            "Normal and boosted tasks that wait for a desktop.",
            reading.normal_backlog,
        ),
        ("giveway_dispatch_retry_backlog", "Retry tasks that wait for a desktop.", reading.retry_backlog),
        (
            "monitor_normal_starvation_age_p99",
            "Milliseconds that 99 % of the waiting normal and boosted tasks have waited at most.",
            reading.normal_p99_ms,
        ),
        ("monitor_result_ingest_lag_ms", "Age of the oldest received result not yet ingested.", reading.ingest_lag_ms),
        (
            "monitor_projection_rebuild_lag_ms",
            "Age of the oldest mark not yet rebuilt, parked ones aside.",
            reading.projection_lag_ms,
        ),
        ("giveway_projections_parked", "Brand-days given up until new data comes.", reading.projections_parked),
        (
            "giveway_outbox_overdue",
            "Outbox rows older than a minute and not delivered (at most 10,000 are counted).",
            reading.outbox_overdue,
        ),
        ("execution_owner_legacy_count", "Unfinished business tasks on the legacy path.", reading.legacy_open),
        (
            "execution_owner_desktop_tasks_count",
            "Unfinished business tasks on the path of desktop_tasks.",
            reading.desktop_tasks_open,
        ),
        ("giveway_online_clients", "Desktops online now.", reading.online_clients),
        ("giveway_cluster_minute_used", "Dispatches of the last 60 seconds, over all tenants.", reading.minute_used),
        ("monitoring_pg_write_qps", "Rows written a second, over the whole database.", write_rate),
    ]
    return [gauge_family(name, documentation, (), {(): value}) for name, documentation, value in values]


def _labelled(reading: Reading) -> list[Metric]:
    depth = reading.queue_depth
    return [
        gauge_family(
            "desktop_client_monitor_queue_depth",
            "Tasks that wait on a desktop: over the online ones the highest, the P95 and the average.",
            ("stat",),
            {("max",): depth.highest, ("p95",): depth.p95, ("avg",): depth.average},
        ),
        gauge_family(
            "safe_point_interval_ms_p95",
            "P95 of the measured intervals between safe points of the last 24 hours.",
            ("platform",),
            {(platform,): value for platform, value in reading.safe_point_p95_ms.items()},
        ),
        gauge_family(
            "tenant_monitor_normal_backlog",
            f"Normal and boosted tasks that wait, of the {MOST_TENANTS} tenants with the most.",
            ("tenant_id",),
            {(str(tenant),): waiting for tenant, waiting in reading.tenant_backlogs.items()},
        ),
    ]
