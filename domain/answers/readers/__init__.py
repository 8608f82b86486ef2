"""The registry of wire formats, most specific first: the first reader that matches reads."""

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.faults import first_fault
from domain.answers.readers import (
    anthropic,
    captures,
    chat,
    dashscope,
    documents,
    google,
    openai_responses,
    pages,
    search,
    xai,
)
from domain.answers.readers.base import Reader


def _is_fault(document: Document) -> bool:
    return first_fault(document.events) is not None


def _read_fault(document: Document) -> Draft:
    return Draft("error", fault=first_fault(document.events))


READERS: tuple[Reader, ...] = (
    captures.DOUBAO,
    captures.PERPLEXITY,
    captures.CHATGPT,
    dashscope.RESEARCH,
    dashscope.GENERATION,
    documents.CONVERSE,
    openai_responses.READER,
    google.INTERACTIONS,
    google.CONTENT,
    anthropic.READER,
    documents.COHERE,
    xai.READER,
    chat.READER,
    search.ERNIE,
    search.WEB_SEARCH,
    Reader("error", _is_fault, _read_fault),
    captures.RECORD,
    pages.HTML,
    pages.TEXT,
)

__all__ = ["READERS", "Reader"]
