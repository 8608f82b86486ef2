"""What a reparse changed, run by run and in sums (3-results §3.3)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from store.projections import DayKey
from store.reparse import Picture, StoredRun

MOST_EXAMPLES: Final = 10


@dataclass(frozen=True, slots=True)
class Change:
    """One run whose facts are others by today's reading."""

    run: StoredRun
    after: Picture

    @property
    def before(self) -> Picture:
        """As it was stored."""
        return self.run.picture

    def words(self) -> Iterator[str]:
        """What a person would say of it, the gravest first."""
        if self.before.succeeded != self.after.succeeded:
            yield f"{_state(self.before)} → {_state(self.after)}"
        counts = _counts(self.before), _counts(self.after)
        for name in sorted(counts[0] | counts[1]):
            before, after = (each.get(name, 0) for each in counts)
            if before != after:
                yield f"{name}: {before} → {after}"
        if self.before.citations != self.after.citations:
            yield f"citations: {len(self.before.citations)} → {len(self.after.citations)}"
        if self.before.cases != self.after.cases:
            yield f"doubts: {_reasons(self.before)} → {_reasons(self.after)}"

    def example(self) -> dict[str, Any]:
        """For machine output."""
        run = self.run
        return {
            "run_id": run.id,
            "tenant_id": run.tenant_id,
            "brand_id": run.brand_id,
            "business_date": run.business_date.isoformat(),
            "platform": run.ai_platform_id,
            "changes": list(self.words()) or ["details that are in no figure"],
        }


def _state(picture: Picture) -> str:
    return "succeeded" if picture.succeeded else f"failed ({picture.run[1]})"


def _counts(picture: Picture) -> dict[str, int]:
    return {each["name"]: each["count"] for each in picture.mentions}


def _reasons(picture: Picture) -> str:
    return ", ".join(reason for reason, _ in picture.cases) or "none"


@dataclass(slots=True)
class Tally:
    """Counts of runs. What is missing, overtaken or unparsed was left as it is.

    `missing_raw`: the store has no such body. `overtaken`: changed by somebody else since it was read. `unparsed`: our
    program failed on it. `badcases_…` count doubts.
    """

    runs: int = 0
    changed: int = 0
    succeeded_to_failed: int = 0
    failed_to_succeeded: int = 0
    mentions_changed: int = 0
    citations_changed: int = 0
    badcases_opened: int = 0
    badcases_closed: int = 0
    missing_raw: int = 0
    overtaken: int = 0
    unparsed: int = 0
    days: set[DayKey] = field(default_factory=set)
    examples: list[Change] = field(default_factory=list)

    def add(self, change: Change) -> None:
        """Count one change."""
        before, after = change.before, change.after
        self.changed += 1
        self.succeeded_to_failed += before.succeeded and not after.succeeded
        self.failed_to_succeeded += after.succeeded and not before.succeeded
        self.mentions_changed += before.mentions != after.mentions
        self.citations_changed += before.citations != after.citations
        doubts = {reason for reason, _ in before.cases}, {reason for reason, _ in after.cases}
        self.badcases_opened += len(doubts[1] - doubts[0])
        self.badcases_closed += len(doubts[0] - doubts[1])
        self.days.add(change.run.day)
        if len(self.examples) < MOST_EXAMPLES:
            self.examples.append(change)

    def summary(self) -> dict[str, int]:
        """The counts by name."""
        counts = {name: getattr(self, name) for name in self.__slots__ if name not in ("days", "examples")}
        return {**counts, "days_marked": len(self.days)}
