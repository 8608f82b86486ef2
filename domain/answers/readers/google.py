"""Google generateContent, grounded or not, as Gemini, AI Studio and Vertex speak it; whole and streamed."""

from collections.abc import Iterable

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.faults import Fault, first_fault
from domain.answers.fields import Node, clean, nodes_at, optional_text_at, source, strings_at, text_at, words
from domain.answers.model import AnswerKind, Source
from domain.answers.readers.base import Reader, last_finish, last_list, last_text

_SNAKE = {
    "grounding_metadata": "groundingMetadata",
    "grounding_chunks": "groundingChunks",
    "web_search_queries": "webSearchQueries",
    "retrieved_context": "retrievedContext",
    "finish_reason": "finishReason",
    "model_version": "modelVersion",
    "response_id": "responseId",
    "function_call": "functionCall",
    "prompt_feedback": "promptFeedback",
    "block_reason": "blockReason",
}


def _matches(document: Document) -> bool:
    return any(isinstance(event.get("candidates"), list) or _block_reason(event) for event in document.events)


def _read(document: Document) -> Draft:
    events = [_camel_cased(event) for event in document.events]
    candidates = [candidate for event in events if (candidate := _first(event))]
    parts = [part for candidate in candidates for part in nodes_at(candidate, "content", "parts")]
    calls = any(isinstance(part.get("functionCall"), dict) for part in parts)
    return Draft(
        wire="google.generateContent",
        text="".join(text_at(part, "text") for part in parts if part.get("thought") is not True),
        citations=_chunks(candidates),
        search_queries=_queries(candidates),
        model=last_text(events, "modelVersion"),
        finish_reason=last_finish(candidates, "finishReason"),
        request_id=last_text(events, "responseId"),
        tool_calls=calls,
        waits=calls,
        fault=_blocked_prompt(events) or first_fault(events),
    )


def _first(event: Node) -> Node:
    """The first of several alternatives. An index of 0 is left out by some serialisers."""
    return next((each for each in nodes_at(event, "candidates") if each.get("index") in (0, None)), {})


def _camel_cased(event: Node) -> Node:
    """The event with its keys as the REST API writes them; the Python SDK dumps them in snake case."""
    if "candidates" not in event and "prompt_feedback" not in event:
        return event
    renamed = _renamed(event)
    renamed["candidates"] = [_renamed_deep(candidate) for candidate in nodes_at(event, "candidates")]
    return renamed


def _renamed_deep(candidate: Node) -> Node:
    """The candidate, its grounding and its parts, renamed."""
    renamed = _renamed(candidate)
    for key in ("groundingMetadata", "content"):
        if isinstance(inner := renamed.get(key), dict):
            renamed[key] = _with_renamed_lists(_renamed(inner))
    return renamed


def _with_renamed_lists(node: Node) -> Node:
    lists = {key: [_renamed(entry) for entry in nodes_at(node, key)] for key in ("groundingChunks", "parts")}
    return node | {key: entries for key, entries in lists.items() if key in node}


def _renamed(node: Node) -> Node:
    return {_SNAKE.get(key, key): value for key, value in node.items()}


def _queries(candidates: Iterable[Node]) -> tuple[str, ...]:
    queries: list[str] = []
    for candidate in candidates:
        queries = strings_at(candidate, "groundingMetadata", "webSearchQueries") or queries
    return tuple(queries)


def _chunks(candidates: Iterable[Node]) -> tuple[Source, ...]:
    """Grounding chunks; a retrieved document without a web address keeps its place without a URL."""
    chunks = last_list(nodes_at(candidate, "groundingMetadata", "groundingChunks") for candidate in candidates)
    found: list[Source] = []
    for chunk in chunks:
        web = chunk.get("web") or chunk.get("maps") or chunk.get("retrievedContext")
        found.append(source(web if isinstance(web, dict) else {}, url="uri", site="domain"))
    return tuple(found)


def _block_reason(event: Node) -> str | None:
    return optional_text_at(event, "promptFeedback", "blockReason") or optional_text_at(
        event, "prompt_feedback", "block_reason"
    )


def _blocked_prompt(events: Iterable[Node]) -> Fault | None:
    reason = next((reason for event in events if (reason := _block_reason(event))), None)
    return Fault(AnswerKind.REFUSAL, f"the prompt was blocked: {clean(reason)}") if reason else None


CONTENT = Reader("google.generateContent", _matches, _read, words("candidates promptFeedback prompt_feedback"))
