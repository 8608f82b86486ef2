"""xAI's gRPC API as JSON; whole, and one chunk a line."""

from typing import Final

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.fields import (
    Node,
    argument,
    at,
    node_at,
    nodes_at,
    plain_sources,
    sources,
    strings_at,
    text_at,
    words,
)
from domain.answers.model import Source
from domain.answers.readers.base import Reader, last_text

_ASSISTANT: Final = "ROLE_ASSISTANT"
_PAGES: Final = ("web_citation", "webCitation", "x_citation", "xCitation")


def _matches(document: Document) -> bool:
    outputs = [output for event in document.events for output in nodes_at(event, "outputs")]
    return any("message" in output or "delta" in output for output in outputs)


def _read(document: Document) -> Draft:
    events = document.events
    outputs = [output for event in events for output in nodes_at(event, "outputs")]
    messages = [node_at(output, "message") or node_at(output, "delta") for output in outputs]
    spoken = [message for message in messages if message.get("role") == _ASSISTANT]
    calls = [call for message in spoken for call in _calls(message)]
    cited: list[str] = []
    for event in events:
        cited = strings_at(event, "citations") or cited
    return Draft(
        wire="xai.grpc-json",
        text="".join(text_at(message, "content") for message in spoken),
        citations=plain_sources(cited),
        retrieved=_retrieved(messages),
        search_queries=tuple(query for call in calls for query in _queries(call)),
        model=last_text(events, "model"),
        finish_reason=last_text(outputs, "finish_reason") or last_text(outputs, "finishReason"),
        request_id=last_text(events, "id"),
        tool_calls=bool(calls),
    )


def _calls(message: Node) -> list[Node]:
    """Protobuf's JSON writes names in camel case unless it is told to keep them."""
    return nodes_at(message, "tool_calls") or nodes_at(message, "toolCalls")


def _queries(call: Node) -> list[str]:
    return argument(at(call, "function", "arguments"), "query")


def _retrieved(messages: list[Node]) -> tuple[Source, ...]:
    """What the tools found, web pages and posts; the assistant's own marks repeat what it cites."""
    told = (message for message in messages if message.get("role") != _ASSISTANT)
    notes = [note for message in told for note in nodes_at(message, "citations")]
    return sources(page for note in notes for name in _PAGES if (page := node_at(note, name)))


READER = Reader("xai.grpc-json", _matches, _read, words("outputs"))
