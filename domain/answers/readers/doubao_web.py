"""Doubao's chat page: messages in JSON strings, or (since late 2025) blocks of content, each in a named event."""

from collections.abc import Iterable, Iterator
from typing import Final

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.faults import Fault
from domain.answers.fields import Node, node_at, nodes_at, source, strings_at, text_at, unquoted, words
from domain.answers.model import AnswerKind, Source
from domain.answers.readers.base import Reader, join_pieces

_END: Final = 2003
_NAMES: Final = ("CHUNK_DELTA", "STREAM_CHUNK", "STREAM_MSG_NOTIFY", "SSE_REPLY_END")
_TEXT_BLOCK: Final = 10000


def _is_quoted(document: Document) -> bool:
    return any("event_type" in event and isinstance(event.get("event_data"), str | dict) for event in document.events)


def _read_quoted(document: Document) -> Draft:
    """Each event holds its data in a JSON string, and that the message's content in another."""
    data = [node for event in document.events if isinstance(node := unquoted(event.get("event_data")), dict)]
    contents = [content for node in data if isinstance(content := unquoted(_content(node)), dict)]
    ended = any(event.get("event_type") == _END for event in document.events)
    return Draft(
        wire="doubao.web",
        text=join_pieces([text_at(content, "text") for content in contents]),
        citations=tuple(page for content in contents for page in _pages(content)),
        search_queries=_once(query for content in contents for query in strings_at(content, "queries")),
        ended=ended or any(node.get("is_finish") is True for node in data),
        fault=_fault(data),
    )


def _content(data: Node) -> object:
    return node_at(data, "message").get("content")


def _once(queries: Iterable[str]) -> tuple[str, ...]:
    """Later events of a search repeat its queries."""
    return tuple(dict.fromkeys(queries))


def _pages(holder: Node) -> list[Source]:
    cards = [node_at(entry, "text_card") for entry in nodes_at(holder, "results")]
    return [
        source(card, site="sitename") for card in [card for card in cards if card] or nodes_at(holder, "references")
    ]


def _fault(data: Iterable[Node]) -> Fault | None:
    failed = next((node for node in data if node.get("code") and text_at(node, "message")), None)
    return Fault(AnswerKind.ERROR, f"{failed['code']}: {text_at(failed, 'message')[:200]}") if failed else None


def _is_named(document: Document) -> bool:
    return any(name in _NAMES for name in document.names)


def _read_named(document: Document) -> Draft:
    blocks = [block for event in document.events for block in _blocks(event)]
    searches = [node_at(block, "content", "search_query_result_block") for block in blocks]
    spoken = (text_at(block, "content", "text_block", "text") for block in blocks if _is_text(block))
    deltas = (text_at(event, "text") for event in document.events)
    return Draft(
        wire="doubao.web",
        text="".join(spoken) + "".join(deltas),
        citations=tuple(page for search in searches for page in _pages(search)),
        search_queries=_once(query for search in searches for query in strings_at(search, "queries")),
        ended="SSE_REPLY_END" in document.names,
    )


def _blocks(event: Node) -> Iterator[Node]:
    """The blocks a message begins with, and those that its patches add."""
    yield from nodes_at(event, "content", "content_block")
    for patch in nodes_at(event, "patch_op"):
        yield from nodes_at(patch, "patch_value", "content_block")


def _is_text(block: Node) -> bool:
    """Other blocks with a text are thinking and search steps."""
    return block.get("block_type") in (_TEXT_BLOCK, None) and not text_at(block, "parent_id")


QUOTED = Reader("doubao.web", _is_quoted, _read_quoted, words("event_data"))
NAMED = Reader("doubao.web", _is_named, _read_named)
