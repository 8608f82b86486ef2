"""Readers of every answer format giveway meets (3-results §3.3 and §3.6). Pure: bytes in, an `Answer` out."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from domain.answers.document import Document, Framing, parse_document
from domain.answers.draft import Draft, conclude
from domain.answers.faults import first_fault
from domain.answers.links import written_sources
from domain.answers.model import Answer, AnswerKind, Source, finish_of
from domain.answers.platforms import platform_of
from domain.answers.readers import REMAINDERS, WIRES, Reader, reader_of
from domain.answers.unwrapping import unwrapped

__all__ = [
    "Answer",
    "AnswerKind",
    "Source",
    "finish_of",
    "platform_of",
    "read_answer",
    "written_sources",
]


def read_answer(body: bytes, *, platform: str | None = None) -> Answer:
    """Read a response body of unknown format. Never raises on odd content: that is kind ERROR with a reason.

    The format is found by content alone; `platform` only names the platform in the reasons. The caller bounds the
    size (1 MB), which bounds the work.
    """
    document = parse_document(body)
    answer = _read(document)
    if answer.error is None or platform is None:
        return answer
    return replace(answer, error=f"{platform}: {answer.error}")


def _read(document: Document) -> Answer:
    if document.fault is not None:
        return Answer("unreadable", AnswerKind.ERROR, error=document.fault)
    if document.framing is Framing.TEXT and not document.text.strip():
        return Answer("empty", AnswerKind.EMPTY, error="the body is empty")
    for reader, found in _matches(document):
        return conclude(_with_fault(reader.read(found), found), found)
    return Answer("unknown", AnswerKind.ERROR, error="no known answer format")


def _matches(document: Document) -> Iterator[tuple[Reader, Document]]:
    """Readers for the body, else for one inside it; errors, records and pages only where no wire format is found."""
    for readers in (WIRES, REMAINDERS):
        for found in chain([document], unwrapped(document)):
            if (reader := reader_of(found, readers)) is not None:
                yield reader, found


def _with_fault(draft: Draft, document: Document) -> Draft:
    """Any reader's stream may carry an error event, and any answer an error beside it."""
    fault = None if draft.fault else first_fault(document.events)
    return replace(draft, fault=fault) if fault else draft
