"""Sentences that say nothing is known of a name (3-results §3.3).

They are matched on a template: the sentence in folded text with each name written as one
placeholder character, and with quotes and emphasis left out.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from domain.parsing import denials_chinese, denials_english
from domain.parsing.denials import NAME, Denials

Span = tuple[int, int]

_DECORATION: Final = re.compile(r'[*_"“”「」『』《》`]+')
_SENTENCE_END: Final = re.compile(r"[!?;。;\n.](?:(?<!\.)|(?=\s|$))")
_LANGUAGES: Final = (
    (denials_english.NEGATION, denials_english.ENGLISH),
    (denials_chinese.NEGATION, denials_chinese.CHINESE),
)
_TRADITIONAL: Final = re.compile("[沒無關於資]")
_SIMPLIFIED: Final = str.maketrans(
    "沒無關於資訊內結識庫範圍過聽說對認確實數據記錄報導詳細檢尋詢網產業個這還並們裡為稱與證獲發見暫顯夠應請問從開來現華簡介紹難缺",
    "没无关于资讯内结识库范围过听说对认确实数据记录报导详细检寻询网产业个这还并们里为称与证获发见暂显够应请问从开来现华简介绍难缺",
)
_HEDGE: Final = re.compile(
    r"\b(?:if|please|could you|can you|perhaps|maybe|might|may|whether|unless|possibly|assuming)\b"
    r"|如果|若|假如|倘若|可能|也许|或许|请|建议|能否|是否|无论|假设"
)


def absent_names(folded: str, keys: Sequence[str], spans: Sequence[Span]) -> set[int]:
    """Indexes of the name ``spans`` that a sentence denies knowledge of (3-results §3.3).

    ``spans`` are in order and do not overlap; ``keys`` say whose name each is. Once a name is
    denied, guesses about it ("if Acme is new, it may …") count as little as the denial.
    """
    negations = [(_outside(spans, negation.finditer(folded)), denials) for negation, denials in _LANGUAGES]
    if not spans or not any(places for places, _ in negations):
        return set()
    sentences = tuple(_sentences(folded, spans))
    absent: set[int] = set()
    for text, first, last in sentences:
        speaking = [denials for places, denials in negations if _holds(places, text)]
        if speaking:
            absent.update(_denied(_template(folded, text, spans[first:last]), first, chain(*speaking)))
    denied = {keys[i] for i in absent}
    for text, first, last in sentences if denied else ():
        if _HEDGE.search(folded, *text):
            absent.update(i for i in range(first, last) if keys[i] in denied)
    return absent


def _outside(spans: Sequence[Span], found: Iterable[re.Match[str]]) -> list[int]:
    """Where the negations stand that are no part of a name: "Notion" denies nothing."""
    starts = [start for start, _ in spans]
    places = [match.start() for match in found]
    return [at for at in places if not (i := bisect_right(starts, at)) or at >= spans[i - 1][1]]


def _holds(places: Sequence[int], sentence: Span) -> bool:
    at = bisect_left(places, sentence[0])
    return at < len(places) and places[at] < sentence[1]


def _sentences(folded: str, spans: Sequence[Span]) -> Iterator[tuple[Span, int, int]]:
    """Sentences that hold names, each with the range of its names in ``spans``."""
    start, first = 0, 0
    for end in _sentence_ends(folded):
        last = first
        while last < len(spans) and spans[last][0] < end:
            last += 1
        if last > first:
            yield (start, end), first, last
        start, first = end, last


def _sentence_ends(folded: str) -> Iterator[int]:
    for match in _SENTENCE_END.finditer(folded):
        yield match.end()
    yield len(folded)


def _template(folded: str, sentence: Span, names: Sequence[Span]) -> str:
    parts: list[str] = []
    at = sentence[0]
    for start, end in names:
        parts.append(folded[at:start].replace(NAME, " "))
        parts.append(NAME)
        at = end
    parts.append(folded[at : sentence[1]].replace(NAME, " "))
    words = _DECORATION.sub("", "".join(parts))
    if _TRADITIONAL.search(words):
        words = words.translate(_SIMPLIFIED)
    return words.replace(f"'{NAME}'", NAME)


def _denied(template: str, first: int, speaking: Iterable[Denials]) -> Iterator[int]:
    for denials in speaking:
        for spans in denials.spans(template):
            yield from _names_within(template, spans, first)


def _names_within(template: str, spans: Iterable[Span], first: int) -> Iterator[int]:
    """Indexes of the names in ordered ``spans`` of a template whose first name has index ``first``."""
    index, at = first, 0
    for start, end in spans:
        index += template.count(NAME, at, start)
        within = template.count(NAME, start, end)
        yield from range(index, index + within)
        index, at = index + within, end
