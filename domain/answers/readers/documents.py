"""Bedrock Converse and Cohere chat, whose citations mostly point at supplied documents."""

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.fields import Node, argument, node_at, nodes_at, optional_text_at, source, text_at
from domain.answers.model import Source
from domain.answers.readers.base import Reader, last_text

_COHERE_EVENTS = ("message-start", "content-start", "content-delta", "message-end")


def _is_converse(document: Document) -> bool:
    return "content" in node_at(document.root, "output", "message") and not text_at(
        document.root, "output", "message", "phase"
    )


def _read_converse(document: Document) -> Draft:
    content = nodes_at(document.root, "output", "message", "content")
    cited = [node_at(part, "citationsContent") for part in content]
    uses = [node_at(part, "toolUse") for part in content if "toolUse" in part]
    searches = [use for use in uses if use.get("type") == "server_tool_use"]
    return Draft(
        wire="bedrock.converse",
        text="".join(_converse_text(part) for part in content),
        citations=tuple(_web(note) for part in cited for note in nodes_at(part, "citations")),
        search_queries=tuple(query for use in searches for query in argument(use.get("input"), "query")),
        finish_reason=optional_text_at(document.root, "stopReason"),
        tool_calls=len(uses) > len(searches),
    )


def _converse_text(part: Node) -> str:
    pieces = nodes_at(part, "citationsContent", "content")
    return text_at(part, "text") + "".join(text_at(piece, "text") for piece in pieces)


def _web(note: Node) -> Source:
    web = node_at(note, "location", "web")
    return Source(source(web).url, source(note).title, optional_text_at(web, "domain"))


def _is_cohere(document: Document) -> bool:
    root = document.root
    whole = "finish_reason" in root and isinstance(root.get("message"), dict)
    return whole or any(text_at(event, "type") in _COHERE_EVENTS for event in document.events)


def _read_cohere(document: Document) -> Draft:
    events = document.events
    message = node_at(document.root, "message")
    deltas = [node_at(event, "delta", "message") for event in events]
    notes = nodes_at(message, "citations") + [note for delta in deltas if (note := node_at(delta, "citations"))]
    texts = [text_at(part, "text") for part in nodes_at(message, "content")]
    texts += [text_at(delta, "content", "text") for delta in deltas]
    ends = (*events, *(node_at(event, "delta") for event in events))
    return Draft(
        wire="cohere.chat",
        text="".join(texts),
        citations=tuple(_cohere_source(note) for note in notes),
        finish_reason=last_text(ends, "finish_reason"),
        request_id=last_text(events, "id"),
        tool_calls=bool(nodes_at(message, "tool_calls")),
    )


def _cohere_source(note: Node) -> Source:
    """The first source of a citation: a search result has a URL, a supplied document only a title."""
    first = next(iter(nodes_at(note, "sources")), {})
    return source(node_at(first, "document"))


CONVERSE = Reader("bedrock.converse", _is_converse, _read_converse)
COHERE = Reader("cohere.chat", _is_cohere, _read_cohere)
