"""Every wire format reads to the text, sources and verdict written beside its hand-made sample."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from domain.answers import AnswerKind, read_answer
from domain.answers.document import parse_document
from domain.answers.readers import REMAINDERS, WIRES, reader_of
from domain.answers.unwrapping import unwrapped

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


def test_every_wire_has_two_samples() -> None:
    wires = Counter(expected["wire"].removesuffix(".sse").removesuffix(".stream") for expected in EXPECTED)
    assert [wire for wire, count in wires.items() if count < 2] == []


def test_every_reader_reads_a_sample() -> None:
    documents = [parse_document((SAMPLES / expected["file"]).read_bytes()) for expected in EXPECTED]
    bodies = [inner for document in documents for inner in (document, *unwrapped(document))]
    chosen = {reader.name for body in bodies for group in (WIRES, REMAINDERS) if (reader := reader_of(body, group))}
    assert {reader.name for reader in (*WIRES, *REMAINDERS)} - chosen == set()


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


ANTHROPIC = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "text", "text": "A"}],
    "stop_reason": "end_turn",
}
RECORD = {"question": "Q", "answer": "A"}
REMARKED = [
    RECORD | {"status": "completed", "message": "ok"},
    RECORD | {"code": 200, "msg": "success"},
    RECORD | {"code": "0", "message": "ok"},
    RECORD | {"type": "text", "message": "ok"},
    RECORD | {"code": 1000, "message": "partial sources"},
    RECORD | {"error": "none"},
    RECORD | {"error": "None", "message": "ok", "status": "Success"},
    RECORD | {"error": {"code": 0, "message": "success"}},
    {"answer_body": "A", "code": 200, "msg": "success"},
    {"answer_body": "A", "status": "done", "message": "ok"},
    {"page_text": "A", "code": 200, "message": "ok"},
    {"page_text": "A", "type": "capture", "message": "ok"},
    ANTHROPIC | {"message": "ok"},
    ANTHROPIC | {"status": "ok", "error": "null"},
]


@pytest.mark.parametrize("body", REMARKED, ids=json.dumps)
def test_a_remark_beside_an_answer_is_no_fault(body: dict[str, Any]) -> None:
    answer = read_answer(json.dumps(body).encode())
    assert (answer.kind, answer.text) == (AnswerKind.ANSWER, "A"), answer.error


WITHOUT_ANSWER = [
    ({"code": "Throttling", "message": "slow", "output": {}}, AnswerKind.RATE_LIMITED),
    ({"status": 200, "code": 1302, "msg": "slow"}, AnswerKind.RATE_LIMITED),
    ({"error": "none", "code": 429, "message": "slow"}, AnswerKind.RATE_LIMITED),
    ({"type": "rate_limit_error", "message": "slow", "id": 1}, AnswerKind.RATE_LIMITED),
    ({"status": 200, "errors": [{"code": 429, "message": "slow"}]}, AnswerKind.RATE_LIMITED),
    ({"code": 500, "message": "busy", "answer": "", "question": "Q"}, AnswerKind.ERROR),
    ({"error": {"message": "busy"}, "question": "Q", "answer": "A"}, AnswerKind.ERROR),
    ({"error": "timeout", "question": "Q", "answer": "A"}, AnswerKind.ERROR),
    ({"code": 200, "msg": "success"}, AnswerKind.ERROR),
    (RECORD | {"answer": "", "status": "completed", "message": "ok"}, AnswerKind.EMPTY),
    (RECORD | {"status": "failed", "message": "timeout"}, AnswerKind.ERROR),
    (RECORD | {"status": "running", "message": "wait"}, AnswerKind.UNFINISHED),
    ({"answer_body": "A", "status": "failed", "message": "x"}, AnswerKind.ERROR),
]


@pytest.mark.parametrize(("body", "kind"), WITHOUT_ANSWER, ids=str)
def test_a_code_of_failure_is_a_fault(body: dict[str, Any], kind: AnswerKind) -> None:
    answer = read_answer(json.dumps(body).encode())
    assert answer.kind is kind
    assert answer.error


def test_a_remark_in_a_stream_is_no_fault() -> None:
    remarks = b'data: {"type":"status","message":"searching","step":1}\n\ndata: {"code":0,"msg":"ok"}\n\n'
    answer = read_answer(remarks + (SAMPLES / "openai-chat-stream.sse").read_bytes())
    assert answer.kind is AnswerKind.ANSWER


def test_vertex_names_the_site_behind_a_grounding_link() -> None:
    web = {"uri": "https://vertexaisearch.cloud.google.com/grounding-api-redirect/x", "title": "T", "domain": "a.org"}
    candidate = {
        "content": {"parts": [{"text": "A"}]},
        "finishReason": "STOP",
        "groundingMetadata": {"groundingChunks": [{"web": web}]},
    }
    (cited,) = read_answer(json.dumps({"candidates": [candidate]}).encode()).citations
    assert (cited.title, cited.site_name) == ("T", "a.org")


@pytest.mark.parametrize("text", ["[[1]](https://a.com/x) says so.", "[[12]](https://a.com/x)[[2]](https://a.com/x)"])
def test_prose_that_begins_with_a_linked_mark_is_no_json(text: str) -> None:
    answer = read_answer(text.encode())
    assert (answer.wire, answer.kind, answer.text) == ("markdown", AnswerKind.ANSWER, text)
    assert [source.url for source in answer.citations] == ["https://a.com/x"] * text.count("](")
