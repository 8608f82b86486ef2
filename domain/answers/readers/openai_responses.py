"""OpenAI Responses, also as Azure, xAI and DeepSeek speak it; whole and streamed."""

from collections.abc import Iterable

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.fields import (
    Node,
    argument,
    node_at,
    nodes_at,
    optional_text_at,
    source,
    sources,
    strings_at,
    text_at,
)
from domain.answers.model import Source
from domain.answers.readers.base import Reader

_CALLS = ("web_search_call", "file_search_call", "x_search_call", "custom_tool_call")
_FINAL = ("response.completed", "response.failed", "response.incomplete", "response.cancelled")


def _matches(document: Document) -> bool:
    return any(
        event.get("object") == "response" or text_at(event, "type").startswith("response.")
        for event in document.events[:3]
    )


def _read(document: Document) -> Draft:
    response = _final_response(document)
    output = nodes_at(response, "output") or _items_done(document.events)
    parts = [part for item in output if item.get("type") == "message" for part in _parts(item)]
    return Draft(
        wire="openai.responses",
        text="".join(text_at(part, "text") for part in parts) or _deltas(document.events),
        citations=_citations(parts, document.events),
        retrieved=tuple(found for item in output for found in _retrieved(item)),
        search_queries=tuple(query for item in output for query in _queries(item)),
        model=optional_text_at(response, "model"),
        finish_reason=_finish(response),
        request_id=optional_text_at(response, "id"),
        refusal="".join(text_at(part, "refusal") for part in parts),
        tool_calls=any(item.get("type") == "function_call" for item in output),
    )


def _final_response(document: Document) -> Node:
    """The object of the closing event, else of the last event that carries one (its status says so)."""
    if document.root.get("object") == "response":
        return document.root
    carried = [(event.get("type"), node_at(event, "response")) for event in document.events]
    for kind, response in reversed(carried):
        if kind in _FINAL:
            return response
    return next((response for _, response in reversed(carried) if response), {})


def _items_done(events: Iterable[Node]) -> list[Node]:
    done = (node_at(event, "item") for event in events if _is(event, "response.output_item.done"))
    return [item for item in done if item]


def _deltas(events: Iterable[Node]) -> str:
    return "".join(text_at(event, "delta") for event in events if _is(event, "response.output_text.delta"))


def _is(event: Node, kind: str) -> bool:
    return event.get("type") == kind


def _parts(item: Node) -> list[Node]:
    return nodes_at(item, "content")


def _citations(parts: list[Node], events: Iterable[Node]) -> tuple[Source, ...]:
    added = [node_at(event, "annotation") for event in events if _is(event, "response.output_text.annotation.added")]
    noted = [note for part in parts for note in nodes_at(part, "annotations")]
    return sources(note for note in noted or added if note.get("type") == "url_citation")


def _queries(item: Node) -> list[str]:
    if item.get("type") not in _CALLS:
        return []
    action = node_at(item, "action")
    return (
        strings_at(action, "queries")
        or argument(action, "query")
        or strings_at(item, "queries")
        or argument(item.get("arguments"), "query")
        or argument(item.get("input"), "query")
    )


def _retrieved(item: Node) -> list[Source]:
    return [
        source(entry) if entry.get("url") else source(entry, title="name")
        for entry in nodes_at(item, "action", "sources")
    ]


def _finish(response: Node) -> str | None:
    reason = optional_text_at(response, "incomplete_details", "reason")
    return reason or optional_text_at(response, "status")


READER = Reader("openai.responses", _matches, _read)
