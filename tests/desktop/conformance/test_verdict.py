"""What becomes of a check, and of a whole run."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from desktop.conformance.client_suite import CLIENT_CHECKS
from desktop.conformance.hub_suite import HUB_CHECKS
from desktop.conformance.verdict import CannotCheck, Check, Outcome, Report, RuleBroken, Verdict, chosen, judge
from domain.errors import InvalidInput

PAGE = Path(__file__).resolve().parents[3] / "docs" / "protocol" / "README.md"


def check(run: Callable[[None], Awaitable[None]], name: str = "group.name") -> Check[None]:
    return Check(name, "Frames", "the rule", run)


async def holds(_subject: None) -> None:
    return None


async def breaks(_subject: None) -> None:
    raise RuleBroken("a snapshot", "an ack")


async def lacks(_subject: None) -> None:
    raise CannotCheck("no work")


async def meets_a_dead_socket(_subject: None) -> None:
    raise ConnectionResetError("gone")


async def has_a_fault(_subject: None) -> None:
    raise ZeroDivisionError


def verdict(outcome: Outcome) -> Verdict:
    return Verdict(name="a.b", section="Frames", rule="the rule", outcome=outcome)


async def test_a_broken_rule_says_what_was_expected_and_seen() -> None:
    found = await judge(check(breaks), None)
    assert (found.outcome, found.expected, found.seen) == (Outcome.FAILED, "a snapshot", "an ack")


async def test_what_cannot_be_arranged_is_skipped_with_its_reason_and_never_passed() -> None:
    found = await judge(check(lacks), None)
    assert (found.outcome, found.why) == (Outcome.SKIPPED, "no work")


async def test_a_break_of_the_connection_is_the_other_sides_failure() -> None:
    found = await judge(check(meets_a_dead_socket), None)
    assert (found.outcome, found.seen) == (Outcome.FAILED, "ConnectionResetError: gone")


async def test_a_fault_of_the_suite_is_no_verdict() -> None:
    with pytest.raises(ZeroDivisionError):
        await judge(check(has_a_fault), None)


def test_nothing_conforms_that_was_not_judged_at_all() -> None:
    assert not Report((verdict(Outcome.SKIPPED),)).conforms
    assert not Report((verdict(Outcome.PASSED), verdict(Outcome.FAILED))).conforms
    assert Report((verdict(Outcome.PASSED), verdict(Outcome.SKIPPED))).conforms


async def test_the_machine_form_has_the_counts_and_only_what_is_known() -> None:
    report = Report((await judge(check(breaks), None), await judge(check(holds), None))).as_json()
    assert {name: report[name] for name in ("passed", "failed", "skipped")} == {"passed": 1, "failed": 1, "skipped": 0}
    assert report["checks"][0]["seen"] == "an ack"
    assert "seen" not in report["checks"][1]


def test_checks_are_chosen_by_name_or_group_and_unknown_names_are_refused() -> None:
    checks = [check(holds, name) for name in ("a.one", "a.two", "b.one")]
    assert [one.name for one in chosen(checks, ["a"])] == ["a.one", "a.two"]
    assert [one.name for one in chosen(checks, ["b.one"])] == ["b.one"]
    assert chosen(checks, []) == checks
    with pytest.raises(InvalidInput, match="no check c; known"):
        chosen(checks, ["a", "c"])


@pytest.mark.parametrize("checks", [CLIENT_CHECKS, HUB_CHECKS], ids=["client", "hub"])
def test_every_check_has_a_name_of_its_own_and_a_section_of_the_protocol_page(checks: tuple[Check[None], ...]) -> None:
    headings = {line.lstrip("# ") for line in PAGE.read_text().splitlines() if line.startswith("#")}
    assert len({one.name for one in checks}) == len(checks)
    assert {one.section for one in checks} <= headings
