"""Text to events: one JSON value, a server-sent event stream, JSON lines, or plain text.

A whole JSON body is a stream of one event, so that one reader serves both. Nothing here recurses but into JSON that
was encoded as a JSON string, and into that only `_MAX_QUOTING` times.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Final

import orjson

from domain.answers.decoding import decode
from domain.answers.fields import Node

_SSE_LINE: Final = re.compile(r"(data|event|id|retry)?:")
_MAYBE_JSON: Final = re.compile(r"""[{\["]|(?:null|true|false)\s*\Z""")
_SURELY_JSON: Final = re.compile(r"""\{\s*(?:["}]|\Z)|\[\s*(?:[{"\]]|\[(?!\d{1,3}\]\]\())""")
_SPACE: Final = re.compile(r"[\s\0]*")
_DONE: Final = "[DONE]"
_MAX_QUOTING: Final = 3
_MAX_CONCATENATED: Final = 10_000  # a recorder's appended bodies; read by a slower parser
_DECODER: Final = json.JSONDecoder(parse_int=lambda digits: int(digits) if len(digits) < 4000 else float(digits))


class Framing(StrEnum):
    """How the events were delivered; the value is what a wire name ends in."""

    WHOLE = ""
    SSE = ".sse"
    LINES = ".stream"
    TEXT = ".text"


@dataclass(frozen=True, slots=True)
class Document:
    """A body split into its events.

    `names` are the `event:` names beside a stream's events, else empty. `keys` are those that any event has at its
    top. `fault` says why a body that looks like JSON or a stream has no event.
    """

    text: str
    framing: Framing
    events: tuple[Node, ...] = ()
    done: bool = False
    fault: str | None = None
    names: tuple[str, ...] = ()
    keys: frozenset[str] = frozenset()

    @property
    def root(self) -> Node:
        """The only event of a whole body, the first of a stream; empty for text."""
        return self.events[0] if self.events else {}

    @property
    def streamed(self) -> bool:
        return self.framing in (Framing.SSE, Framing.LINES)


def parse_document(body: bytes) -> Document:
    """Decode and split a body. Never raises: what cannot be read has a `fault`."""
    text = decode(body)
    if _is_garbled(text):
        return Document("", Framing.TEXT, fault="the body is not UTF-8 text")
    return parse_text(text)


def _is_garbled(text: str) -> bool:
    """Whether more than a hundredth is no character; the NULs that fill up a buffer behind the body are none of it."""
    said = text.rstrip("\0")
    return (said.count("\ufffd") + said.count("\0")) * 100 > len(said) or (not said and bool(text))


def parse_text(text: str, quoting: int = 0) -> Document:
    """Split a body that is text already, `quoting` JSON strings deep."""
    start = text.lstrip("\ufeff\0 \t\r\n")
    if _SSE_LINE.match(start):
        return _parse_sse(text, start)
    if _MAYBE_JSON.match(start):
        return _parse_json(text, start, quoting)
    return Document(text, Framing.TEXT)


def document_of(values: list[object], text: str = "") -> Document:
    """A document of JSON values: an object alone is a whole body, several are a stream."""
    events = _objects(values)
    framing = Framing.WHOLE if len(values) == 1 else Framing.LINES
    return Document(text, framing, events, keys=_keys(events))


def _parse_json(text: str, start: str, quoting: int) -> Document:
    value, fault = load_json(start)
    if isinstance(value, str) and quoting < _MAX_QUOTING:
        return parse_text(value, quoting + 1)
    found = document_of(_listed(value) or _values(start), text)
    if found.events:
        return found
    if fault and not _SURELY_JSON.match(start):
        return Document(text, Framing.TEXT)  # prose that begins with a quote or a link
    return Document(text, Framing.TEXT, fault=fault or "the JSON body holds no object")


def _listed(value: object) -> list[object]:
    return [value] if isinstance(value, dict) else value if isinstance(value, list) else []


def _values(text: str) -> list[object]:
    """JSON lines, a cut last line tolerated; else objects written one after the other, up to the first fault."""
    lines = [line for line in _split(text) if line.strip()]
    if lines and isinstance(load_json(lines[0])[0], dict):
        return [load_json(line)[0] for line in lines]
    return list(islice(_concatenated(text), _MAX_CONCATENATED))


def _concatenated(text: str) -> Iterator[object]:
    position = 0
    while text.startswith("{", position):
        try:
            value, position = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            return
        yield value
        space = _SPACE.match(text, position)
        position = space.end() if space else position


def _parse_sse(text: str, start: str) -> Document:
    """A stream, from its first field on: white space before that would hide it."""
    frames = list(_frames(start))
    if not frames:
        return Document(text, Framing.TEXT)  # prose that begins like a stream
    done = any(payload == _DONE for _, payload in frames)
    loaded = [(name, _event(name, payload)) for name, payload in frames if payload != _DONE]
    found = [(name, event) for name, event in loaded if event is not None]
    events = tuple(event for _, event in found)
    names = tuple(name for name, _ in found) if any(name for name, _ in found) else ()
    fault = None if events else "the stream carries no JSON event"
    return Document(text, Framing.SSE, events, done, fault, names, _keys(events))


def _event(name: str, payload: str) -> Node | None:
    """The object of a frame, also where it was encoded as a string or alone in a list; an error may be plain words."""
    value, _ = load_json(payload)
    if isinstance(value, str):
        value, _ = load_json(value)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, dict):
        return {"type": "error", **value} if name == "error" and "error" not in value else value
    return {"type": "error", "message": payload} if name == "error" and payload else None


def _frames(text: str) -> Iterator[tuple[str, str]]:
    """Name and data of each event. Captures that lost their blank lines are split by line instead."""
    pending: list[str] = []
    name = ""
    for line in [*map(_unindented, _split(text)), ""]:
        if line.startswith("data:"):
            pending.append(line[5:].strip(" \t\0"))
        elif line.startswith("event:"):
            yield from _framed(name, pending)
            name, pending = line[6:].strip(), []
        elif not line.strip():
            yield from _framed(name, pending)
            name, pending = "", []


def _unindented(line: str) -> str:
    """A stream pasted into another text may stand indented there."""
    return line.lstrip(" \t") if line.startswith((" ", "\t")) else line


def _framed(name: str, lines: list[str]) -> Iterator[tuple[str, str]]:
    if not lines:
        return
    joined = "\n".join(lines)
    whole = len(lines) == 1 or load_json(joined)[1] is None
    yield from [(name, joined)] if whole else [(name, line) for line in lines]


def _split(text: str) -> list[str]:
    """The lines. Not `splitlines`: JSON strings may hold U+2028 and U+0085."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _objects(values: list[object]) -> tuple[Node, ...]:
    return tuple(value for value in values if isinstance(value, dict))


def _keys(events: tuple[Node, ...]) -> frozenset[str]:
    return frozenset().union(*events) if events else frozenset()


def load_json(text: str) -> tuple[object, str | None]:
    """The value, or a fault. The slower parser accepts NaN, endless numbers and lone surrogates, which do occur."""
    try:
        return orjson.loads(text), None
    except orjson.JSONDecodeError:
        pass
    try:
        value, end = _DECODER.raw_decode(text.strip())
    except RecursionError:
        return None, "the JSON body is nested too deeply"
    except ValueError as error:
        return None, f"the JSON body cannot be read: {str(error)[:120]}"
    rest = text.strip()[end:].strip("\0 \t\r\n")
    return (value, None) if not rest else (None, "the JSON body cannot be read: there is more behind its end")
