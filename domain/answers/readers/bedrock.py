"""AWS Bedrock: Converse, whole and streamed, and answers retrieved from a knowledge base."""

from typing import Final

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.fields import Node, argument, node_at, nodes_at, optional_text_at, source, text_at, words
from domain.answers.model import Source
from domain.answers.readers.base import Reader, last_text

_STREAMED: Final = ("messageStart", "contentBlockStart", "contentBlockDelta", "messageStop")


def _is_converse(document: Document) -> bool:
    message = node_at(document.root, "output", "message")
    return isinstance(message.get("content"), list) and not text_at(message, "phase")


def _read_converse(document: Document) -> Draft:
    return _draft(
        nodes_at(document.root, "output", "message", "content"),
        optional_text_at(document.root, "stopReason"),
    )


def _draft(content: list[Node], finish: str | None) -> Draft:
    cited = [node_at(part, "citationsContent") for part in content]
    uses = [node_at(part, "toolUse") for part in content if "toolUse" in part]
    searches = [use for use in uses if use.get("type") == "server_tool_use"]
    return Draft(
        wire="bedrock.converse",
        text="".join(_text(part) for part in content),
        citations=tuple(_web(note) for part in cited for note in nodes_at(part, "citations")),
        search_queries=tuple(query for use in searches for query in argument(use.get("input"), "query")),
        finish_reason=finish,
        tool_calls=len(uses) > len(searches),
    )


def _text(part: Node) -> str:
    pieces = nodes_at(part, "citationsContent", "content")
    return text_at(part, "text") + "".join(text_at(piece, "text") for piece in pieces)


def _web(note: Node) -> Source:
    web = node_at(note, "location", "web")
    return Source(source(web).url, source(note).title, optional_text_at(web, "domain"))


def _is_converse_stream(document: Document) -> bool:
    return document.streamed


def _read_converse_stream(document: Document) -> Draft:
    """Deltas as content parts: a piece of text, or a citation beside it."""
    deltas = [node_at(event, "contentBlockDelta", "delta") for event in document.events]
    notes = [node_at(delta, "citation") for delta in deltas if "citation" in delta]
    parts: list[Node] = [{"text": text_at(delta, "text")} for delta in deltas]
    parts.append({"citationsContent": {"citations": list(notes)}})
    starts = [node_at(event, "contentBlockStart", "start") for event in document.events]
    return _draft(parts + starts, last_text(document.events, "messageStop", "stopReason"))


def _is_knowledge(document: Document) -> bool:
    root = document.root
    return isinstance(root.get("citations"), list) and "text" in node_at(root, "output")


def _read_knowledge(document: Document) -> Draft:
    """`RetrieveAndGenerate`: each claim's references, which may be pages or objects of a store."""
    notes = nodes_at(document.root, "citations")
    references = [reference for note in notes for reference in nodes_at(note, "retrievedReferences")]
    return Draft(
        wire="bedrock.retrieve-and-generate",
        text=text_at(document.root, "output", "text"),
        citations=tuple(source(node_at(reference, "location", "webLocation")) for reference in references),
        request_id=optional_text_at(document.root, "sessionId"),
        finish_reason=_guarded(text_at(document.root, "guardrailAction")),
    )


def _guarded(action: str) -> str | None:
    return "guardrail_intervened" if action == "INTERVENED" else None


CONVERSE = Reader("bedrock.converse", _is_converse, _read_converse, words("output"))
CONVERSE_STREAM = Reader("bedrock.converse", _is_converse_stream, _read_converse_stream, frozenset(_STREAMED))
KNOWLEDGE = Reader("bedrock.retrieve-and-generate", _is_knowledge, _read_knowledge, words("citations"))
