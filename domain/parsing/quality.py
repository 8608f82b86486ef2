"""How far a parse can be trusted, and which answers people should look at (3-results §3.3)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from domain.parsing.mentions import Mention

_MAX_REFUSAL: Final = 400
_GARBLED_SHARE: Final = 0.01
_PAGE: Final = re.compile(r"\s*(?:<!doctype html|<html[\s>])", re.IGNORECASE)
_REFUSAL: Final = re.compile(
    r"\b(?:i can(?:'|’)?(?:no)?t (?:help|assist|answer|discuss)"
    r"|i(?:'|’)?m (?:sorry|unable)|as an ai"
    r"|something went wrong|network error|too many requests|rate limit|verify you are human"
    r"|try again later|log in to continue)"
    r"|(?:无法|不能|没法)(?:回答|提供|讨论|处理)(?:该|这|此|相关|您|你)|换个话题|服务器?繁忙|系统繁忙"
    r"|网络(?:错误|异常)|请稍后(?:再试|重试)|请(?:先)?登录|人机验证|回答已停止|内容生成失败",
    re.IGNORECASE,
)


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
    return _unusable(text, mentions) or _doubtful(mentions, links_given, citations) or _GOOD


def _unusable(text: str, mentions: Sequence[Mention]) -> Quality | None:
    words = text.strip()
    if not words:
        return Quality(0.0, "empty_answer")
    if is_page(words):
        return Quality(0.1, "html_page")
    is_brief = len(words) <= _MAX_REFUSAL and not any(each.offsets for each in mentions)
    denies = any(each.absent_offsets for each in mentions)
    if is_brief and not denies and _REFUSAL.search(words):
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
