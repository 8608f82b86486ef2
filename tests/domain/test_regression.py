"""Regression files: a case carries all that judging its answer takes, and any other verdict is a difference."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.regression import (
    Expected,
    ExpectedMention,
    Named,
    RegressionCase,
    RegressionFileRefused,
    differences,
    read_cases,
    write_cases,
)
from tests.support.results import chat_answer

TEXT = "1. 墨页 suits teams.\n2. Nimbus is cheaper, and NIMBUS syncs."


def case(body: str, *mentions: ExpectedMention, is_answer: bool = True, absence: bool = False) -> RegressionCase:
    return RegressionCase(
        id="1",
        platform="qwen",
        question="Which notes app?",
        brand=Named("Nimbus"),
        competitors=(Named("Moye", ("墨页",)),),
        body=body,
        expected=Expected(is_answer, mentions, absence),
    )


MOYE, NIMBUS = ExpectedMention("Moye", 1, 1, 3), ExpectedMention("Nimbus", 2, 2, 22)


def test_a_case_that_the_extractor_judges_alike_has_no_difference() -> None:
    assert differences(case(chat_answer(TEXT), MOYE, NIMBUS)) == []


def test_without_an_offset_the_place_in_the_text_is_not_compared() -> None:
    assert differences(case(chat_answer(TEXT), MOYE, ExpectedMention("Nimbus", 2, 2))) == []


@pytest.mark.parametrize(
    ("given_case", "fields"),
    [
        (case(chat_answer(TEXT), MOYE, ExpectedMention("Nimbus", 1, 2)), {"Nimbus.count"}),
        (case(chat_answer(TEXT), MOYE, ExpectedMention("Nimbus", 2, 1)), {"Nimbus.position"}),
        (case(chat_answer(TEXT), MOYE, ExpectedMention("Nimbus", 2, 2, 0)), {"Nimbus.first_offset"}),
        (case(chat_answer(TEXT), MOYE), {"Nimbus.count"}),
        (case(chat_answer("Nothing of the kind."), NIMBUS), {"Nimbus.count"}),
        (case(chat_answer(TEXT), MOYE, NIMBUS, absence=True), {"absence"}),
        (case(chat_answer("I have no information about Nimbus.")), {"absence"}),
        (case(chat_answer("Nothing of the kind."), is_answer=False), {"is_answer"}),
        (case("\0\0\0\0"), {"is_answer"}),
    ],
)
def test_every_other_verdict_is_a_difference(given_case: RegressionCase, fields: set[str]) -> None:
    assert {each.field for each in differences(given_case)} == fields


def test_a_body_that_is_no_answer_may_be_expected() -> None:
    assert differences(case(json.dumps({"error": {"code": "429", "message": "slow down"}}), is_answer=False)) == []


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8")), max_size=4))
def test_a_file_is_read_as_it_was_written_whatever_the_bodies_hold(bodies: list[str]) -> None:
    cases = [case(body, MOYE) for body in bodies]
    assert read_cases(write_cases(cases)) == cases


@pytest.mark.parametrize(
    "line",
    ["{}", "[]", "x", '{"id": "1"}', write_cases([case("x", NIMBUS)]).replace('"count":2', '"count":0'),
     write_cases([case("x", NIMBUS)]).replace('"position"', '"place"'), '"\ud800"'],
)  # fmt: skip
def test_a_line_that_is_no_case_is_named(line: str) -> None:
    with pytest.raises(RegressionFileRefused, match="line 3"):
        read_cases("\n" + write_cases([case("x")]) + line.strip())
