"""How far a parse can be trusted, and which answers people should look at (3-results §3.3)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from domain.parsing.mentions import Mention
from domain.parsing.notices import notice_in

_GARBLED_SHARE: Final = 0.01
_PAGE: Final = re.compile(r"\s*(?:<!doctype html|<html[\s>])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Quality:
    """Confidence from 0 to 1; a reason makes the answer a badcase."""

    confidence: float
    badcase_reason: str | None


_GOOD: Final = Quality(1.0, None)


def is_page(text: str) -> bool:
    """Whether a web page (a challenge, a log-in wall) was captured instead of an answer."""
    return _PAGE.match(text) is not None


def judge(text: str, mentions: Sequence[Mention], *, links_given: int, citations: int) -> Quality:
    """The gravest doubt about an answer's parse, or full confidence (3-results §3.3)."""
    return _unusable(text) or _doubtful(mentions, links_given, citations) or _GOOD


def _unusable(text: str) -> Quality | None:
    words = text.strip()
    if not words:
        return Quality(0.0, "empty_answer")
    if is_page(words):
        return Quality(0.1, "html_page")
    if notice_in(words):
        return Quality(0.2, "refusal_or_error")
    if text.count("\ufffd") > _GARBLED_SHARE * len(text):
        return Quality(0.3, "garbled_text")
    return None


def _doubtful(mentions: Sequence[Mention], links_given: int, citations: int) -> Quality | None:
    brand = [each for each in mentions if each.role == "brand"]
    if any(each.offsets and each.absent_offsets for each in brand):
        return Quality(0.5, "absence_conflict")
    if brand and all(each.ambiguous for each in brand):
        return Quality(0.6, "ambiguous_name")
    if links_given and not citations:
        return Quality(0.6, "citations_unusable")
    return None
