"""Search engines' APIs that answer with their pages: Tavily, Exa, Linkup, You.com, Google's Vertex AI Search.

Baidu, Bing, Bocha, Brave and Perplexity's search give the pages alone.
"""

from typing import Final

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.fields import (
    Node,
    any_sources,
    node_at,
    nodes_at,
    optional_text_at,
    source,
    sources,
    text_at,
    words,
)
from domain.answers.model import Source
from domain.answers.readers.base import Reader

_PAGE_LISTS: Final = (("references",), ("results",), ("webPages", "value"), ("web", "results"))


def _is_listed(document: Document) -> bool:
    root = document.root
    listed = (root.get("results"), root.get("citations"), root.get("sources"), root.get("hits"))
    return (
        isinstance(root.get("answer"), str)
        and "question" not in root
        and any(isinstance(each, list) for each in listed)
    )


def _read_listed(document: Document) -> Draft:
    """`answer` with the pages beside it, under the engine's own name for them; the query may be echoed."""
    root = document.root
    key = next(key for key in ("citations", "sources", "results", "hits") if isinstance(root.get(key), list))
    title = "name" if any("name" in entry for entry in nodes_at(root, key)) else "title"
    asked = optional_text_at(root, "query")
    return Draft(
        wire="search.answer",
        text=text_at(root, "answer"),
        citations=any_sources(root.get(key), title=title),
        retrieved=sources(nodes_at(root, "results")) if key == "citations" else (),
        search_queries=(asked,) if asked else (),
        request_id=optional_text_at(root, "request_id") or optional_text_at(root, "requestId"),
        search_only=True,
    )


def _is_pages(document: Document) -> bool:
    """A list of pages, and nothing that anybody says of them."""
    root = document.root
    answered = any(
        isinstance(root.get(key), str) and root.get(key) for key in ("answer", "question", "text", "content")
    )
    return not answered and bool(_pages(root))


def _pages(root: Node) -> list[Node]:
    """The first list under which every entry is a page with an address."""
    lists = (nodes_at(root, *path) for path in _PAGE_LISTS)
    return next((pages for pages in lists if pages and all(text_at(page, "url") for page in pages)), [])


def _read_pages(document: Document) -> Draft:
    root = document.root
    pages = _pages(root)
    asked = optional_text_at(root, "query") or optional_text_at(root, "queryContext", "originalQuery")
    return Draft(
        wire="search.pages",
        citations=sources(pages, title="name" if any("name" in page for page in pages) else "title"),
        search_queries=(asked,) if asked else (),
        request_id=optional_text_at(root, "request_id") or optional_text_at(root, "id"),
        search_only=True,
    )


def _is_vertex(document: Document) -> bool:
    return isinstance(node_at(document.root, "answer").get("answerText"), str)


def _read_vertex(document: Document) -> Draft:
    """Claims cite references by their place in the list."""
    answer = node_at(document.root, "answer")
    references = [_reference(entry) for entry in nodes_at(answer, "references")]
    cited = [
        text_at(claim, "referenceId") for note in nodes_at(answer, "citations") for claim in nodes_at(note, "sources")
    ]
    places = [int(place) for place in cited if place.isdigit() and len(place) < 6]
    return Draft(
        wire="google.vertex-search",
        text=text_at(answer, "answerText"),
        citations=tuple(references[place] for place in places if place < len(references)) or tuple(references),
        retrieved=tuple(references) if places else (),
        search_queries=tuple(_asked(answer)),
        finish_reason=optional_text_at(answer, "state"),
        request_id=optional_text_at(answer, "name"),
    )


def _reference(entry: Node) -> Source:
    held = node_at(entry, "chunkInfo", "documentMetadata") or node_at(entry, "unstructuredDocumentInfo")
    return source(held or node_at(entry, "structuredDocumentInfo"), url="uri")


def _asked(answer: Node) -> list[str]:
    actions = [action for step in nodes_at(answer, "steps") for action in nodes_at(step, "actions")]
    return [query for action in actions if (query := optional_text_at(action, "searchAction", "query"))]


PAGES = Reader("search.pages", _is_pages, _read_pages, frozenset(path[0] for path in _PAGE_LISTS))
LISTED = Reader("search.answer", _is_listed, _read_listed, words("answer"))
VERTEX = Reader("google.vertex-search", _is_vertex, _read_vertex, words("answer"))
