"""The reversed suite: the reference desktop passes it."""

from dataclasses import replace
from pathlib import Path

import pytest

from desktop.conformance.client_suite import CLIENT_CHECKS
from desktop.conformance.verdict import Outcome
from tests.desktop.conformance.broken_clients import BROKEN_CLIENTS, Broken
from tests.desktop.conformance.client_rig import PACE, InProcess, verdicts_of

# What a broken client never does is waited for a second; what it must not do has time enough to happen.
IMPATIENT = replace(PACE, patience=1.0, arrival=20.0, hello=0.2, heartbeat=0.5, watch=10.0, optional=10.0)


async def test_the_reference_desktop_passes_every_scenario(tmp_path: Path) -> None:
    verdicts = await verdicts_of(InProcess(tmp_path))
    wrong = [verdict for verdict in verdicts if verdict.outcome is not Outcome.PASSED]
    assert wrong == []
    assert len(verdicts) == len(CLIENT_CHECKS)


@pytest.mark.parametrize("broken", BROKEN_CLIENTS, ids=lambda broken: f"{broken.check}: {broken.how}")
async def test_a_client_that_breaks_a_rule_is_caught(
    broken: Broken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken.break_it(monkeypatch)
    [verdict] = await verdicts_of(broken.change(InProcess(tmp_path)), broken.check, pace=IMPATIENT)
    assert verdict.outcome is Outcome.FAILED, verdict
    assert verdict.expected
    assert verdict.seen


def test_every_rule_has_a_client_that_breaks_it() -> None:
    assert {broken.check for broken in BROKEN_CLIENTS} == {check.name for check in CLIENT_CHECKS}
