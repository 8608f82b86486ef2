"""`giveway simulate`: settings are checked like the real ones, the last line is one JSON object."""

import orjson
import pytest
from typer.testing import CliRunner

from cli import app
from domain.errors import InvalidInput
from simulation.rules import read_rules

TINY = ["simulate", "--clients", "6", "--tenants", "2", "--hours", "1", "--questions", "5"]


def test_the_last_line_is_the_report() -> None:
    result = CliRunner().invoke(app, [*TINY, "--set", "platform_concurrency=2", "--coordinators", "2", "--json"])
    assert result.exit_code == 0, result.output
    figures = orjson.loads(result.output.splitlines()[-1])
    assert figures["coordinators"] == 2
    assert figures["tasks"]["asked"] == figures["tasks"]["completed"] + figures["tasks"]["expired"] > 0
    assert figures["cost"]["rule_us_per_task"] > 0


def test_a_fuse_is_raised_before_its_setting() -> None:
    rules = read_rules(["cluster_per_minute=900", 'paused_lanes=["retry"]'], ["cluster_per_minute=1000"])
    assert (rules.cluster_per_minute, rules.fuses.cluster_per_minute, rules.paused_lanes) == (900, 1000, ("retry",))


@pytest.mark.parametrize(
    ("settings", "fuses", "why"),
    [
        (["cluster_per_minute=900"], [], "over its fuse of 500"),
        (["nonsense=1"], [], "no dispatch setting"),
        (["cluster_per_minute"], [], "no key=value"),
        ([], ["cluster_per_minute=-1"], "positive number"),
    ],
)
def test_what_the_installation_would_refuse_is_refused(settings: list[str], fuses: list[str], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        read_rules(settings, fuses)


@pytest.mark.parametrize(("knob", "value"), [("--clients", "1"), ("--hours", "0"), ("--failures", "1.5")])
def test_a_load_that_cannot_be_is_refused(knob: str, value: str) -> None:
    result = CliRunner().invoke(app, [*TINY, knob, value])
    assert isinstance(result.exception, InvalidInput)
