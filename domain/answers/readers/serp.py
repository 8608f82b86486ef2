"""What capture services return of AI answers: SerpApi, SearchApi, DataForSEO, Bright Data and their like."""

from collections.abc import Iterator
from typing import Final

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.fields import (
    Node,
    any_sources,
    argument,
    at,
    node_at,
    nodes_at,
    optional_text_at,
    sources,
    strings_at,
    text_at,
    words,
)
from domain.answers.links import written_sources
from domain.answers.model import Source
from domain.answers.readers.base import Reader

_MAX_DEPTH: Final = 6
_BRIEF: Final = ("answer_text_markdown", "answer_text", "response_text", "aio_text", "answer_markdown")
_LISTS: Final = ("citations", "links_attached", "sources", "references", "search_sources")


def _overview(root: Node) -> Node:
    """The holder of the text blocks: the overview beside other results, or an AI-mode answer itself."""
    return next((held for held in (node_at(root, "ai_overview"), root) if nodes_at(held, "text_blocks")), {})


def _is_blocks(document: Document) -> bool:
    return bool(_overview(document.root))


def _read_blocks(document: Document) -> Draft:
    """Blocks of paragraphs, headings and lists, as Google's page shows them, with references by index."""
    root = document.root
    held = _overview(root)
    references = nodes_at(held, "references") or nodes_at(root, "references") or nodes_at(held, "reference_links")
    return Draft(
        wire="serp.text-blocks",
        text=text_at(held, "markdown") or "\n".join(_lines(nodes_at(held, "text_blocks"), 0)),
        citations=sources(references, url="link" if any("link" in entry for entry in references) else "url"),
        search_queries=tuple(filter(None, [optional_text_at(root, "search_parameters", "q")])),
        request_id=optional_text_at(root, "search_metadata", "id"),
    )


def _lines(blocks: list[Node], depth: int) -> Iterator[str]:
    for block in blocks:
        said = text_at(block, "snippet") or text_at(block, "answer") or text_at(block, "title")
        if said:
            yield said
        if depth < _MAX_DEPTH:
            yield from _items(block, depth)


def _items(block: Node, depth: int) -> Iterator[str]:
    entries = nodes_at(block, "list") or nodes_at(block, "items")
    ordered = text_at(block, "type") in ("ordered_list", "numbered_list")
    for number, entry in enumerate(entries, 1):
        said = ": ".join(filter(None, [text_at(entry, "title").rstrip(": "), text_at(entry, "snippet")]))
        yield f"{'   ' * depth}{f'{number}.' if ordered else '-'} {said}"
        yield from _lines(nodes_at(entry, "text_blocks"), depth + 1)
        yield from _items(entry, depth + 1)
    for row in _rows(block):
        yield " | ".join(row)


def _rows(block: Node) -> list[list[str]]:
    table = block.get("table")
    return [[str(cell) for cell in row] for row in table if isinstance(row, list)] if isinstance(table, list) else []


def _is_dataforseo(document: Document) -> bool:
    return bool(_task_result(document.root))


def _task_result(root: Node) -> Node:
    found = at(root, "tasks", 0, "result", 0)
    return found if isinstance(found, dict) else {}


def _read_dataforseo(document: Document) -> Draft:
    """Items of a task's result; those of AI answers carry Markdown and references."""
    result = _task_result(document.root)
    items = [item for item in nodes_at(result, "items") if _spoken(item)]
    sections = [part for item in nodes_at(result, "items") for part in nodes_at(item, "sections")]
    listed = nodes_at(result, "sources") + [page for item in items for page in nodes_at(item, "references")]
    notes = [note for part in sections for note in nodes_at(part, "annotations")]
    return Draft(
        wire="dataforseo.answer",
        text=text_at(result, "markdown")
        or "\n".join(map(_spoken, items))
        or "".join(text_at(part, "text") for part in sections),
        citations=sources(listed or notes),
        retrieved=sources(nodes_at(result, "search_results")),
        search_queries=tuple(strings_at(result, "fan_out_queries")),
        model=optional_text_at(result, "model") or optional_text_at(result, "model_name"),
        request_id=optional_text_at(document.root, "tasks", 0, "id"),
    )


def _spoken(item: Node) -> str:
    return text_at(item, "markdown") or (text_at(item, "text") if "ai" in text_at(item, "type") else "")


def _is_brief(document: Document) -> bool:
    root = document.root
    captured = any(key in root for key in ("links_attached", "search_sources", "answer_html", "web_search_triggered"))
    return captured and any(isinstance(root.get(key), str) for key in _BRIEF)


def _read_brief(document: Document) -> Draft:
    """Bright Data's rows: the answer as Markdown and text, and lists of what it cites and what was searched."""
    root = document.root
    text = next((said for key in _BRIEF if (said := text_at(root, key))), "")
    return Draft(
        wire="capture.answer",
        text=text,
        citations=_first_list(root) or written_sources(text),
        retrieved=any_sources(root.get("search_sources")),
        search_queries=tuple(argument(root, "web_search_query", "search_queries")),
        model=optional_text_at(root, "model"),
    )


def _first_list(root: Node) -> tuple[Source, ...]:
    """The citations; services mark those that were only searched as not cited."""
    for key in _LISTS:
        entries = [entry for entry in nodes_at(root, key) if entry.get("cited") is not False]
        if found := sources(entries) or any_sources(strings_at(root, key)):
            return found
    return ()


BLOCKS = Reader("serp.text-blocks", _is_blocks, _read_blocks, words("ai_overview text_blocks"))
DATAFORSEO = Reader("dataforseo.answer", _is_dataforseo, _read_dataforseo, words("tasks"))
BRIEF = Reader("capture.answer", _is_brief, _read_brief, frozenset(_BRIEF))
