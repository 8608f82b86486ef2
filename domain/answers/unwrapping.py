"""Bodies inside other bodies: what recorders, gateways and queues put around a platform's answer (3-results §3.6)."""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from domain.answers.document import Document, document_of, load_json, parse_text
from domain.answers.fields import Node

_WRAPPERS: Final = (
    *("response", "body", "data", "result", "payload", "output", "raw", "raw_response", "rawResponse"),
    *(
        "response_body",
        "responseBody",
        "response_json",
        "json",
        "html",
        "content",
        "completion",
        "message",
        "answer",
        "text",
    ),
    *("string", "value", "event", "chunk", "entry", "record", "events", "chunks"),
    *("log", "entries", "interactions", "http_interactions"),
)
_MAX_DEPTH: Final = 6
_MAX_CANDIDATES: Final = 40
_MACHINE_TEXT: Final = ("{", "[", '"', "data:", "event:", "id:", "<!", "<html", "<HTML")


def unwrapped(document: Document) -> Iterator[Document]:
    """The documents inside, nearest first; each at most `_MAX_DEPTH` wrappers deep."""
    waiting = deque([(document, 0)])
    left = _MAX_CANDIDATES
    while waiting and left:
        outer, depth = waiting.popleft()
        for inner in _inside(outer) if depth < _MAX_DEPTH else ():
            left -= 1
            yield inner
            waiting.append((inner, depth + 1))


def _inside(document: Document) -> Iterator[Document]:
    for key in _WRAPPERS:
        if key not in document.keys:
            continue
        if document.streamed:
            yield from _of_stream(document, key)
        elif (inner := _of_value(document.root.get(key))) is not None:
            yield inner


def _of_value(value: object) -> Document | None:
    if isinstance(value, str):
        found = parse_text(value) if value.lstrip().startswith(_MACHINE_TEXT) else None
        return found if found and (found.events or found.text.lstrip().startswith("<")) else None
    values: list[object] = [value] if isinstance(value, dict) else value if isinstance(value, list) else []
    found = document_of([_loaded(entry) for entry in values])
    return found if found.events else None


def _of_stream(document: Document, key: str) -> Iterator[Document]:
    """Every event's value under `key`, as objects or as JSON strings."""
    values = [_loaded(event.get(key)) for event in document.events]
    events: tuple[Node, ...] = tuple(value for value in values if isinstance(value, dict))
    if events:
        yield replace(document, events=events, names=(), keys=frozenset().union(*events))


def _loaded(value: object) -> object:
    return load_json(value)[0] if isinstance(value, str) and value.lstrip().startswith("{") else value
