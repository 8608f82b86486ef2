"""Chat pages of Kimi, Yuanbao, Coze, Metaso and Copilot, as their streams send an answer."""

from collections.abc import Iterable
from typing import Final

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.faults import Fault
from domain.answers.fields import (
    Node,
    node_at,
    nodes_at,
    optional_text_at,
    source,
    sources,
    strings_at,
    text_at,
    words,
)
from domain.answers.model import AnswerKind, Source
from domain.answers.readers.base import Reader, last_list, last_text

_KIMI_EVENTS: Final = ("cmpl", "all_done", "search_plus")
_COZE_ANSWER: Final = "answer"


def _is_kimi(document: Document) -> bool:
    return any(text_at(event, "event") in _KIMI_EVENTS for event in document.events)


def _read_kimi(document: Document) -> Draft:
    events = document.events
    pages = [node_at(event, "msg") for event in events if event.get("event") == "search_plus"]
    return Draft(
        wire="kimi.web",
        text="".join(text_at(event, "text") for event in events if event.get("event") == "cmpl"),
        citations=sources(page for page in pages if page.get("type") == "get_res"),
        search_queries=tuple(_kimi_queries(events, pages)),
        ended=any(event.get("event") == "all_done" for event in events),
        fault=_kimi_fault(events),
    )


def _kimi_queries(events: Iterable[Node], pages: list[Node]) -> list[str]:
    targets = (optional_text_at(event, "message", "search_target") for event in events if event.get("event") == "debug")
    return [query for page in pages for query in strings_at(page, "targets")] or [found for found in targets if found]


def _kimi_fault(events: Iterable[Node]) -> Fault | None:
    failed = next((event for event in events if event.get("event") == "error"), None)
    return Fault(AnswerKind.ERROR, "the chat page reported an error") if failed else None


def _is_yuanbao(document: Document) -> bool:
    kinds = {text_at(event, "type") for event in document.events}
    spoken = any("msg" in event for event in document.events if event.get("type") == "text")
    return spoken or "searchGuid" in kinds


def _read_yuanbao(document: Document) -> Draft:
    events = document.events
    pages = [page for event in events if event.get("type") == "searchGuid" for page in nodes_at(event, "docs")]
    return Draft(
        wire="hunyuan.yuanbao",
        text="".join(text_at(event, "msg") for event in events if event.get("type") == "text"),
        citations=tuple(_yuanbao_page(page) for page in pages),
        finish_reason=last_text(events, "stopReason"),
        ended=document.done or _pages_follow(events),
    )


def _yuanbao_page(page: Node) -> Source:
    site = "sourceName" if page.get("sourceName") else "web_site_name"
    return source(page, url="url" if page.get("url") else "web_url", site=site)


def _pages_follow(events: Iterable[Node]) -> bool:
    """Whether the pages came behind the text: they then close the answer, also where no end mark was recorded."""
    kinds = [text_at(event, "type") for event in events if event.get("type") == "searchGuid" or "msg" in event]
    return len(kinds) > 1 and kinds[-1] == "searchGuid"


def _is_coze(document: Document) -> bool:
    return any(name.startswith("conversation.message") for name in document.names)


def _read_coze(document: Document) -> Draft:
    """Deltas, then the whole message again, told apart by the names of the events."""
    named = list(zip(document.names, document.events, strict=True))
    spoken = [(name, event) for name, event in named if event.get("type") == _COZE_ANSWER]
    deltas = "".join(text_at(event, "content") for name, event in spoken if name.endswith("message.delta"))
    whole = [text_at(event, "content") for name, event in spoken if name.endswith("message.completed")]
    return Draft(
        wire="coze.chat",
        text=max([deltas, *whole], key=len),
        finish_reason=last_text((event for name, event in named if name.startswith("conversation.chat")), "status"),
        request_id=optional_text_at(document.root, "id"),
    )


def _is_metaso(document: Document) -> bool:
    return any(text_at(event, "type") == "append-text" for event in document.events)


def _read_metaso(document: Document) -> Draft:
    events = document.events
    pages = last_list(nodes_at(event, "list") for event in events if event.get("type") == "set-reference")
    return Draft(
        wire="metaso.web",
        text="".join(text_at(event, "text") for event in events if event.get("type") == "append-text"),
        citations=sources(pages, url="link"),
    )


def _is_copilot(document: Document) -> bool:
    return any(text_at(event, "event") == "appendText" for event in document.events)


def _read_copilot(document: Document) -> Draft:
    events = document.events
    return Draft(
        wire="copilot.web",
        text="".join(text_at(event, "text") for event in events if event.get("event") == "appendText"),
        citations=sources(event for event in events if event.get("event") == "citation"),
        request_id=last_text(events, "messageId"),
        ended=any(event.get("event") == "done" for event in events),
    )


METASO = Reader("metaso.web", _is_metaso, _read_metaso, words("type"))
COPILOT = Reader("copilot.web", _is_copilot, _read_copilot, words("event"))
KIMI = Reader("kimi.web", _is_kimi, _read_kimi, words("event"))
YUANBAO = Reader("hunyuan.yuanbao", _is_yuanbao, _read_yuanbao, words("type"))
COZE = Reader("coze.chat", _is_coze, _read_coze)
