"""What browsers captured: Doubao's app, Perplexity and ChatGPT pages, and plain records of question and answer."""

import re

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.fields import (
    Node,
    clean,
    node_at,
    nodes_at,
    optional_text_at,
    plain_sources,
    source,
    sources,
    strings_at,
    text_at,
)
from domain.answers.links import written_sources
from domain.answers.model import Source
from domain.answers.readers.base import Reader, last_text
from domain.answers.readers.html_text import is_markup, read_page

_LABEL = re.compile(r"\*\*\s*搜索关键词[：:]?\s*\*\*[：:]?(.*)")
_QUOTED = re.compile(r"“([^”]+)”|\"([^\"]+)\"|「([^」]+)」")
_ANSWER_KEYS = (
    *("response_text", "answer_text", "answer_markdown", "answer", "response", "reply", "completion", "output"),
    *("markdown", "content", "text"),
)
_QUESTION_KEYS = ("query_text", "question", "prompt", "query", "engine", "query_id", "user_query", "input")


def _is_doubao(document: Document) -> bool:
    return isinstance(document.root.get("answer_body"), str)


def _read_doubao(document: Document) -> Draft:
    rows = nodes_at(document.root, "thinking_references") or nodes_at(document.root, "references")
    return Draft(
        wire="doubao.app.ui-capture",
        text=text_at(document.root, "answer_body"),
        finish_reason=optional_text_at(document.root, "status"),
        citations=tuple(source(row, site="source") for row in rows),
        search_queries=tuple(_quoted_queries(text_at(document.root, "thinking"))),
    )


def _quoted_queries(thinking: str) -> list[str]:
    """The keywords the app shows in quotes behind a bold label, on the label's line."""
    lines = [found.group(1) for found in _LABEL.finditer(thinking)]
    quoted = [match.groups("") for line in lines for match in _QUOTED.finditer(line)]
    return [clean("".join(groups)) for groups in quoted]


def _is_perplexity(document: Document) -> bool:
    return bool(_scraped(document.root))


def _scraped(root: Node) -> Node:
    contents = [node_at(result, "content") for result in nodes_at(root, "results")]
    return next((content for content in contents if "answer_results_md" in content), {})


def _read_perplexity(document: Document) -> Draft:
    content = _scraped(document.root)
    listed = nodes_at(content, "additional_results", "sources_results")
    return Draft(
        wire="perplexity.ui-scrape",
        text=text_at(content, "answer_results_md"),
        citations=sources(listed or nodes_at(content, "top_sources")),
        model=optional_text_at(content, "model"),
    )


def _is_chatgpt(document: Document) -> bool:
    return isinstance(document.root.get("page_text"), str)


def _read_chatgpt(document: Document) -> Draft:
    anchors = nodes_at(document.root, "dom_links", "anchors")
    return Draft(
        wire="chatgpt.ui-capture",
        text=text_at(document.root, "page_text"),
        citations=sources(anchors, url="h", title="t"),
        finish_reason=optional_text_at(document.root, "status"),
        model=optional_text_at(document.root, "model"),
    )


def _is_record(document: Document) -> bool:
    root = document.root
    spoken = any(isinstance(root.get(key), str) for key in _ANSWER_KEYS)
    return spoken and any(key in root for key in _QUESTION_KEYS)


def _read_record(document: Document) -> Draft:
    root = document.root
    text, written = _written(next((said for key in _ANSWER_KEYS if (said := text_at(root, key))), ""))
    return Draft(
        wire="plain-answer-record",
        text=text,
        citations=_record_sources(root) or written,
        model=optional_text_at(root, "model"),
        finish_reason=last_text(document.events, "finish_reason") or optional_text_at(root, "status"),
        request_id=optional_text_at(root, "request_id"),
    )


def _written(answer: str) -> tuple[str, tuple[Source, ...]]:
    """The answer and the links in it, also where the record keeps the answer's HTML."""
    if not is_markup(answer):
        return answer, written_sources(answer)
    page = read_page(clean(answer))
    return page.text, tuple(page.links)


def _record_sources(root: Node) -> tuple[Source, ...]:
    for key in ("citations", "sources", "references"):
        found = sources(nodes_at(root, key)) or plain_sources(strings_at(root, key))
        if found:
            return found
    return ()


DOUBAO = Reader("doubao.app.ui-capture", _is_doubao, _read_doubao)
PERPLEXITY = Reader("perplexity.ui-scrape", _is_perplexity, _read_perplexity)
CHATGPT = Reader("chatgpt.ui-capture", _is_chatgpt, _read_chatgpt)
RECORD = Reader("plain-answer-record", _is_record, _read_record)
