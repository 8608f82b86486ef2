"""What `giveway bench ingest` says: rates beside their yardsticks, and what bounds them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from bench.loading import TABLES
from bench.pages import Pages

TARGET_OF_COPY: Final = 0.5
TARGET_OF_ROW_BY_ROW: Final = 5.0
# Row by row, in the plain sense of it: a row is inserted, and is there. The rows of a result in one transaction are
# batches already, if small ones; the figure stands beside it.
ROW_BY_ROW: Final = "commit_a_row"


@dataclass(frozen=True, slots=True)
class Setup:
    """So many shards, divided among so many worker processes, and which pages the answers cite."""

    shards: int
    workers: int
    pages: Pages = "skewed"

    def __str__(self) -> str:
        shards, workers = "s" * (self.shards > 1), "s" * (self.workers > 1)
        return f"{self.shards} shard{shards} on {self.workers} worker{workers}, {self.pages} pages"


@dataclass(slots=True)
class Ingested:
    """The rounds of one setup: seconds, and processor seconds of the workers and of PostgreSQL."""

    setup: Setup
    seconds: list[float] = field(default_factory=list)
    ours: list[float] = field(default_factory=list)
    postgres: list[float] = field(default_factory=list)
    # Citations of a round, and of how many pages.
    cited: dict[str, int] = field(default_factory=dict)

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
            "pages": self.setup.pages,
            **self.cited,
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
    commit_a_row: list[float] = field(default_factory=list)
    transaction_a_result: list[float] = field(default_factory=list)

    def said(self) -> str:
        """The last round."""
        return (
            f"COPY: {self.copy_batches[-1]:,.0f} in hundreds, {self.copy_whole[-1]:,.0f} whole; row by row:"
            f" {self.commit_a_row[-1]:,.0f} with a commit a row, {self.transaction_a_result[-1]:,.0f} with a"
            " transaction a result (results/s)"
        )


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
    best = max((one for one in setups if one["pages"] == "skewed"), key=lambda one: float(one["results_per_second"]))
    copies = {"in_hundreds": median(loaded.copy_batches), "whole": median(loaded.copy_whole)}
    by_rows = {
        "commit_a_row": median(loaded.commit_a_row),
        "transaction_a_result": median(loaded.transaction_a_result),
    }
    strict = max(copies, key=lambda way: copies[way])
    to_copy, to_rows = best["results_per_second"] / copies[strict], best["results_per_second"] / by_rows[ROW_BY_ROW]
    met = {"rate_to_copy": to_copy >= TARGET_OF_COPY, "rate_to_row_by_row": to_rows >= TARGET_OF_ROW_BY_ROW}
    return {
        "bench": "ingest",
        "results": results,
        "rows_per_result": round(per_result, 2),
        "tables": list(TABLES),
        "ingest": setups,
        "results_per_second": best["results_per_second"],
        "rows_per_second": best["rows_per_second"],
        "best": {name: best[name] for name in ("shards", "workers", "pages")},
        "copy": _compared(best, copies, per_result),
        "row_by_row": _compared(best, by_rows, per_result),
        "compared_with_copy": strict,
        "compared_with_row_by_row": ROW_BY_ROW,
        "rate_to_copy": round(to_copy, 3),
        "rate_to_row_by_row": round(to_rows, 2),
        "profile": profile,
        "projections": projections,
        "targets": {"rate_to_copy": TARGET_OF_COPY, "rate_to_row_by_row": TARGET_OF_ROW_BY_ROW},
        "met": met,
        "bound_by": None if all(met.values()) else _bound(best, profile["our_processor_ms_per_result"]["skewed_pages"]),
    }


def _compared(best: dict[str, Any], rates: dict[str, float], rows: float) -> dict[str, Any]:
    """The yardsticks of one kind, and how many times as fast ingest is."""
    return {
        way: {**_rates(rate, rows), "ingest_is_times_as_fast": round(best["results_per_second"] / rate, 3)}
        for way, rate in rates.items()
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
