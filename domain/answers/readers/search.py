"""ERNIE v1, whose text is `result`, and Zhipu's web search, which answers with pages only."""

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.fields import nodes_at, optional_text_at, sources, text_at, words
from domain.answers.readers.base import Reader, join_pieces, last_list, last_text


def _is_ernie(document: Document) -> bool:
    return any(isinstance(event.get("result"), str) for event in document.events)


def _read_ernie(document: Document) -> Draft:
    events = document.events
    found = last_list(nodes_at(event, "search_info", "search_results") for event in events)
    truncated = any(event.get("is_truncated") is True for event in events)
    return Draft(
        wire="ernie.v1.chat",
        text=join_pieces([text_at(event, "result") for event in events]),
        citations=sources(found),
        finish_reason=last_text(events, "finish_reason") or ("length" if truncated else None),
        request_id=last_text(events, "id"),
        tool_calls=any("function_call" in event for event in events),
        ended=any(event.get("is_end") is True for event in events) or None,
    )


def _is_web_search(document: Document) -> bool:
    return isinstance(document.root.get("search_result"), list)


def _read_web_search(document: Document) -> Draft:
    intents = nodes_at(document.root, "search_intent")
    return Draft(
        wire="zhipu.web_search",
        citations=sources(nodes_at(document.root, "search_result"), url="link"),
        search_queries=tuple(q for intent in intents if (q := optional_text_at(intent, "query"))),
        request_id=optional_text_at(document.root, "request_id"),
        search_only=True,
    )


ERNIE = Reader("ernie.v1.chat", _is_ernie, _read_ernie, words("result"))
WEB_SEARCH = Reader("zhipu.web_search", _is_web_search, _read_web_search, words("search_result"))
