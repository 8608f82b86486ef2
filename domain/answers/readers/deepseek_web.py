"""DeepSeek's chat page: a stream of patches to one response."""

from typing import Final

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.fields import Node, node_at, nodes_at, optional_text_at, sources, strings_at, text_at, words
from domain.answers.model import Source
from domain.answers.readers.base import Reader, last_text
from domain.answers.readers.patches import Patched

_ENDED: Final = ("FINISHED", "COMPLETE", "INCOMPLETE", "CONTENT_FILTER")


def _matches(document: Document) -> bool:
    return any(
        text_at(event, "p").startswith("response/") or isinstance(node_at(event, "v").get("response"), dict)
        for event in document.events
    )


def _read(document: Document) -> Draft:
    response = node_at(Patched().apply_all(document.events), "response")
    pages = [page for entry in (response, *nodes_at(response, "fragments")) for page in _pages(entry)]
    status = optional_text_at(response, "status")
    return Draft(
        wire="deepseek.web",
        text=text_at(response, "content") or _fragments(response),
        citations=tuple(_cited(pages)),
        retrieved=sources(pages),
        search_queries=tuple(_queries(response)),
        model=last_text(document.events, "model") or optional_text_at(response, "model"),
        finish_reason=status,
        ended=status in _ENDED,
    )


def _fragments(response: Node) -> str:
    """The answer's fragments, without those of thinking and searching."""
    return "".join(
        text_at(fragment, "content")
        for fragment in nodes_at(response, "fragments")
        if text_at(fragment, "type").casefold() in ("response", "text", "")
    )


def _pages(entry: Node) -> list[Node]:
    return nodes_at(entry, "search_results") or nodes_at(entry, "results")


def _cited(pages: list[Node]) -> list[Source]:
    """Pages with a `cite_index` in its order; all pages where none has one."""
    marked = sorted(
        (index, place) for place, page in enumerate(pages) if isinstance(index := page.get("cite_index"), int)
    )
    return list(sources([pages[place] for _, place in marked] or pages))


def _queries(response: Node) -> list[str]:
    holders = (response, *nodes_at(response, "fragments"))
    asked = [entry for holder in holders for entry in nodes_at(holder, "search_queries") + nodes_at(holder, "queries")]
    plain = [query for holder in holders for query in strings_at(holder, "search_queries")]
    return plain + [query for entry in asked if (query := optional_text_at(entry, "query"))]


READER = Reader("deepseek.web", _matches, _read, words("v p"))
