"""Google interactions, whose output stands in steps (or, in its first version, in outputs); whole and streamed."""

from typing import Final

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.fields import Node, clean, node_at, nodes_at, optional_text_at, sources, strings_at, text_at, words
from domain.answers.model import Source
from domain.answers.readers.base import Reader, last_finish, last_text

_EVENTS: Final = ("interaction.", "step.", "content.")
_GOOGLE_CALLS: Final = ("google_search_call", "url_context_call")
_RESULTS: Final = ("google_search_result", "url_context_result")


def _matches(document: Document) -> bool:
    return any(
        event.get("object") == "interaction"
        or any(text_at(step, "type") == "model_output" for step in nodes_at(event, "steps"))
        or text_at(event, "event_type").startswith(_EVENTS)
        or _is_first_version(event)
        for event in document.events[:5]
    )


def _is_first_version(event: Node) -> bool:
    return any(
        text_at(part, "type") in ("text", "google_search_call", "thought") for part in nodes_at(event, "outputs")
    )


def _read(document: Document) -> Draft:
    events = document.events
    holders = (*events, *(node_at(event, "interaction") for event in events))
    texts = [text for event in events for text in _texts(event)] or [
        text for event in events for text in _whole_texts(node_at(event, "interaction"))
    ]
    notes = [note for text in texts for note in nodes_at(text, "annotations")]
    return Draft(
        wire="google.interactions",
        text="".join(text_at(text, "text") for text in texts),
        citations=tuple(_cited(note) for note in notes if note.get("type") in ("url_citation", None)),
        retrieved=sources(page for event in events for page in _found_pages(event)),
        search_queries=tuple(query for event in events for query in _queries(event)),
        model=last_text(holders, "model"),
        finish_reason=last_finish(holders, "status"),
        request_id=last_text(holders, "id"),
        tool_calls=any(_of(event, "function_call") for event in events),
        waits=any(_of(event, "function_call") for event in events),
    )


def _cited(note: Node) -> Source:
    """The first version names the page `source`."""
    url = clean(text_at(note, "url") or text_at(note, "source")).strip()
    return Source(url or None, optional_text_at(note, "title"))


def _texts(event: Node) -> list[Node]:
    """Text parts of a whole body's output steps, and a stream's text and annotation deltas."""
    delta = node_at(event, "delta")
    if delta.get("type") in ("text", "text_annotation_delta"):
        return [delta]
    return _whole_texts(event)


def _whole_texts(holder: Node) -> list[Node]:
    steps = [step for step in nodes_at(holder, "steps") if step.get("type") == "model_output"]
    contents = [part for step in steps for part in nodes_at(step, "content")] + nodes_at(holder, "outputs")
    return [part for part in contents if part.get("type") == "text"]


def _of(event: Node, *kinds: str) -> list[Node]:
    """Steps, outputs and deltas of these kinds."""
    held = [*nodes_at(event, "steps"), *nodes_at(event, "outputs"), node_at(event, "delta")]
    return [entry for entry in held if text_at(entry, "type") in kinds]


def _found_pages(event: Node) -> list[Node]:
    """Pages that a search names; most send only markup of search suggestions."""
    pages = [page for result in _of(event, *_RESULTS) for page in nodes_at(result, "result")]
    return [page for page in pages if text_at(page, "url")]


def _queries(event: Node) -> list[str]:
    return [query for call in _of(event, *_GOOGLE_CALLS) for query in strings_at(call, "arguments", "queries")]


INTERACTIONS = Reader("google.interactions", _matches, _read, words("object steps event_type outputs"))
