"""ChatGPT's chat page: a stored conversation, a stream of its messages, or a stream of patches to one."""

from collections.abc import Iterator
from typing import Final

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.fields import (
    Node,
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
from domain.answers.readers.patches import Patched

_TEXTS: Final = ("text", "multimodal_text")
_ENDED: Final = ("finished_successfully", "finished", "finished_partial_completion")
_MAX_TURNS: Final = 2000
# The marks around a citation's place in the text, which the page replaces by a chip.
_MARK_START, _MARK_END = "\ue200", "\ue201"


def _matches(document: Document) -> bool:
    if isinstance(document.root.get("mapping"), dict):
        return True
    return any(_is_message(event) or _is_message(node_at(event, "v")) for event in document.events[:50])


def _is_message(event: Node) -> bool:
    return isinstance(at(event, "message", "author", "role"), str)


def _read(document: Document) -> Draft:
    messages = _last_turn(_messages(document))
    last = messages[-1] if messages else {}
    details = [node_at(message, "metadata") for message in messages]
    return Draft(
        wire="chatgpt.web",
        text="".join(_unmarked(_said(message)) for message in messages),
        citations=tuple(cited for detail in details for cited in _cited(detail)),
        retrieved=tuple(found for detail in details for found in _found(detail)),
        search_queries=tuple(_queries(_messages(document))),
        model=last_text(details, "model_slug"),
        finish_reason=last_text(details, "finish_details", "type") or _status(last, document),
        request_id=optional_text_at(document.root, "conversation_id"),
        ended=text_at(last, "status") in _ENDED or document.done or _is_complete(document),
    )


def _status(message: Node, document: Document) -> str | None:
    """The message's status; a complete stream may leave it as it was at the start."""
    status = optional_text_at(message, "status")
    return None if status == "in_progress" and _is_complete(document) else status


def _is_complete(document: Document) -> bool:
    return any(event.get("type") == "message_stream_complete" for event in document.events)


def _messages(document: Document) -> list[Node]:
    mapping = document.root.get("mapping")
    if isinstance(mapping, dict):
        return _path(mapping, document.root)
    streamed: dict[str, Node] = {}
    for event in document.events:  # each repeats its message, further written
        if _is_message(event):
            message = node_at(event, "message")
            streamed[text_at(message, "id")] = message
    return list(streamed.values()) + list(_patched(document))


def _path(mapping: Node, root: Node) -> list[Node]:
    """The messages from the current node up to the root, oldest first: other branches were regenerated."""
    node = node_at(mapping, text_at(root, "current_node")) or next(
        (entry for entry in reversed(list(mapping.values())) if isinstance(entry, dict)), {}
    )
    found: list[Node] = []
    while node and len(found) < _MAX_TURNS:
        found.append(node_at(node, "message"))
        node = node_at(mapping, text_at(node, "parent"))
    return found[::-1]


def _patched(document: Document) -> Iterator[Node]:
    """A stream's messages: each begins with an event that holds it, and the patches after it are its own."""
    run: list[Node] = []
    for event in document.events:
        if _is_message(node_at(event, "v")) and run:
            yield node_at(Patched().apply_all(run), "message")
            run = []
        if "v" in event and (run or _is_message(node_at(event, "v"))):
            run.append(event)
    if run:
        yield node_at(Patched().apply_all(run), "message")


def _last_turn(messages: list[Node]) -> list[Node]:
    """What the assistant said to the person since the last question."""
    turn: list[Node] = []
    for message in messages:
        role = text_at(message, "author", "role")
        if role == "user":
            turn = []
        elif role == "assistant" and _is_spoken(message):
            turn.append(message)
    return turn


def _is_spoken(message: Node) -> bool:
    to_person = text_at(message, "recipient") in ("all", "")
    aloud = text_at(message, "channel") in ("final", "")
    return to_person and aloud and text_at(message, "content", "content_type") in ("", *_TEXTS)


def _said(message: Node) -> str:
    return "".join(strings_at(message, "content", "parts"))


def _unmarked(text: str) -> str:
    """The text without citation marks, in one pass."""
    first, *rest = text.split(_MARK_START)
    return first + "".join(piece.partition(_MARK_END)[2] for piece in rest)


def _cited(detail: Node) -> list[Source]:
    """Pages of the references in the text; the older list of citations where there are none."""
    pages = [page for reference in nodes_at(detail, "content_references") for page in _pages(reference)]
    noted = [node_at(note, "metadata") for note in nodes_at(detail, "citations")]
    return list(sources(pages)) or [source(note) for note in noted if "url" in note]


def _pages(reference: Node) -> list[Node]:
    """A reference's own pages; the list at the answer's foot repeats them."""
    if text_at(reference, "type") in ("sources_footnote", "hidden"):
        return []
    return nodes_at(reference, "items") or ([reference] if text_at(reference, "url") else [])


def _found(detail: Node) -> tuple[Source, ...]:
    return sources(entry for group in nodes_at(detail, "search_result_groups") for entry in nodes_at(group, "entries"))


def _queries(messages: list[Node]) -> list[str]:
    asked = [entry for message in messages for entry in nodes_at(message, "metadata", "search_queries")]
    return [query for entry in asked if (query := optional_text_at(entry, "q"))]


READER = Reader("chatgpt.web", _matches, _read, words("mapping message v"))
