"""Where an answer repeats the question: those names are the asker's (3-results §3.3).

The comparison knows letters and digits only, so that emphasis, spaces and punctuation do not matter.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from domain.parsing.folding import FoldedText, fold, is_unspaced
from domain.parsing.lines import line_matches

Span = tuple[int, int]

# Shorter than this, a question is a search phrase that an answer may use in earnest.
_SENTENCE_WEIGHT: Final = 24
_MAX_ECHO: Final = 2_000
# A heading that repeats this share of the question, in its order, is the question.
_HEADING_SHARE: Final = 0.75
_NO_WORDS: Final = re.compile(r"[\W_]+")
_ASCII_MARKS: Final = {point: None for point in range(128) if not chr(point).isalnum()}
_WORD: Final = re.compile(r"[^\W_]+")
_QUOTES: Final = frozenset("\"'“”‘’「」『』《》【】()[]*_#>`|\n")
_FIRST_LINE: Final = re.compile(r"\s*+([^\n]++)")
# What follows up to a question mark or the line's end was asked.
_LABEL: Final = re.compile(
    r"^[ \t>#*_]*+(?:(?:you asked|your question(?: (?:is|was))?|(?:the )?(?:user'?s?|original) question"
    r"|(?:[你您](?:刚才|之前)?(?:的问题|问的?|提问)|用户(?:的)?(?:问题|提问)|原问题)(?:是|为)?)[*_]*[ \t]*[:：]"
    r"|(?<![\s\S])(?:question|q|prompt|query|问题?|提问)[*_]*[ \t]*[:：])[*_ \t]*+"
    r"(?:\"[^\"\n]{1,300}+\"|[“「『][^”」』\n]{1,300}+[”」』]|[^?？\n]*+[?？]?)",
    re.MULTILINE | re.IGNORECASE,
)
_LABEL_WORDS: Final = ("asked", "question", "prompt", "query", "问")
_OPENING: Final = '"“「『'
_QUOTED: Final = re.compile(
    r"(?:you asked|your question|the question"
    r"|[你您](?:刚才|之前|想|所)?(?:的问题|问的?|提问|提到的问题)(?:是|道|了|为)?)"
    r"[,:，： ]{0,3}(?:\"[^\"\n]{1,300}\"|[“「『][^”」』\n]{1,300}[”」』])",
    re.IGNORECASE,
)


def echo_spans(text: str, folded: FoldedText, question: str | None) -> Iterator[Span]:
    """Spans of ``text`` in which the question is repeated, whole or as what "you asked"."""
    if any(word in folded.folded for word in _LABEL_WORDS) or folded.folded.startswith("q"):
        yield from (match.span() for match in line_matches(_LABEL, text))
        if any(quote in text for quote in _OPENING):
            yield from (match.span() for match in _QUOTED.finditer(text))
    asked = _squeezed(question) if question else ""
    if asked and question:
        yield from _headings(text, asked)
        if _repeats(folded.folded, question, asked):
            yield from _repetitions(folded, asked)


def _repeats(folded: str, question: str, asked: str) -> bool:
    if folded.isascii() and asked not in folded.translate(_ASCII_MARKS):
        return False
    shown = "".join(folded.replace("*", "").split())
    return _longest_word(question) in shown and asked in _NO_WORDS.sub("", shown)


@lru_cache(maxsize=1024)
def _squeezed(text: str) -> str:
    return _NO_WORDS.sub("", fold(text[:_MAX_ECHO]))


@lru_cache(maxsize=1024)
def _longest_word(question: str) -> str:
    return max(_WORD.findall(fold(question[:_MAX_ECHO])), key=len, default="")


def _repetitions(folded: FoldedText, asked: str) -> Iterator[Span]:
    """The question in full; a short one only where it stands alone."""
    words = _NO_WORDS.sub("", folded.folded)
    at = words.find(asked)
    places = [place for word in _WORD.finditer(folded.folded) for place in range(*word.span())]
    is_sentence = _weight(asked) >= _SENTENCE_WEIGHT
    while at >= 0:
        start, end = places[at], places[at + len(asked) - 1] + 1
        if is_sentence or _stands_alone(folded.folded, start, end):
            yield folded.starts[start], folded.ends[end - 1]
        at = words.find(asked, at + len(asked))


def _headings(text: str, asked: str) -> Iterator[Span]:
    """The first line where it is most of the question: "# Acme or Foo" of "What is better, Acme or Foo?"."""
    line = _FIRST_LINE.match(text)
    if line is None or len(line[1]) > 2 * _MAX_ECHO:
        return
    words = _squeezed(line[1])
    if len(words) >= _HEADING_SHARE * len(asked) and words in asked and _weight(words) < _weight(asked):
        yield line.span(1)


def _weight(text: str) -> int:
    return sum(2 if is_unspaced(character) else 1 for character in text)


def _stands_alone(folded: str, start: int, end: int) -> bool:
    """Followed by a question mark, or set off on both sides: quoted, or a line of its own."""
    before = folded[max(0, start - 3) : start].rstrip(" ")[-1:]
    after = folded[end : end + 3].lstrip(" ")[:1]
    return after == "?" or (_sets_off(before) and _sets_off(after))


def _sets_off(neighbour: str) -> bool:
    return neighbour == "" or neighbour in _QUOTES
