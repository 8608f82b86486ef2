"""Real response bodies, where the folder of recorded answers is at hand (3-results §3.6)."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from domain.answers import AnswerKind, finish_of, platform_of, read_answer

ROOT = Path(__file__).parents[3]
FOLDER = Path(os.environ.get("GIVEWAY_ANSWERS") or ROOT.parent / "shared" / "data" / "answers")
MANIFEST = FOLDER / "MANIFEST.jsonl"

pytestmark = pytest.mark.skipif(not MANIFEST.is_file(), reason="no recorded answers; set GIVEWAY_ANSWERS")

OURS = {"error", "blocked"}  # the manifest's own words for bodies without an answer
RENAMED = {
    "ernie/v2-search-results-stream.sse": "ernie.v2.chat.sse",
    "hunyuan/chat-search-info-stream.sse": "hunyuan.chat.sse",
}


def entries() -> list[dict[str, Any]]:
    if not MANIFEST.is_file():
        return []
    return [json.loads(line) for line in MANIFEST.read_text("utf-8").split("\n") if line.strip()]


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: str(entry["file"]))
def test_recorded_answer_reads_as_the_manifest_says(entry: dict[str, Any]) -> None:
    answer = read_answer((FOLDER / entry["file"]).read_bytes())
    found = {
        "wire": answer.wire,
        "citation_urls": [source.url for source in answer.citations if source.url],
        "n_citations": len(answer.citations),
        "answer_chars": len(answer.text),
        "search_queries": list(answer.search_queries),
        "n_retrieved": len(answer.retrieved),
        "finish_reason": finish_of(answer),
        "platform": platform_of(answer),
    }
    stated = {key: entry[key] for key in found if entry[key] is not None}
    stated["wire"] = RENAMED.get(entry["file"], entry["wire"])
    stated["finish_reason"] = entry["finish_reason"]  # also where the format has none

    assert {key: found[key] for key in stated} == stated


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: str(entry["file"]))
def test_body_without_an_answer_is_none(entry: dict[str, Any]) -> None:
    answer = read_answer((FOLDER / entry["file"]).read_bytes())
    without = entry["finish_reason"] in (*OURS, "failed", "pause_turn") or entry["answer_chars"] == 0

    if without:
        assert not answer.kind.is_answer
        assert answer.error
    elif not entry["notes"] or "stream cut off" not in entry["notes"]:
        assert answer.kind.is_answer, answer.error


@pytest.mark.skipif(not (FOLDER / "openrouter/error-429.json").is_file(), reason="not recorded")
def test_rate_limit_is_told_from_other_errors() -> None:
    assert read_answer((FOLDER / "openrouter/error-429.json").read_bytes()).kind is AnswerKind.RATE_LIMITED
    assert read_answer((FOLDER / "openai/error-401.json").read_bytes()).kind is AnswerKind.ERROR
