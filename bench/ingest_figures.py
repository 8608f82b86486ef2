"""What `giveway bench ingest` says: rates beside their yardsticks, and what bounds them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from bench.loading import TABLES

TARGET_OF_COPY: Final = 0.5
TARGET_OF_ROW_BY_ROW: Final = 5.0


@dataclass(frozen=True, slots=True)
class Setup:
    """So many shards, divided among so many worker processes."""

    shards: int
    workers: int


@dataclass(slots=True)
class Ingested:
    """The rounds of one setup: seconds, and processor seconds of the workers and of PostgreSQL."""

    setup: Setup
    seconds: list[float] = field(default_factory=list)
    ours: list[float] = field(default_factory=list)
    postgres: list[float] = field(default_factory=list)

    def add(self, seconds: float, ours: float, postgres: float) -> None:
        """One round more."""
        self.seconds.append(seconds)
        self.ours.append(ours)
        self.postgres.append(postgres)

    def figures(self, results: int, rows: float) -> dict[str, Any]:
        """Medians; `rows`: of facts, a result."""
        rate = results / median(self.seconds)
        return {
            "shards": self.setup.shards,
            "workers": self.setup.workers,
            **_rates(rate, rows),
            "processor_ms_per_result": {
                "workers": round(median(self.ours) * 1000 / results, 3),
                "postgres": round(median(self.postgres) * 1000 / results, 3),
            },
            "share_of_its_own_cores": round(median(self.ours) / median(self.seconds) / self.setup.workers, 2),
        }


@dataclass(slots=True)
class Loaded:
    """The yardsticks of the same rounds, in results a second."""

    copy_batches: list[float] = field(default_factory=list)
    copy_whole: list[float] = field(default_factory=list)
    row_by_row: list[float] = field(default_factory=list)


def figures(
    results: int,
    ingested: Sequence[Ingested],
    loaded: Loaded,
    rows: dict[str, int],
    profile: dict[str, Any],
    projections: dict[str, Any],
) -> dict[str, Any]:
    per_result = sum(count for table, count in rows.items() if table != "completed") / results
    setups = [one.figures(results, per_result) for one in ingested]
    best = max(setups, key=lambda one: float(one["results_per_second"]))
    copies = {"in_hundreds": median(loaded.copy_batches), "whole": median(loaded.copy_whole)}
    by_row = median(loaded.row_by_row)
    strict = max(copies, key=lambda way: copies[way])
    to_copy, to_rows = best["results_per_second"] / copies[strict], best["results_per_second"] / by_row
    met = {"rate_to_copy": to_copy >= TARGET_OF_COPY, "rate_to_row_by_row": to_rows >= TARGET_OF_ROW_BY_ROW}
    return {
        "bench": "ingest",
        "results": results,
        "rows_per_result": round(per_result, 2),
        "tables": list(TABLES),
        "ingest": setups,
        "results_per_second": best["results_per_second"],
        "rows_per_second": best["rows_per_second"],
        "copy": {way: _rates(rate, per_result) for way, rate in copies.items()},
        "row_by_row": {"what": "a transaction a result, a prepared insert a row", **_rates(by_row, per_result)},
        "compared_with_copy": strict,
        "rate_to_copy": round(to_copy, 3),
        "rate_to_row_by_row": round(to_rows, 2),
        "profile": profile,
        "projections": projections,
        "targets": {"rate_to_copy": TARGET_OF_COPY, "rate_to_row_by_row": TARGET_OF_ROW_BY_ROW},
        "met": met,
        "bound_by": None if all(met.values()) else _bound(best, profile["our_processor_ms_per_result"]),
    }


def _rates(results_per_second: float, rows_per_result: float) -> dict[str, int]:
    return {
        "results_per_second": round(results_per_second),
        "rows_per_second": round(results_per_second * rows_per_result),
    }


def _bound(best: dict[str, Any], ours: dict[str, float]) -> str:
    """What keeps the best setup from being faster, in its own figures."""
    used = best["processor_ms_per_result"]
    parts = ", ".join(f"{stage} {milliseconds:.2f}" for stage, milliseconds in ours.items())
    return (
        f"processor time: a result takes {used['workers']:.2f} ms in the workers ({parts}, the rest the clients of"
        f" RabbitMQ, PostgreSQL and the raw store) and {used['postgres']:.2f} ms in PostgreSQL; each worker used"
        f" {best['share_of_its_own_cores']:.0%} of a core. COPY neither reads nor parses an answer, and closes no task"
    )
