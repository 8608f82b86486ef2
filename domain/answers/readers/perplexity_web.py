"""Perplexity's web page: blocks of an answer, streamed with their growth or stored as a thread's entries."""

from typing import Final

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.fields import (
    Node,
    at,
    node_at,
    nodes_at,
    optional_text_at,
    sources,
    strings_at,
    text_at,
    unquoted,
    words,
)
from domain.answers.model import Source
from domain.answers.readers.base import Reader, last_text

_ENDED: Final = "COMPLETED"


def _matches(document: Document) -> bool:
    return any(_is_entry(entry) for entry in _entries(document))


def _is_entry(entry: Node) -> bool:
    return any("intended_usage" in block for block in nodes_at(entry, "blocks")) or bool(_final_step(entry))


def _entries(document: Document) -> list[Node]:
    """A stream's events are one entry, further written; of a thread the last entry is the answer asked for."""
    return nodes_at(document.root, "entries")[-1:] or list(document.events)


def _read(document: Document) -> Draft:
    entries = _entries(document)
    blocks = [block for entry in entries for block in nodes_at(entry, "blocks")]
    status = last_text(entries, "status")
    return Draft(
        wire="perplexity.web",
        text=_text(blocks) or _stepped(entries),
        citations=_pages(blocks) or _step_pages(entries),
        search_queries=tuple(_queries(blocks)),
        model=last_text(entries, "display_model"),
        finish_reason=status,
        request_id=last_text(entries, "backend_uuid"),
        ended=status == _ENDED or any(entry.get("final_sse_message") is True for entry in entries),
    )


def _text(blocks: list[Node]) -> str:
    """The answer of the usage that says most: the page mirrors it under two."""
    usages: dict[str, _Markdown] = {}
    for block in blocks:
        usage = text_at(block, "intended_usage")
        if usage.startswith("ask_text"):
            usages.setdefault(usage, _Markdown()).take(block)
    return max((usage.text for usage in usages.values()), key=len, default="")


class _Markdown:
    """One usage's answer while it is streamed: whole at last, before that in chunks, set or patched one by one."""

    def __init__(self) -> None:
        self._answer = ""
        self._chunks: list[str] = []

    @property
    def text(self) -> str:
        return max(self._answer, "".join(self._chunks), key=len)

    def take(self, block: Node) -> None:
        self._set(node_at(block, "markdown_block"))
        held = node_at(block, "diff_block")
        for patch in nodes_at(held, "patches") if text_at(held, "field") == "markdown_block" else ():
            self._patch(text_at(patch, "path"), patch.get("value"))

    def _set(self, whole: Node) -> None:
        self._answer = text_at(whole, "answer") or self._answer
        start = whole.get("chunk_starting_offset")
        if chunks := strings_at(whole, "chunks"):
            self._chunks[start if isinstance(start, int) and start >= 0 else 0 :] = chunks

    def _patch(self, path: str, value: object) -> None:
        if path == "/answer":
            self._answer = text_at(value)
        elif path == "/chunks":
            self._chunks = strings_at(value)
        elif path.startswith("/chunks/") and isinstance(value, str):
            self._chunks.append(value)
        elif path == "" and isinstance(value, dict):
            self._set(value)


def _pages(blocks: list[Node]) -> tuple[Source, ...]:
    """The last list of pages of the stream."""
    found: list[Node] = []
    for block in blocks:
        found = nodes_at(block, "web_result_block", "web_results") or found
    return sources(found, title="name")


def _queries(blocks: list[Node]) -> list[str]:
    """The queries of the search plan; later events repeat the plan."""
    found: dict[str, None] = {}
    for block in blocks:
        for step in nodes_at(block, "plan_block", "steps"):
            for asked in nodes_at(step, "search_web_content", "queries"):
                found |= dict.fromkeys(filter(None, [optional_text_at(asked, "query")]))
    return list(found)


def _final_step(entry: Node) -> Node:
    """The older shape: steps in a JSON string, the last with the answer in one of its own."""
    steps = unquoted(entry.get("text")) if text_at(entry, "text").startswith("[") else None
    finals = [step for step in steps if at(step, "step_type") == "FINAL"] if isinstance(steps, list) else []
    held = unquoted(at(finals[-1], "content", "answer")) if finals else None
    return held if isinstance(held, dict) else {}


def _stepped(entries: list[Node]) -> str:
    return next((text for entry in reversed(entries) if (text := text_at(_final_step(entry), "answer"))), "")


def _step_pages(entries: list[Node]) -> tuple[Source, ...]:
    pages = (nodes_at(_final_step(entry), "web_results") for entry in reversed(entries))
    return sources(next((found for found in pages if found), []), title="name")


READER = Reader("perplexity.web", _matches, _read, words("blocks entries text"))
