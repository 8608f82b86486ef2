"""A hand-labelled set of mentions and near misses: no false hit, no miss (3-results §3.3)."""

import json
from pathlib import Path
from typing import Any

import pytest

from domain.parsing.mentions import BrandName
from domain.parsing.result import ParsedAnswer, parse_answer

SET = Path(__file__).parent / "mention_set"
LABELLED = [
    (path.stem, number, json.loads(line))
    for path in sorted(SET.glob("*.jsonl"))
    for number, line in enumerate(path.read_text().splitlines(), start=1)
]


def parsed(row: dict[str, Any]) -> ParsedAnswer:
    names = [BrandName(row["brand"], "brand", row["brand"], tuple(row["aliases"]))]
    names += [BrandName(name, "competitor", name, tuple(aliases)) for name, aliases in row["competitors"].items()]
    return parse_answer(row["text"], question=row.get("question"), names=names, own_domains=[], competitor_domains=[])


@pytest.mark.parametrize("row", [pytest.param(row, id=f"{stem}:{number}") for stem, number, row in LABELLED])
def test_every_label_is_met(row: dict[str, Any]) -> None:
    found = {mention.key: mention for mention in parsed(row).mentions}
    shown = {
        name: {
            "count": found[name].count if name in found else 0,
            "first_offset": found[name].first_offset if name in found else None,
            "position": found[name].position if name in found else None,
            "absence": name in found and bool(found[name].absent_offsets),
        }
        for name in row["expected"]
    }
    assert shown == row["expected"], row["text"]


def test_share_of_voice_is_the_brands_part_of_all_labelled_mentions() -> None:
    for _, _, row in LABELLED:
        counts = {name: label["count"] for name, label in row["expected"].items()}
        total = sum(counts.values())
        assert parsed(row).share_of_voice == (counts[row["brand"]] / total if total else None), row["text"]


def test_the_set_is_large_and_its_traps_have_hits_and_near_misses() -> None:
    assert len(LABELLED) >= 900
    hits = {row["trap"] for _, _, row in LABELLED if row["expected"][row["brand"]]["count"]}
    misses = {row["trap"] for _, _, row in LABELLED if not row["expected"][row["brand"]]["count"]}
    both = hits & misses
    assert {"cjk-latin", "short-name", "digits", "symbols", "url", "code", "echo", "sources"} <= both
    assert {"words", "common-word"} <= both
