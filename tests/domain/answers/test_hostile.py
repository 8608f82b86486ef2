"""Whatever a body holds, reading it ends in an answer or a named reason, soon."""

import gc
import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.answers import Answer, AnswerKind, read_answer
from domain.answers.fields import words

KEYS = sorted(
    words(
        "choices message delta content text type role output outputs candidates parts groundingMetadata web uri url"
        " groundingChunks citations references search_results search_info annotations url_citation error code index"
        " finish_reason result steps status object response event_type extra deep_research phase executed_tools"
        " tool_calls sources item answer_body thinking_references thinking page_text results search_result question"
        " answer name arguments input v p o mapping blocks intended_usage markdown_block entries event msg event_data"
        " event_type done response_id Choices Response Message tasks text_blocks ai_overview messages data body"
        " header payload plugins base_resp citations_delta contentBlockDelta messageStop"
    )
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(
        [
            "response",
            "message",
            "text",
            "answer",
            "url_citation",
            "message_start",
            "ROLE_ASSISTANT",
            "response.completed",
        ]
    )
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=25,
)
OBJECTS = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=5)


def storable(answer: Answer) -> bool:
    strings = [answer.text, answer.error or "", *answer.search_queries, answer.model or "", answer.finish_reason or ""]
    strings += [part or "" for source in answer.citations for part in (source.url, source.title, source.site_name)]
    return all("\0" not in text and text.encode("utf-8") is not None for text in strings)


@settings(max_examples=150, deadline=None)
@given(st.lists(OBJECTS, min_size=1, max_size=3), st.sampled_from(["json", "sse", "jsonl"]))
def test_any_json_of_the_known_words_is_read(values: list[object], framing: str) -> None:
    lines = [json.dumps(value) for value in values]
    body = {"json": lines[0], "sse": "".join(f"data: {line}\n\n" for line in lines), "jsonl": "\n".join(lines)}[framing]
    answer = read_answer(body.encode())
    assert storable(answer)
    assert (answer.error is None) == answer.kind.is_answer


SAMPLES = sorted(path for path in (Path(__file__).parent / "samples").iterdir() if path.name != "EXPECTED.jsonl")


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(SAMPLES), st.data())
def test_any_mutated_sample_is_read(sample: Path, data: st.DataObject) -> None:
    body = bytearray(sample.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(body)))
        body[place : place + data.draw(st.integers(0, 30))] = data.draw(st.binary(max_size=6))
    answer = read_answer(bytes(body))
    assert storable(answer)
    assert (answer.error is None) == answer.kind.is_answer


@given(st.binary(max_size=200))
def test_any_bytes_are_read(body: bytes) -> None:
    assert storable(read_answer(body))


def chat(content: str) -> bytes:
    return b'{"choices":[{"message":{"content":"' + content.encode() + b'"},"finish_reason":"stop"}]}'


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (r"a\u0000b", "a\ufffdb"),
        (r"a\ud800b", "a\ufffdb"),
        (r"\ud83d\ude00", "\U0001f600"),
    ],
)
def test_text_is_storable(content: str, text: str) -> None:
    assert read_answer(chat(content)).text == text


def test_surrogate_pair_split_by_a_stream_is_joined() -> None:
    halves = [r"\ud83d", r"\ude00"]
    body = "".join(f'data: {{"choices":[{{"delta":{{"content":"{half}"}}}}]}}\n\n' for half in halves)
    assert read_answer(f"{body}data: [DONE]\n\n".encode()).text == "\U0001f600"


def test_nul_in_a_url_is_replaced() -> None:
    body = rb'{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"citations":["https://a.example/\u0000"]}'
    assert read_answer(body).citations[0].url == "https://a.example/\ufffd"


def test_nan_is_tolerated() -> None:
    body = b'{"score":NaN,"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}'
    assert read_answer(body).kind is AnswerKind.ANSWER


@pytest.mark.parametrize(
    "body",
    [b"{", b'{"choices":[{"mess', b"null", b"[]", b"[1, 2]", b"{}", b"data: [DONE]\n\n", b"\xff\xfe\0a\0"],
)
def test_unreadable_bodies_are_errors_with_a_reason(body: bytes) -> None:
    answer = read_answer(body)
    assert answer.kind is AnswerKind.ERROR
    assert answer.error


@pytest.mark.parametrize("body", [b"", b" \n\t", b"\xef\xbb\xbf"])
def test_nothing_is_empty(body: bytes) -> None:
    assert read_answer(body).kind is AnswerKind.EMPTY


SIZE = 300_000
LARGE = {
    "deep list": b"[" * SIZE,
    "deep object": b'{"a":' * (SIZE // 5),
    "1000 deep": b'{"choices":[{"message":{"content":' + b"[" * 1000 + b"]" * 1000 + b"}}]}",
    "open brackets": b"a http://x.example " + b"[" * SIZE,
    "closing parentheses": b"a http://x.example/" + b")" * SIZE,
    "open comments": b"<html>" + b"<!--" * (SIZE // 4),
    "open tags": b"<html>" + b"<a href=" * (SIZE // 8),
    "long reference": b"<html><p>&#" + b"9" * SIZE,
    "one-line events": b'data: {"a"\n' * (SIZE // 11),
    "nested wrappers": b'{"body":' * (SIZE // 8),
    "wrapped strings": b'{"body":"' + b"{" * SIZE,
    "one huge string": b'"' + b"\\\\" * (SIZE // 2) + b'"',
    "concatenated": b'{"a":1}' * (SIZE // 7),
    "concatenated and broken": b'{"a":1} ' * (SIZE // 9) + b"{",
    "open attributes": b"<html>" + b"<p class='" * (SIZE // 10),
    "odd quotes": b"<html><p " + b"\"'" * (SIZE // 2),
    "open elements": b"<html>" + b"<div class=x>" * (SIZE // 13),
    "unopened ends": b"<html>" + b"</div>" * (SIZE // 6),
    "nested lists": b"<html>" + b"<ol><li>" * (SIZE // 8),
    "raised": b"<html>" + b"<sup>1" * (SIZE // 6),
    "chunk sizes": b"1\r\n{\r\n" * (SIZE // 6),
    "headers": b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * (SIZE // 6),
    "open thought": chat("<think>" * (SIZE // 7)),
    "closed thoughts": chat("a\\n</think> " * (SIZE // 12)),
    "patched text": b'data: {"p":"response/content","o":"APPEND","v":"a"}\n\n' * (SIZE // 54),
    "patched list": b'data: {"p":"response/fragments","o":"APPEND","v":[{"type":"RESPONSE"}]}\n\n' * (SIZE // 76),
    "patched deeply": b'data: {"p":"response/a/b/c/d/e/f/g/h","v":"a"}\n\n' * (SIZE // 50),
    "citation marks": chat("\ue200" * (SIZE // 3)),
    "notice": b"sorry, " * 70,
    "blocks": b'data: {"blocks":[{"intended_usage":"ask_text","diff_block":{"field":"markdown_block","patches":'
    b'[{"path":"/chunks/1","value":"a"}]}}]}\n\n' * (SIZE // 136),
    "deltas": b'data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}\n\n' * (SIZE // 80),
    "notes": b'data: {"type":"content_block_delta","delta":{"type":"citations_delta","citation":{}}}\n\n'
    * (SIZE // 88),
}


def cpu_seconds(body: bytes) -> float:
    """Processor time of this thread, not the clock's, so that a busy machine does not change it. The collector is off:
    what other tests left on the heap is not this body's cost."""
    gc.collect()
    gc.disable()
    try:
        started = time.thread_time()
        read_answer(body)
        return time.thread_time() - started
    finally:
        gc.enable()


@pytest.mark.parametrize("name", LARGE)
def test_twice_the_length_costs_about_twice_the_time(name: str) -> None:
    half, whole = (min(cpu_seconds(LARGE[name][:size]) for _ in range(3)) for size in (SIZE // 2, SIZE))
    # Quadratic work would cost four times as much; a third of a second is the floor under which noise decides.
    assert whole < 3.5 * half + 0.35


def test_white_space_before_a_stream_hides_no_piece() -> None:
    body = b'data: {"choices":[{"delta":{"content":"A"}}]}\n\ndata: {"choices":[{"finish_reason":"stop"}]}\n\n'
    assert read_answer(b"\n  " + body) == read_answer(body)
    assert read_answer(body).text == "A"


def test_a_short_body_padded_with_nuls_is_still_read() -> None:
    body = b'{"error":{"code":"429","message":"slow"}}'
    assert read_answer(body + b"\0" * 8) == read_answer(body)
