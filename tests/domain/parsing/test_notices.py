"""A message that only says there is no answer is none; one that says anything else is an answer."""

import json
from pathlib import Path
from typing import Any

import pytest

from domain.parsing.notices import Notice, notice_in

TABLE = Path(__file__).with_name("notices.jsonl")
CASES = [json.loads(line) for line in TABLE.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["text"])[:40])
def test_notice_is_told_from_an_answer(case: dict[str, Any]) -> None:
    assert notice_in(case["text"]) == (case["kind"] and Notice(case["kind"]))
