"""The fleet's part of the gauges that are read from the database (2-desktop §2.1); who reads it bounds the labels."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client.metrics_core import Metric

from telemetry.families import gauge_family


@dataclass(frozen=True, slots=True)
class AbortRates:
    """Over the online desktops that ended anything in the last hour: the share of their attempts that was aborted."""

    p50: float = 0.0
    p95: float = 0.0
    highest: float = 0.0


@dataclass(frozen=True, slots=True)
class FleetReading:
    """Desktops by state; of the online ones slots, running tasks by phase, logins, versions, abort rates."""

    states: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)
    logins: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    phases: Mapping[str, int] = field(default_factory=dict)
    slots_used: int = 0
    slots_total: int = 0
    abort_rates: AbortRates = AbortRates()


def fleet_families(reading: FleetReading) -> list[Metric]:
    """The reading as gauges."""
    rates = reading.abort_rates
    return [
        gauge_family("giveway_desktop_clients", "Registered desktops by state.", ("state",), _by_key(reading.states)),
        gauge_family(
            "giveway_desktop_slots",
            "Tasks that the online desktops may run at once, and slots that are taken.",
            ("kind",),
            {("used",): reading.slots_used, ("total",): reading.slots_total},
        ),
        gauge_family(
            "giveway_desktop_running",
            "Running tasks of the online desktops by phase.",
            ("phase",),
            _by_key(reading.phases),
        ),
        gauge_family(
            "giveway_desktop_sessions",
            "Logins that the online desktops report.",
            ("platform", "health"),
            {(platform, health): n for platform, by in reading.logins.items() for health, n in by.items()},
        ),
        gauge_family(
            "giveway_desktop_versions",
            "Online desktops by program version: the 20 with the most, then other.",
            ("version",),
            _by_key(reading.versions),
        ),
        gauge_family(
            "giveway_desktop_abort_rate",
            "Share of a desktop's attempts of the last hour that it returned or lost, over the online ones.",
            ("stat",),
            {("p50",): rates.p50, ("p95",): rates.p95, ("max",): rates.highest},
        ),
    ]


def _by_key(numbers: Mapping[str, int]) -> dict[tuple[str, ...], float]:
    return {(name,): number for name, number in numbers.items()}
