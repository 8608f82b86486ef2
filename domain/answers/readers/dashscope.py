"""DashScope (Qwen): generation with search_info, and deep research; whole and streamed."""

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.fields import Node, at, node_at, nodes_at, optional_text_at, sources, text_at, words
from domain.answers.readers.base import Reader, join_pieces, last_finish, last_list, last_text

_CHOICE = ("output", "choices", 0)


def _is_generation(document: Document) -> bool:
    return any(
        isinstance(at(event, "output", "choices"), list) or "text" in node_at(event, "output")
        for event in document.events
    )


def _read_generation(document: Document) -> Draft:
    events = document.events
    messages = [node_at(event, *_CHOICE, "message") for event in events]
    found = last_list(nodes_at(event, "output", "search_info", "search_results") for event in events)
    return Draft(
        wire="dashscope.generation",
        text=join_pieces([_piece(event) for event in events]),
        citations=sources(found),
        model=last_text(events, "model"),
        finish_reason=last_finish(events, *_CHOICE, "finish_reason") or last_finish(events, "output", "finish_reason"),
        request_id=last_text(events, "request_id"),
        tool_calls=any(nodes_at(message, "tool_calls") for message in messages),
        refusal="".join(text_at(message, "refusal") for message in messages),
    )


def _piece(event: Node) -> str:
    content = at(event, *_CHOICE, "message", "content")
    if isinstance(content, list):
        return "".join(text_at(part, "text") for part in content)
    return text_at(content) or text_at(event, "output", "text")


def _is_research(document: Document) -> bool:
    return any(text_at(event, "output", "message", "phase") for event in document.events)


def _read_research(document: Document) -> Draft:
    """Only the answer phase is text. Without references the sites found so far stand in for them."""
    messages = [node_at(event, "output", "message") for event in document.events]
    notes = [node_at(message, "extra", "deep_research") for message in messages]
    sites = [site for note in notes for site in nodes_at(note, "research", "webSites")]
    references = last_list(nodes_at(note, "references") for note in notes)
    answers = [message for message in messages if message.get("phase") == "answer"]
    return Draft(
        wire="dashscope.deep-research",
        text=join_pieces([text_at(message, "content") for message in answers]),
        citations=sources(references or sites),
        retrieved=sources(sites) if references else (),
        search_queries=_research_queries(notes),
        finish_reason=_research_finish(document.events),
        request_id=last_text(document.events, "request_id"),
        search_only=not answers,
        ended=_research_ended(document.events),
    )


def _research_queries(notes: list[Node]) -> tuple[str, ...]:
    """One query per research step; later events of a step replace what earlier ones had of it."""
    found: dict[str, str] = {}
    for note in notes:
        query = optional_text_at(note, "research", "query")
        if query:
            found[str(at(note, "research", "id"))] = query
    return tuple(found.values())


def _research_finish(events: tuple[Node, ...]) -> str:
    """The reason given, else the phase and status the stream stopped in."""
    phase = last_text(events, "output", "message", "phase")
    status = last_text(events, "output", "message", "status")
    return _research_reason(events) or f"{phase}/{status or 'running'}"


def _research_reason(events: tuple[Node, ...]) -> str | None:
    """The misspelt key is DashScope's own."""
    misspelt = last_finish(events, "output", "fininshed_reason")
    return misspelt or last_finish(events, "output", "finished_reason")


def _research_ended(events: tuple[Node, ...]) -> bool:
    status = last_text(events, "output", "message", "status")
    return _research_reason(events) is not None or status == "finished"


GENERATION = Reader("dashscope.generation", _is_generation, _read_generation, words("output"))
RESEARCH = Reader("dashscope.deep-research", _is_research, _read_research, words("output"))
