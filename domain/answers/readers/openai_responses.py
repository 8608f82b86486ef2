"""OpenAI Responses, also as Azure, xAI, DeepSeek, Doubao and Perplexity speak it; whole and streamed."""

from collections.abc import Iterable
from typing import Final

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.fields import (
    Node,
    any_sources,
    argument,
    at,
    node_at,
    nodes_at,
    optional_text_at,
    source,
    sources,
    strings_at,
    text_at,
    words,
)
from domain.answers.model import Source
from domain.answers.readers.base import Reader, last_text

_CALLS: Final = ("web_search_call", "file_search_call", "x_search_call", "custom_tool_call", "search_results")
_WAITING: Final = ("function_call", "mcp_approval_request", "computer_call", "local_shell_call", "shell_call")
_FINAL: Final = ("response.completed", "response.failed", "response.incomplete", "response.cancelled")


def _matches(document: Document) -> bool:
    return any(
        event.get("object") == "response" or text_at(event, "type").startswith("response.") or _is_bare(event)
        for event in document.events[:5]
    )


def _is_bare(event: Node) -> bool:
    """A response that lost its `object`, by its first output items."""
    return any(text_at(item, "type") in ("message", "reasoning", *_CALLS) for item in nodes_at(event, "output")[:3])


def _read(document: Document) -> Draft:
    events = document.events
    response = _final_response(document)
    output = nodes_at(response, "output") or _items(events)
    parts = [part for item in output if item.get("type") == "message" for part in _parts(item)]
    return Draft(
        wire="openai.responses",
        text=_text(parts, document) or text_at(response, "output_text"),
        citations=_citations(parts, events),
        retrieved=tuple(found for item in output for found in _retrieved(item)),
        search_queries=tuple(query for item in output for query in _queries(item)),
        model=optional_text_at(response, "model") or last_text(events, "response", "model"),
        finish_reason=_finish(response),
        request_id=optional_text_at(response, "id"),
        refusal="".join(text_at(part, "refusal") for part in parts) or _deltas(events, "response.refusal.delta"),
        platform="perplexity" if any(item.get("type") == "search_results" for item in output) else None,
        tool_calls=any(item.get("type") in _WAITING for item in output),
        waits=any(item.get("type") in _WAITING for item in output),
    )


def _final_response(document: Document) -> Node:
    """The object of the closing event, else of the last event that carries one (its status says so)."""
    carried = [(event.get("type"), node_at(event, "response")) for event in document.events]
    for kind, response in reversed(carried):
        if kind in _FINAL and response:
            return response
    return next((response for _, response in reversed(carried) if response), _whole(document))


def _whole(document: Document) -> Node:
    held = [event for event in document.events if isinstance(event.get("output"), list) or event.get("object")]
    return held[-1] if held else {}


def _items(events: Iterable[Node]) -> list[Node]:
    """A stream's output items, each as it was told last: announced, then done."""
    told: dict[str, Node] = {}
    for event in events:
        if event.get("type") in ("response.output_item.added", "response.output_item.done"):
            item = node_at(event, "item")
            told[str(event.get("output_index", item.get("id")))] = item
    return list(told.values())


def _text(parts: list[Node], document: Document) -> str:
    """The finished parts' text; of a stream without its final object, what each part's deltas came to."""
    finished = "".join(text_at(part, "text") for part in parts)
    if not document.streamed or _ended(document):
        return finished or _streamed(document.events)
    return max(_streamed(document.events), finished, key=len)


def _ended(document: Document) -> bool:
    return any(event.get("type") in _FINAL and nodes_at(event, "response", "output") for event in document.events)


def _streamed(events: Iterable[Node]) -> str:
    pieces: dict[tuple[str, str], list[str]] = {}
    for event in events:
        place = (str(event.get("output_index")), str(event.get("content_index")))
        if event.get("type") == "response.output_text.delta":
            pieces.setdefault(place, []).append(text_at(event, "delta"))
        elif event.get("type") == "response.output_text.done":
            pieces[place] = [text_at(event, "text") or "".join(pieces.get(place, []))]
    return "".join(piece for place in pieces.values() for piece in place)


def _deltas(events: Iterable[Node], kind: str) -> str:
    return "".join(text_at(event, "delta") for event in events if event.get("type") == kind)


def _parts(item: Node) -> list[Node]:
    content = item.get("content")
    return [{"text": content}] if isinstance(content, str) else nodes_at(item, "content")


def _citations(parts: list[Node], events: Iterable[Node]) -> tuple[Source, ...]:
    added = (
        node_at(event, "annotation") for event in events if event.get("type") == "response.output_text.annotation.added"
    )
    noted = [note for part in parts for note in nodes_at(part, "annotations")] or list(added)
    return sources(
        node_at(note, "url_citation") or note for note in noted if note.get("type") in ("url_citation", "citation")
    )


def _queries(item: Node) -> list[str]:
    if item.get("type") not in _CALLS:
        return []
    action = node_at(item, "action")
    return (
        strings_at(action, "queries")
        or argument(action, "query")
        or strings_at(item, "queries")
        or argument(item.get("arguments"), "query", "queries")
        or argument(item.get("input"), "query", "queries")
    )


def _retrieved(item: Node) -> list[Source]:
    """Pages a search looked at. An API instead of a page (`oai-weather`) has a name and no URL."""
    if item.get("type") == "file_search_call":
        return []
    listed = at(item, "action", "sources") or item.get("sources") or item.get("results")
    entries = listed if isinstance(listed, list) else []
    return [
        source(entry, title="title" if entry.get("title") or entry.get("url") else "name")
        if isinstance(entry, dict)
        else found
        for entry in entries
        for found in any_sources([entry])
    ]


def _finish(response: Node) -> str | None:
    reason = optional_text_at(response, "incomplete_details", "reason")
    return reason or optional_text_at(response, "status")


READER = Reader("openai.responses", _matches, _read, words("object type output"))
