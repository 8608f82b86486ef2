"""What people said of doubtful answers holds: every case of every file in this folder (3-results §3.3).

The files are written by `giveway badcases export`.
"""

from pathlib import Path

import pytest

from domain.regression import RegressionCase, differences, read_cases

CASES = [
    pytest.param(case, id=f"{file.stem}-{number}-{case.reason}")
    for file in sorted(Path(__file__).parent.glob("*.jsonl"))
    for number, case in enumerate(read_cases(file.read_text(encoding="utf-8")), start=1)
]


@pytest.mark.parametrize("case", CASES)
def test_the_extractor_says_what_people_said(case: RegressionCase) -> None:
    assert differences(case) == [], case.note


def test_there_are_cases_and_each_has_a_name_of_its_own() -> None:
    ids = [param.values[0].id for param in CASES]  # type: ignore[union-attr]
    assert len(ids) == len(set(ids)) >= 10
