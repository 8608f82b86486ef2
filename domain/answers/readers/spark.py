"""iFlytek Spark over WebSocket: frames with a header, a payload of choices, and search results of a plugin."""

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.faults import Fault
from domain.answers.fields import any_sources, at, nodes_at, text_at, unquoted, words
from domain.answers.model import AnswerKind
from domain.answers.readers.base import Reader, last_text

_LAST_FRAME = 2


def _matches(document: Document) -> bool:
    return any(isinstance(at(event, "header", "code"), int) for event in document.events)


def _read(document: Document) -> Draft:
    events = document.events
    plugins = [entry for event in events for entry in nodes_at(event, "payload", "plugins", "text")]
    texts = [part for event in events for part in nodes_at(event, "payload", "choices", "text")[:1]]
    return Draft(
        wire="spark.ws",
        text="".join(text_at(part, "content") for part in texts),
        citations=tuple(page for entry in plugins for page in any_sources(unquoted(entry.get("content")))),
        request_id=last_text(events, "header", "sid"),
        ended=any(at(event, "header", "status") == _LAST_FRAME for event in events),
        fault=_fault(document),
    )


def _fault(document: Document) -> Fault | None:
    failed = next((event for event in document.events if at(event, "header", "code")), None)
    if failed is None:
        return None
    return Fault(AnswerKind.ERROR, f"{at(failed, 'header', 'code')}: {text_at(failed, 'header', 'message')[:200]}")


READER = Reader("spark.ws", _matches, _read, words("header"))
