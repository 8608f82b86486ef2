"""Cohere chat: version 2, whose citations point at supplied documents, and version 1 with web search."""

from collections.abc import Iterable
from typing import Final

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.fields import Node, node_at, nodes_at, optional_text_at, source, sources, strings_at, text_at, words
from domain.answers.model import Source
from domain.answers.readers.base import Reader, last_text, nested

_V2_EVENTS: Final = ("message-start", "content-start", "content-delta", "message-end", "citation-start")
_V1_EVENTS: Final = ("stream-start", "text-generation", "search-results", "citation-generation", "stream-end")


def _is_v2(document: Document) -> bool:
    root = document.root
    whole = "finish_reason" in root and isinstance(root.get("message"), dict)
    return whole or any(text_at(event, "type") in _V2_EVENTS for event in document.events)


def _read_v2(document: Document) -> Draft:
    events = document.events
    message = node_at(document.root, "message")
    deltas = [node_at(event, "delta", "message") for event in events]
    notes = nodes_at(message, "citations") + [note for delta in deltas if (note := node_at(delta, "citations"))]
    texts = [text_at(part, "text") for part in nodes_at(message, "content")]
    texts += [text_at(delta, "content", "text") for delta in deltas]
    return Draft(
        wire="cohere.chat",
        text="".join(texts) or text_at(message, "content"),
        citations=tuple(_cited(note) for note in notes),
        model=last_text(events, "model"),
        finish_reason=last_text(nested(events, "delta"), "finish_reason"),
        request_id=last_text(events, "id"),
        tool_calls=bool(nodes_at(message, "tool_calls")) or any(node_at(delta, "tool_calls") for delta in deltas),
    )


def _cited(note: Node) -> Source:
    """A citation's first source with a URL, be it a document or what a tool found; else the first, by its title."""
    given = [node_at(each, "document") or node_at(each, "tool_output") for each in nodes_at(note, "sources")]
    return source(next((each for each in given if text_at(each, "url")), next(iter(given), {})))


def _is_v1(document: Document) -> bool:
    root = document.root
    whole = isinstance(root.get("text"), str) and ("generation_id" in root or "response_id" in root)
    return whole or any(text_at(event, "event_type") in _V1_EVENTS for event in document.events)


def _read_v1(document: Document) -> Draft:
    """The closing event of a stream holds the whole response; a cut stream has only its pieces."""
    events = document.events
    ended = [held for event in events if (held := node_at(event, "response"))]
    whole = ended[-1] if ended else document.root
    holders = [whole] if ended or not document.streamed else list(events)
    return Draft(
        wire="cohere.chat-v1",
        text=text_at(whole, "text") if len(holders) == 1 else _pieces(events),
        citations=tuple(_cited_documents(holders)),
        retrieved=sources(page for holder in holders for page in nodes_at(holder, "documents")),
        search_queries=tuple(
            query
            for holder in holders
            for asked in nodes_at(holder, "search_queries")
            if (query := optional_text_at(asked, "text"))
        ),
        finish_reason=last_text([*events, whole], "finish_reason"),
        request_id=last_text([*events, whole], "response_id"),
        tool_calls=any(nodes_at(holder, "tool_calls") for holder in holders),
    )


def _pieces(events: Iterable[Node]) -> str:
    return "".join(text_at(event, "text") for event in events if event.get("event_type") == "text-generation")


def _cited_documents(holders: list[Node]) -> list[Source]:
    """Each citation's documents, which stand in a list of their own."""
    pages = {text_at(page, "id"): page for holder in holders for page in nodes_at(holder, "documents")}
    notes = [note for holder in holders for note in nodes_at(holder, "citations")]
    named = [name for note in notes for name in strings_at(note, "document_ids")]
    return [source(pages.get(name, {})) for name in named]


V2 = Reader("cohere.chat", _is_v2, _read_v2, words("finish_reason type"))
V1 = Reader("cohere.chat-v1", _is_v1, _read_v1, words("generation_id response_id event_type"))
