"""Sentences that say nothing is known of a name (3-results §3.3).

They are matched on a template: the sentence in folded text with each name written as one
placeholder character, and with quotes and emphasis left out.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from domain.parsing.denials import NAME
from domain.parsing.denials_chinese import CHINESE
from domain.parsing.denials_english import ENGLISH

Span = tuple[int, int]

_DECORATION: Final = re.compile(r'[*_"“”「」『』《》`]+')
_SENTENCE_END: Final = re.compile(r"[!?;。;\n]|\.(?=\s|$)")
_DENIALS: Final = (*ENGLISH, *CHINESE)
_HINT: Final = re.compile(r"\bno\b|not|n't|\bun|never|none|neither|fail|without|lack|insuff|n/a|[没未无不缺查难]")
_HEDGE: Final = re.compile(
    r"\b(?:if|please|could you|can you|perhaps|maybe|might|may|whether|unless|possibly|assuming)\b"
    r"|如果|若|假如|倘若|可能|也许|或许|请|建议|能否|是否|无论|假设"
)


def absent_names(folded: str, keys: Sequence[str], spans: Sequence[Span]) -> set[int]:
    """Indexes of the name ``spans`` that a sentence denies knowledge of (3-results §3.3).

    ``spans`` are in order and do not overlap; ``keys`` say whose name each is. Once a name is
    denied, guesses about it ("if Acme is new, it may …") count as little as the denial.
    """
    sentences = tuple(_sentences(folded, spans))
    absent: set[int] = set()
    for text, first, last in sentences:
        absent.update(_denied(_template(folded, text, spans[first:last]), first))
    denied = {keys[i] for i in absent}
    for text, first, last in sentences if denied else ():
        if _HEDGE.search(folded, *text):
            absent.update(i for i in range(first, last) if keys[i] in denied)
    return absent


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
    words = _DECORATION.sub("", "".join(parts).replace("\u2019", "'"))
    return words.replace(f"'{NAME}'", NAME)


def _denied(template: str, first: int) -> Iterator[int]:
    if not _HINT.search(template):
        return
    for denials in _DENIALS:
        for phrase in denials.phrases:
            spans = [m.span() for m in phrase.finditer(template) if denials.speak_at(template, m.start())]
            yield from _names_within(template, spans, first)


def _names_within(template: str, spans: Sequence[Span], first: int) -> Iterator[int]:
    """Indexes of the names in ordered ``spans`` of a template whose first name has index ``first``."""
    index, at = first, 0
    for start, end in spans:
        index += template.count(NAME, at, start)
        within = template.count(NAME, start, end)
        yield from range(index, index + within)
        index, at = index + within, end
