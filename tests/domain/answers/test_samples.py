"""Every wire format reads to the text, sources and verdict written beside its hand-made sample."""

import json
from pathlib import Path
from typing import Any

import pytest

from domain.answers import read_answer

SAMPLES = Path(__file__).parent / "samples"
EXPECTED = [json.loads(line) for line in (SAMPLES / "EXPECTED.jsonl").read_text("utf-8").split("\n") if line]


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda expected: str(expected["file"]))
def test_sample_reads_as_written(expected: dict[str, Any]) -> None:
    answer = read_answer((SAMPLES / expected["file"]).read_bytes())

    assert (answer.wire, answer.kind) == (expected["wire"], expected["kind"]), answer.error
    assert answer.text == expected["text"]
    assert [source.url for source in answer.citations if source.url] == expected["urls"]
    assert len(answer.citations) == expected["n_citations"]
    assert [source.url for source in answer.retrieved] == expected["retrieved"]
    assert list(answer.search_queries) == expected["queries"]
    assert answer.finish_reason == expected["finish_reason"]
    assert answer.model == expected["model"]
    assert (answer.error is None) == answer.kind.is_answer


def test_every_sample_is_in_the_table() -> None:
    files = {path.name for path in SAMPLES.iterdir()} - {"EXPECTED.jsonl"}
    assert files == {expected["file"] for expected in EXPECTED}


def test_bom_changes_nothing() -> None:
    body = (SAMPLES / "google-grounded.json").read_bytes()
    assert read_answer(b"\xef\xbb\xbf" + body) == read_answer(body)


def test_crlf_stream_reads_like_lf() -> None:
    body = (SAMPLES / "openai-chat-stream.sse").read_bytes()
    assert read_answer(body.replace(b"\n", b"\r\n")) == read_answer(body)


def test_stream_without_blank_lines_reads_alike() -> None:
    body = (SAMPLES / "openai-chat-stream.sse").read_bytes()
    assert read_answer(body.replace(b"\n\n", b"\n")) == read_answer(body)


def test_reason_hides_a_quoted_key_and_names_the_platform() -> None:
    answer = read_answer((SAMPLES / "error-401.json").read_bytes(), platform="openai")
    assert answer.error == "openai: invalid_api_key: bad key ***"
