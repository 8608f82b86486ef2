"""Checks and what comes of them: passed, failed with what was expected and seen, or skipped with the reason."""

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

import httpx
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from domain.errors import InvalidInput

T = TypeVar("T")
OUTSIDE = (OSError, TimeoutError, httpx.HTTPError, ConnectionClosed, InvalidHandshake)


class Outcome(StrEnum):
    """What a check came to."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class RuleBroken(Exception):
    """The other side did something else than the protocol says."""

    def __init__(self, expected: str, seen: object) -> None:
        super().__init__(f"expected {expected}, saw {seen}")
        self.expected = expected
        self.seen = str(seen)


class CannotCheck(Exception):
    """What the check needs is not there; the text says what."""


@dataclass(frozen=True, slots=True)
class Check(Generic[T]):
    """One rule. `section` names where the protocol page says it; `run` raises RuleBroken or CannotCheck."""

    name: str
    section: str
    rule: str
    run: Callable[[T], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one check came to. `seconds`: how long it took."""

    name: str
    section: str
    rule: str
    outcome: Outcome
    expected: str | None = None
    seen: str | None = None
    why: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """All verdicts, in the order of the checks."""

    verdicts: tuple[Verdict, ...]

    def count(self, outcome: Outcome) -> int:
        """How many came to it."""
        return sum(verdict.outcome is outcome for verdict in self.verdicts)

    @property
    def conforms(self) -> bool:
        """Nothing failed, and something was judged at all."""
        return self.count(Outcome.PASSED) > 0 and self.count(Outcome.FAILED) == 0

    def as_json(self) -> dict[str, Any]:
        """The machine form: the counts, and every verdict with the fields that it has."""
        fields = ("name", "section", "rule", "outcome", "expected", "seen", "why")
        checks = [
            {name: value for name in fields if (value := getattr(verdict, name)) is not None}
            | {"seconds": round(verdict.seconds, 3)}
            for verdict in self.verdicts
        ]
        return {**{str(one): self.count(one) for one in Outcome}, "conforms": self.conforms, "checks": checks}


def expect(condition: object, expected: str, seen: object) -> None:
    """RuleBroken unless the condition holds."""
    if not condition:
        raise RuleBroken(expected, seen)


async def judge(check: Check[T], subject: T) -> Verdict:
    """Run one check; whatever it meets becomes its verdict."""
    began = time.monotonic()
    outcome, found = await _outcome(check, subject)
    return Verdict(
        name=check.name,
        section=check.section,
        rule=check.rule,
        outcome=outcome,
        seconds=time.monotonic() - began,
        **found,
    )


async def _outcome(check: Check[T], subject: T) -> tuple[Outcome, dict[str, str]]:
    try:
        await check.run(subject)
    except RuleBroken as broken:
        return Outcome.FAILED, {"expected": broken.expected, "seen": broken.seen}
    except CannotCheck as missing:
        return Outcome.SKIPPED, {"why": str(missing)}
    except OUTSIDE as error:
        # The address was reached before the first check, so a break here is the other side's.
        return Outcome.FAILED, {"expected": check.rule, "seen": f"{type(error).__name__}: {error}"}
    return Outcome.PASSED, {}


def chosen(checks: Sequence[Check[T]], only: Iterable[str]) -> list[Check[T]]:
    """The checks of these names, or of the groups before the dot; all without any. InvalidInput for an unknown one."""
    wanted = list(only)
    known = {check.name for check in checks} | {check.name.partition(".")[0] for check in checks}
    if unknown := [name for name in wanted if name not in known]:
        raise InvalidInput(f"there is no check {', '.join(unknown)}; known: {', '.join(sorted(known))}")
    return [check for check in checks if not wanted or {check.name, check.name.partition(".")[0]} & set(wanted)]
