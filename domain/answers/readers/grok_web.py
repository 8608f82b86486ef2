"""Grok's chat page: JSON lines of tokens, then the whole message with the pages it found and those it cites."""

from typing import Final

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.faults import Fault, fault_of
from domain.answers.fields import Node, node_at, nodes_at, optional_text_at, sources, text_at, words
from domain.answers.readers.base import Reader, last_text

_SPOKEN: Final = ("", "final")  # the tags of the answer's tokens; others head a search or a thought


def _matches(document: Document) -> bool:
    return any(_is_grok(part) for part in _parts(document))


def _is_grok(part: Node) -> bool:
    return ("token" in part and "isThinking" in part) or isinstance(part.get("modelResponse"), dict)


def _parts(document: Document) -> list[Node]:
    """What each line holds: a new conversation's stand one key deeper than later ones."""
    results = [node_at(event, "result") for event in document.events]
    return [node_at(result, "response") or result for result in results]


def _read(document: Document) -> Draft:
    parts = _parts(document)
    whole = next((node for part in reversed(parts) if (node := node_at(part, "modelResponse"))), {})
    found, cited = nodes_at(whole, "webSearchResults"), nodes_at(whole, "citedWebSearchResults")
    return Draft(
        wire="xai.web",
        text=text_at(whole, "message") or "".join(text_at(part, "token") for part in parts if _is_said(part)),
        citations=sources(cited or found),
        retrieved=sources(found) if cited else (),
        model=optional_text_at(whole, "model"),
        request_id=optional_text_at(whole, "responseId") or last_text(parts, "responseId"),
        ended=bool(whole) or any(part.get("isSoftStop") is True for part in parts),
        fault=_fault(parts),
    )


def _is_said(part: Node) -> bool:
    return part.get("isThinking") is not True and text_at(part, "messageTag") in _SPOKEN


def _fault(parts: list[Node]) -> Fault | None:
    return next((fault for part in parts if part.get("error") and (fault := fault_of(part))), None)


READER = Reader("xai.web", _matches, _read, words("result"))
