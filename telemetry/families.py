"""The kinds of metric that a process keeps itself. Names are exactly as given: no suffix is added to a counter's."""

from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

# Series of one counter; what comes after them is counted together.
MAX_SERIES: Final = 1000
OTHER: Final = "other"


class ExactMetric(Metric):
    """A counter's family whose samples have the family's own name; `exposition` keeps its headers so too."""


class ExactCounter(Collector):
    """A counter under its own name. The client library's would be called `…_total`, and the source's alerts are not.

    Its increments are made by `telemetry.effects.count`. Thread-safe.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        name: str,
        documentation: str,
        label: str | None = None,
        known: Iterable[str] = (),
    ) -> None:
        """`label`: the one label it has, if any; `known`: its values that are shown from the start, at zero."""
        self.name: Final = name
        self._documentation = documentation
        self._label = label
        self._values: dict[str, float] = dict.fromkeys(known if label else ("",), 0.0)
        self._lock = Lock()
        registry.register(self)

    def add(self, by: float, value: str = "") -> None:
        """Add to the series of this label value (of a counter without a label: to the one there is)."""
        with self._lock:
            series = value if value in self._values or len(self._values) < MAX_SERIES else OTHER
            self._values[series] = self._values.get(series, 0.0) + by

    def value(self, value: str = "") -> float:
        """What was counted so far in this process."""
        return self._values.get(value, 0.0)

    def collect(self) -> Iterable[Metric]:
        """The family with its series."""
        metric = ExactMetric(self.name, self._documentation, "counter")
        with self._lock:
            values = dict(self._values)
        for value, counted in values.items():
            metric.add_sample(self.name, {self._label: value} if self._label else {}, counted)
        yield metric


def gauge_family(
    name: str, documentation: str, labels: Sequence[str], values: Mapping[tuple[str, ...], float]
) -> Metric:
    """A gauge with the values of one reading, by its labels' values."""
    metric = Metric(name, documentation, "gauge")
    for key, value in values.items():
        metric.add_sample(name, dict(zip(labels, key, strict=True)), value)
    return metric
