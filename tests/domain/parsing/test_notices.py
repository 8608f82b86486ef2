"""A message that only says there is no answer is none; one that says anything else is an answer."""

import json
from pathlib import Path
from typing import Any

import pytest

from domain.parsing.notices import MAX_NOTICE, Notice, notice_in
from domain.parsing.notices_chinese import WORDS as CHINESE
from domain.parsing.notices_english import WORDS as ENGLISH
from domain.parsing.notices_forms import FORMS, HINTS

TABLE = Path(__file__).with_name("notices.jsonl")
CASES = [json.loads(line) for line in TABLE.read_text("utf-8").splitlines()]
REFUSAL = "I'm sorry, but I can't help with that. "


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["text"])[:40])
def test_notice_is_told_from_an_answer(case: dict[str, Any]) -> None:
    assert notice_in(case["text"]) == (case["kind"] and Notice(case["kind"]))


@pytest.mark.parametrize("said", ["Acme is cheaper.", "The price is $20.", "小米更便宜。", "It was founded in 1998."])
def test_a_refusal_beside_anything_of_the_world_is_an_answer(said: str) -> None:
    assert notice_in(REFUSAL) is Notice.REFUSAL
    assert notice_in(REFUSAL + said) is None


def test_a_long_message_is_no_notice() -> None:
    message = REFUSAL * (MAX_NOTICE // len(REFUSAL))
    assert notice_in(message) is Notice.REFUSAL
    assert notice_in(message + REFUSAL) is None


def test_every_part_of_a_form_has_words() -> None:
    spoken = ENGLISH.keys() | CHINESE.keys()
    assert all(form <= spoken for _, forms in (*FORMS, *HINTS) for form in forms)
