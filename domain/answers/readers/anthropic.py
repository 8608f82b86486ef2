"""Anthropic messages with web search, also by way of Bedrock and Vertex; whole and streamed."""

from typing import Final

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.fields import Node, argument, nodes_at, source, sources, text_at, words
from domain.answers.model import Source
from domain.answers.readers.base import Reader, last_text, nested

_STREAMED: Final = ("message_start", "content_block_start", "content_block_delta", "message_delta")


def _matches(document: Document) -> bool:
    root = document.root
    typed = root.get("type") in ("message", "completion") or ("stop_reason" in root and root.get("role") == "assistant")
    whole = isinstance(root.get("content"), list) or isinstance(root.get("completion"), str)
    return (typed and whole) or any(
        text_at(event, "type") in _STREAMED or _is_completion(event) for event in document.events
    )


def _is_completion(event: Node) -> bool:
    """The format before messages, which had no type at first."""
    return isinstance(event.get("completion"), str) and "stop_reason" in event


def _read(document: Document) -> Draft:
    events = document.events
    blocks = nodes_at(document.root, "content") or _assembled(events)
    heads = nested(events, "message")
    return Draft(
        wire="anthropic.messages",
        text="".join(text_at(block, "text") for block in _of(blocks, "text")) or _completion(events),
        citations=tuple(_cited(blocks)),
        retrieved=tuple(_retrieved(blocks)),
        search_queries=tuple(
            query for block in _of(blocks, "server_tool_use") for query in argument(block.get("input"), "query")
        ),
        model=last_text(heads, "model"),
        finish_reason=last_text(nested(events, "delta"), "stop_reason") or last_text(heads, "stop_reason"),
        request_id=last_text(heads, "id"),
        tool_calls=bool(_of(blocks, "tool_use")),
    )


def _completion(events: tuple[Node, ...]) -> str:
    """The text of the format before messages."""
    return "".join(text_at(event, "completion") for event in events)


def _of(blocks: list[Node], kind: str) -> list[Node]:
    return [block for block in blocks if block.get("type") == kind]


def _cited(blocks: list[Node]) -> list[Source]:
    notes = [note for block in _of(blocks, "text") for note in nodes_at(block, "citations")]
    return [source(note, title="title" if note.get("title") else "document_title") for note in notes]


def _retrieved(blocks: list[Node]) -> list[Source]:
    results = [entry for block in _of(blocks, "web_search_tool_result") for entry in nodes_at(block, "content")]
    return list(sources(results))


def _assembled(events: tuple[Node, ...]) -> list[Node]:
    """The blocks of a stream, by index: each start block, with its deltas applied."""
    blocks: dict[str, _Block] = {}
    for event in events:
        kind, place = event.get("type"), str(event.get("index"))
        if kind == "content_block_start":
            blocks[place] = _Block(event.get("content_block"))
        elif kind == "content_block_delta":
            if place not in blocks:  # a capture that began late
                blocks[place] = _Block({"type": "text"})
            blocks[place].apply(event.get("delta"))
    return [block.finished() for block in blocks.values()]


class _Block:
    """A content block while it is streamed."""

    def __init__(self, start: object) -> None:
        self._start: Node = dict(start) if isinstance(start, dict) else {}
        self._texts = [text_at(self._start, "text")]
        self._inputs: list[str] = []
        self._citations: list[object] = list(nodes_at(self._start, "citations"))

    def apply(self, delta: object) -> None:
        kind = text_at(delta, "type")
        if kind == "text_delta":
            self._texts.append(text_at(delta, "text"))
        elif kind == "citations_delta" and isinstance(delta, dict):
            self._citations.append(delta.get("citation"))
        elif kind == "input_json_delta":
            self._inputs.append(text_at(delta, "partial_json"))

    def finished(self) -> Node:
        block = self._start | {"text": "".join(self._texts), "citations": self._citations}
        return block | {"input": "".join(self._inputs)} if any(self._inputs) else block


READER = Reader("anthropic.messages", _matches, _read, words("type content stop_reason"))
