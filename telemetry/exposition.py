"""The registry as Prometheus text 0.0.4, in which a counter may have any name (OpenMetrics insists on `_total`)."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from telemetry.families import ExactMetric

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_HEADER: Final = re.compile(r"^# (HELP|TYPE) (\w+)_total ", re.MULTILINE)


def exposition(registry: CollectorRegistry) -> bytes:
    """What a scrape gets."""
    families = list(registry.collect())
    exact = {family.name for family in families if isinstance(family, ExactMetric)}

    def header(found: re.Match[str]) -> str:
        # The library puts the suffix into the headers of every counter, also where the samples have none.
        return f"# {found[1]} {found[2]} " if found[2] in exact else found[0]

    return _HEADER.sub(header, generate_latest(_Collected(families)).decode()).encode()


class _Collected(Collector):
    """What was collected already."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families
