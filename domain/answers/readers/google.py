"""Google: generateContent (grounded) and interactions; whole and streamed."""

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.faults import Fault, first_fault
from domain.answers.fields import Node, at, nodes_at, source, sources, strings_at, text_at
from domain.answers.model import AnswerKind, Source
from domain.answers.readers.base import Reader, last_list, last_text


def _is_content(document: Document) -> bool:
    return any(
        isinstance(event.get("candidates"), list) or at(event, "promptFeedback", "blockReason")
        for event in document.events
    )


def _read_content(document: Document) -> Draft:
    events = document.events
    parts = [part for event in events for part in _parts(event)]
    queries: list[str] = []
    for event in events:
        queries = strings_at(event, *_GROUNDING, "webSearchQueries") or queries
    return Draft(
        wire="google.generateContent",
        text="".join(text_at(part, "text") for part in parts if part.get("thought") is not True),
        citations=_chunks(events),
        search_queries=tuple(queries),
        model=last_text(events, "modelVersion"),
        finish_reason=last_text(events, "candidates", 0, "finishReason"),
        request_id=last_text(events, "responseId"),
        tool_calls=any("functionCall" in part for part in parts),
        fault=_blocked_prompt(events) or first_fault(events),
    )


_GROUNDING: tuple[str | int, ...] = ("candidates", 0, "groundingMetadata")


def _parts(event: Node) -> list[Node]:
    return nodes_at(event, "candidates", 0, "content", "parts")


def _chunks(events: tuple[Node, ...]) -> tuple[Source, ...]:
    """Grounding chunks; a retrieved document without a web address keeps its place without a URL."""
    chunks = last_list(nodes_at(event, *_GROUNDING, "groundingChunks") for event in events)
    found: list[Source] = []
    for chunk in chunks:
        web = chunk.get("web") or chunk.get("maps") or chunk.get("retrievedContext")
        found.append(source(web if isinstance(web, dict) else {}, url="uri", site="domain"))
    return tuple(found)


def _blocked_prompt(events: tuple[Node, ...]) -> Fault | None:
    reason = last_text(events, "promptFeedback", "blockReason")
    return Fault(AnswerKind.REFUSAL, f"the prompt was blocked: {reason}") if reason else None


def _is_interaction(document: Document) -> bool:
    root = document.root
    return (
        root.get("object") == "interaction"
        or isinstance(root.get("steps"), list)
        or text_at(root, "event_type").startswith(("interaction.", "step."))
    )


def _read_interaction(document: Document) -> Draft:
    events = document.events
    texts = [text for event in events for text in _interaction_texts(event)]
    notes = [note for text in texts for note in nodes_at(text, "annotations")]
    holders = (*events, *(_holder(event) for event in events))
    return Draft(
        wire="google.interactions",
        text="".join(text_at(text, "text") for text in texts),
        citations=sources(note for note in notes if note.get("type") == "url_citation"),
        search_queries=tuple(query for event in events for query in _interaction_queries(event)),
        model=last_text(holders, "model"),
        finish_reason=last_text(holders, "status"),
        request_id=last_text(holders, "id"),
    )


def _holder(event: Node) -> Node:
    held = event.get("interaction")
    return held if isinstance(held, dict) else {}


def _interaction_texts(event: Node) -> list[Node]:
    """Text parts of a whole body's output steps, and a stream's text and annotation deltas."""
    delta = at(event, "delta")
    if isinstance(delta, dict) and delta.get("type") in ("text", "text_annotation_delta"):
        return [delta]
    steps = [step for step in nodes_at(event, "steps") if step.get("type") == "model_output"]
    contents = [part for step in steps for part in nodes_at(step, "content")]
    return [part for part in contents if part.get("type") == "text"]


def _interaction_queries(event: Node) -> list[str]:
    calls = [*nodes_at(event, "steps"), event.get("delta")]
    found: list[str] = []
    for call in calls:
        if at(call, "type") == "google_search_call":
            found += strings_at(call, "arguments", "queries")
    return found


CONTENT = Reader("google.generateContent", _is_content, _read_content)
INTERACTIONS = Reader("google.interactions", _is_interaction, _read_interaction)
