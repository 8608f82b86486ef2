"""Bytes to events: one JSON value, a server-sent event stream, JSON lines, or plain text.

A whole JSON body is a stream of one event, so that one reader serves both. Nothing here recurses.
"""

import json
import re
from dataclasses import dataclass
from enum import StrEnum

import orjson

from domain.answers.fields import Node

_SSE_LINE = re.compile(r"(data|event|id|retry)?:")
_MAYBE_JSON = re.compile(r"""[{\["]|(?:null|true|false)\s*\Z""")
_SURELY_JSON = re.compile(r"""\{|\[\s*[\[{"\]]""")
_NEWLINE = re.compile("\r\n|\n|\r")  # not splitlines: JSON strings may hold U+2028 and U+0085
_DONE = "[DONE]"


class Framing(StrEnum):
    """How the events were delivered; the value is what a wire name ends in."""

    WHOLE = ""
    SSE = ".sse"
    LINES = ".stream"
    TEXT = ".text"


@dataclass(frozen=True, slots=True)
class Document:
    """A body split into its events. `fault` says why a body that looks like JSON or a stream has none."""

    text: str
    framing: Framing
    events: tuple[Node, ...] = ()
    done: bool = False
    fault: str | None = None

    @property
    def root(self) -> Node:
        """The only event of a whole body, the first of a stream; empty for text."""
        return self.events[0] if self.events else {}

    @property
    def streamed(self) -> bool:
        return self.framing in (Framing.SSE, Framing.LINES)


def parse_document(body: bytes) -> Document:
    """Decode and split a body. Never raises: what cannot be read has a `fault`."""
    text = body.decode("utf-8-sig", "replace")
    if (text.count("\ufffd") + text.count("\0")) * 100 > len(text):
        return Document("", Framing.TEXT, fault="the body is not UTF-8 text")
    start = text.lstrip()
    if _SSE_LINE.match(start):
        return _parse_sse(text)
    if _MAYBE_JSON.match(start):
        return _parse_json(text)
    return Document(text, Framing.TEXT)


def _parse_json(text: str) -> Document:
    value, fault = _load(text)
    if isinstance(value, dict):
        return Document(text, Framing.WHOLE, (value,))
    events = _objects(value) if isinstance(value, list) else _lines(text)
    if events:
        return Document(text, Framing.LINES, events)
    if fault and not _SURELY_JSON.match(text.lstrip()):
        return Document(text, Framing.TEXT)  # prose that begins with a quote or a link
    return Document(text, Framing.TEXT, fault=fault or "the JSON body holds no object")


def _lines(text: str) -> tuple[Node, ...]:
    """JSON lines, a cut last line tolerated; none when the first line is no object (a broken single value)."""
    lines = [line for line in _NEWLINE.split(text) if line.strip()]
    if not lines or not isinstance(_load(lines[0])[0], dict):
        return ()
    return _objects([_load(line)[0] for line in lines])


def _parse_sse(text: str) -> Document:
    payloads = _sse_payloads(text)
    loaded = [_load(payload)[0] for payload in payloads if payload.strip() != _DONE]
    done = any(payload.strip() == _DONE for payload in payloads)
    events = _objects(loaded)
    if events:
        return Document(text, Framing.SSE, events, done)
    if not payloads:
        return Document(text, Framing.TEXT)  # prose that begins like a stream
    return Document(text, Framing.SSE, done=done, fault="the stream carries no JSON event")


def _sse_payloads(text: str) -> list[str]:
    """The data of each event. Captures that lost their blank lines are split by line instead."""
    payloads: list[str] = []
    pending: list[str] = []
    for line in [*_NEWLINE.split(text), ""]:
        if line.startswith("data:"):
            pending.append(line[5:].removeprefix(" "))
        elif not line and pending:
            joined = "\n".join(pending)
            payloads += [joined] if len(pending) == 1 or _load(joined)[1] is None else pending
            pending = []
    return payloads


def _objects(values: list[object]) -> tuple[Node, ...]:
    return tuple(value for value in values if isinstance(value, dict))


def _load(text: str) -> tuple[object, str | None]:
    """The value, or a fault. The slower parser accepts NaN and lone surrogates, which recordings do hold."""
    try:
        return orjson.loads(text), None
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(text), None
    except RecursionError:
        return None, "the JSON body is nested too deeply"
    except ValueError as error:
        return None, f"the JSON body cannot be read: {str(error)[:120]}"
