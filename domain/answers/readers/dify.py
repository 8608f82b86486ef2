"""Dify's chat apps and workflows; whole and streamed."""

from typing import Final

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.fields import Node, at, nodes_at, source, text_at, words
from domain.answers.readers.base import Reader, last_text
from domain.answers.readers.chat import without_thinking

_SPOKEN: Final = ("message", "agent_message")
_ENDS: Final = ("message_end", "workflow_finished")


def _matches(document: Document) -> bool:
    return any(
        (text_at(event, "event") in _SPOKEN and isinstance(event.get("answer"), str) and "message_id" in event)
        or (text_at(event, "event") in _ENDS and "task_id" in event)
        for event in document.events
    )


def _read(document: Document) -> Draft:
    """Pieces, unless one event replaced all that was said before it (a moderated answer)."""
    events = document.events
    pages = [page for event in events for page in nodes_at(event, "metadata", "retriever_resources")]
    return Draft(
        wire="dify.chat",
        text=without_thinking(_text(events)),
        retrieved=tuple(source(page, title="document_name") for page in pages),
        finish_reason=last_text(events, "data", "status"),
        request_id=last_text(events, "message_id"),
        ended=any(text_at(event, "event") in _ENDS for event in events) or not document.streamed,
    )


def _text(events: tuple[Node, ...]) -> str:
    text = ""
    for event in events:
        kind = text_at(event, "event")
        if kind in _SPOKEN:
            text += text_at(event, "answer")
        elif kind == "text_chunk":
            text += text_at(event, "data", "text")
        elif kind == "message_replace":
            text = text_at(event, "answer")
    return text or _output(events)


def _output(events: tuple[Node, ...]) -> str:
    """What a workflow without an answer node came to, where that is one text."""
    outputs = [at(event, "data", "outputs") for event in events if event.get("event") == "workflow_finished"]
    values = [value for held in outputs if isinstance(held, dict) for value in held.values()]
    return values[0] if len(values) == 1 and isinstance(values[0], str) else ""


READER = Reader("dify.chat", _matches, _read, words("event"))
