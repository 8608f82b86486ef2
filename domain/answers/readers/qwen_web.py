"""Qwen's chat page: completions in phases, of which one is the answer; two alternatives may come interleaved."""

from typing import Final

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.fields import Node, node_at, nodes_at, sources, text_at, words
from domain.answers.readers.base import Reader, join_pieces, last_finish, last_list, last_text
from domain.answers.readers.chat import without_thinking

_ANSWER: Final = "answer"


def _matches(document: Document) -> bool:
    """Whether any delta tells its phase, as the page's do and the API's never."""
    return document.streamed and any("phase" in delta for event in document.events for delta in _deltas(event))


def _deltas(event: Node) -> list[Node]:
    return [node_at(choice, "delta") for choice in nodes_at(event, "choices")]


def _read(document: Document) -> Draft:
    events = _first_alternative(document.events)
    deltas = [delta for event in events for delta in _deltas(event)]
    said = [delta for delta in deltas if text_at(delta, "phase") in (_ANSWER, "")]
    return Draft(
        wire="qwen.web",
        text=without_thinking(join_pieces([text_at(delta, "content") for delta in said])),
        citations=sources(last_list(nodes_at(delta, "extra", "web_search_info") for delta in deltas)),
        model=last_text(events, "model"),
        finish_reason=last_finish((c for event in events for c in nodes_at(event, "choices")), "finish_reason"),
        request_id=last_text(events, "response_id"),
        ended=document.done or any(delta.get("status") == "finished" for delta in said),
    )


def _first_alternative(events: tuple[Node, ...]) -> list[Node]:
    """The events of the response that was announced first, or spoke first where none was."""
    announced = (text_at(event, "response.created", "response_id") for event in events)
    spoken = (text_at(event, "response_id") for event in events)
    first = next(filter(None, announced), "") or next(filter(None, spoken), "")
    return [event for event in events if text_at(event, "response_id") in (first, "")]


READER = Reader("qwen.web", _matches, _read, words("choices"))
