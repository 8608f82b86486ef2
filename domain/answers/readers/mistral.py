"""Mistral's conversations (agents with web search); whole and streamed. Its chat completions are read as chat."""

from typing import Final

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.fields import Node, argument, nodes_at, source, text_at, words
from domain.answers.readers.base import Reader, last_text

_STREAMED: Final = "message.output.delta"
_REFERENCE: Final = "tool_reference"
_ENDS: Final = {"conversation.response.done": "completed", "conversation.response.error": "error"}


def _matches(document: Document) -> bool:
    entries = nodes_at(document.root, "outputs")
    whole = any(text_at(entry, "type") in ("message.output", "tool.execution") for entry in entries)
    return whole or any(text_at(event, "type").startswith(("conversation.", _STREAMED)) for event in document.events)


def _read(document: Document) -> Draft:
    events = document.events
    entries = nodes_at(document.root, "outputs") or list(events)
    parts = [part for entry in entries for part in _parts(entry)]
    executions = [entry for entry in entries if text_at(entry, "type").startswith("tool.execution")]
    return Draft(
        wire="mistral.conversations",
        text="".join(text_at(part, "text") for part in parts if text_at(part, "type") in ("", "text")),
        citations=tuple(source(part) for part in parts if part.get("type") == _REFERENCE),
        search_queries=tuple(query for call in executions for query in argument(call.get("arguments"), "query")),
        model=last_text([*events, *entries], "model"),
        finish_reason=next((end for event in reversed(events) if (end := _ENDS.get(text_at(event, "type")))), None),
        request_id=last_text(events, "conversation_id"),
        tool_calls=any(entry.get("type") == "function.call" for entry in entries),
        waits=any(entry.get("type") == "function.call" for entry in entries),
    )


def _parts(entry: Node) -> list[Node]:
    """The content of an output message or of a piece of one: a string, a part, or a list of parts."""
    if text_at(entry, "type") not in ("message.output", _STREAMED):
        return []
    content = entry.get("content")
    if isinstance(content, str):
        return [{"text": content}]
    return [content] if isinstance(content, dict) else nodes_at(entry, "content")


READER = Reader("mistral.conversations", _matches, _read, words("outputs type"))
