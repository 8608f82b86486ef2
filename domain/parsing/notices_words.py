"""Reads a short message as the parts its words play, and finds the words that no notice has (3-results §3.1)."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final

from domain.parsing import notices_chinese, notices_english
from domain.parsing.notices_parts import Part

_CJK: Final = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_UNIT: Final = re.compile(rf"[{_CJK}]|[^\W\d_{_CJK}]+|\d+|[$€£¥￥]")
_SHORT_FORMS: Final = (
    (re.compile(r"(?<=[Cc]a)n't\b"), "n not"),
    (re.compile(r"\b([Ww])on't\b"), r"\1ill not"),
    (re.compile(r"n't\b"), " not"),
    (re.compile(r"'(?:m|re|ve|ll|d|s)\b"), ""),
)
_SUFFIXES: Final = (
    ("s", ""),
    ("es", ""),
    ("d", ""),
    ("ed", ""),
    ("ing", ""),
    ("ing", "e"),
    ("ies", "y"),
    ("ied", "y"),
)
_DOUBLED: Final = re.compile(r"([bgmnprt])\1(?:ed|ing)$")
_EAST: Final = "\u3040"
_YEAR: Final = re.compile(r"(?:19|20)\d\d")

Units = tuple[str, ...]
"""Words of Latin script, single characters of East Asian ones, and numbers."""


Words = Mapping[Units, frozenset[Part]]


def _lexicon() -> Words:
    """Every listed word with its parts; a phrase of several Latin words also plays the parts of each."""
    words: dict[Units, frozenset[Part]] = {}
    for units, part in chain(_listed(notices_english.WORDS), _listed(notices_chinese.WORDS)):
        words[units] = words.get(units, frozenset()) | {part}
    return {units: parts | (_parts_of_each(units, words) - {Part.TELLING}) for units, parts in words.items()}


def _listed(table: Mapping[Part, str]) -> Iterator[tuple[Units, Part]]:
    return ((tuple(_UNIT.findall(word)), part) for part, listed in table.items() for word in listed.split(","))


def _parts_of_each(units: Units, words: Words) -> frozenset[Part]:
    return frozenset().union(*(_parts_of(unit, words) for unit in units if not _is_han(unit)))


def _parts_of(unit: str, words: Words) -> frozenset[Part]:
    """A single word, as it stands and without its ending; a year is of the world, other numbers are not."""
    if unit.isdigit():
        return frozenset({Part.TELLING if _YEAR.fullmatch(unit) else Part.NEUTRAL})
    stems = (unit[: -len(suffix)] + end for suffix, end in _SUFFIXES if unit[2:].endswith(suffix))
    forms = (unit, *stems, _DOUBLED.sub(r"\1", unit))
    return frozenset().union(*(words.get((form,), frozenset()) for form in forms))


def _is_han(unit: str) -> bool:
    return unit >= _EAST


_LEXICON: Final = _lexicon()


def _reach() -> dict[str, int]:
    longest: dict[str, int] = {}
    for units in _LEXICON:
        longest[units[0]] = max(len(units), longest.get(units[0], 1))
    return longest


_REACH: Final = _reach()
"""How many units the longest word that begins with a unit has."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A sentence as its parts. `size`: how many units; `strange`: those that no notice has; `names`: the capital ones
    of them inside the sentence; `opener`: its first word is a strange capital one."""

    parts: frozenset[Part]
    products: frozenset[Units]
    size: int
    strange: int
    names: int
    opener: bool
    han: bool


def read(sentence: str) -> Reading:
    """The longest known words from left to right; linear in the sentence."""
    cased = tuple(_UNIT.findall(_plain(sentence)))
    found = list(_words(cased))
    unknown = [word[0] for word, parts in found if not parts]
    opener = bool(unknown) and unknown[0] == cased[0] and _is_capital(unknown[0])
    names = sum(map(_is_capital, unknown)) - opener
    return Reading(
        parts=frozenset().union(*(parts for _, parts in found)),
        products=frozenset(word for word, parts in found if Part.PRODUCT in parts),
        size=len(cased),
        strange=len(unknown) - names,
        names=names,
        opener=opener,
        han=any(map(_is_han, cased)),
    )


def _is_capital(word: str) -> bool:
    return not word[0].islower() and not _is_han(word)


def _plain(sentence: str) -> str:
    plain = sentence.translate(notices_chinese.SIMPLIFIED)
    for short, full in _SHORT_FORMS:
        plain = short.sub(full, plain)
    return plain


def _words(cased: Units) -> Iterator[tuple[Units, frozenset[Part]]]:
    units = tuple(unit.casefold() for unit in cased)
    at = 0
    while at < len(units):
        size, parts = _longest(units, at)
        yield (units if parts else cased)[at : at + size], parts
        at += size


def _longest(units: Units, at: int) -> tuple[int, frozenset[Part]]:
    for size in range(min(_REACH.get(units[at], 1), len(units) - at), 1, -1):
        if parts := _LEXICON.get(units[at : at + size]):
            return size, parts
    return 1, _parts_of(units[at], _LEXICON)
