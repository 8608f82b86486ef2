"""A hand-labelled table of cited URLs, and of the links in running text (3-results §3.3)."""

import json
from pathlib import Path
from typing import Any

import pytest

from domain.parsing.result import Citation, parse_answer

TABLE = Path(__file__).parent / "url_table"
OWN = ("acme.com", "acme.com.cn")
COMPETITORS = ("globex.com", "globex.co.uk")


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (TABLE / f"{name}.jsonl").read_text().split("\n") if line]


def cited(text: str, *urls: str) -> tuple[Citation, ...]:
    links = [(url, None, None) for url in urls]
    return parse_answer(
        text, question=None, names=(), own_domains=OWN, competitor_domains=COMPETITORS, citation_urls=links
    ).citations


@pytest.mark.parametrize("row", [pytest.param(row, id=row["url"]) for row in rows("cited")])
def test_every_url_gets_its_label(row: dict[str, Any]) -> None:
    found = [[each.normalized_url, each.domain, each.owner] for each in cited("ok", row["url"])]
    assert found == ([[row["normalized_url"], row["domain"], row["owner"]]] if row["normalized_url"] else [])


def test_a_normal_form_is_its_own() -> None:
    normal = [row["normalized_url"] for row in rows("cited") if row["normalized_url"]]
    assert [each.normalized_url for url in normal for each in cited("ok", url)] == normal


@pytest.mark.parametrize("row", [pytest.param(row, id=row["text"]) for row in rows("in_text")])
def test_every_link_in_text_is_found(row: dict[str, Any]) -> None:
    assert [each.normalized_url for each in cited(row["text"])] == row["normalized_urls"]
