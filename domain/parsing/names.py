"""The names looked for, and the automaton that finds them all in one pass (3-results §3.3)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final, Literal

from ahocorasick_rs import AhoCorasick, MatchKind

from domain.parsing.folding import fold, is_unspaced, without_signs

Role = Literal["brand", "competitor"]

# Up to this many Latin letters a folded name is a common word ("go", "it", "hp").
SHORT_NAME: Final = 2


@dataclass(frozen=True, slots=True)
class BrandName:
    """A brand or competitor to look for: ``key`` identifies it, ``aliases`` count as its name."""

    key: str
    role: Role
    name: str
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pattern:
    """One folded spelling, whose it is, and how it was written in the settings."""

    owner: BrandName
    folded: str
    written: frozenset[str]

    @property
    def is_short(self) -> bool:
        """Whether only the spelling's own case tells it from a common word."""
        return len(self.folded) <= SHORT_NAME and self.folded.isascii()


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Compiled names: automaton match ``i`` means ``patterns[i]``."""

    automaton: AhoCorasick
    patterns: tuple[Pattern, ...]

    def matches(self, folded: str) -> list[tuple[Pattern, int, int]]:
        """All matches in ``folded`` text, overlapping ones too: pattern, start and end."""
        return [(self.patterns[index], start, end) for index, start, end in self._find(folded)]

    def count(self, folded: str) -> int:
        """How many matches there are, overlapping ones too."""
        return len(self._find(folded))

    def _find(self, folded: str) -> list[tuple[int, int, int]]:
        return self.automaton.find_matches_as_indexes(_wraps_as_spaces(folded), overlapping=True)


@lru_cache(maxsize=256)
def lexicon(names: tuple[BrandName, ...]) -> Lexicon:
    """Compile ``names``; a spelling that two of them share is the brand's, else the first's."""
    owners: dict[str, BrandName] = {}
    written: dict[str, set[str]] = {}
    for name in sorted(names, key=lambda each: each.role != "brand"):
        for spelling in (name.name, *name.aliases):
            for folded in _variants(" ".join(fold(spelling).split())):
                owners.setdefault(folded, name)
                written.setdefault(folded, set()).add(without_signs(spelling).strip())
    patterns = tuple(Pattern(owner, folded, frozenset(written[folded])) for folded, owner in owners.items())
    automaton = AhoCorasick([each.folded for each in patterns], matchkind=MatchKind.Standard)
    return Lexicon(automaton, patterns)


def _variants(folded: str) -> Iterator[str]:
    """The spelling, with or without the space many put between Han and Latin, and around an ampersand."""
    if any(character.isalnum() for character in folded):
        yield folded
        tight = _SPACED_SEAM.sub("", folded)
        yield tight
        yield _seams_opened(tight)
        yield _AMPERSAND.sub("&", folded)
        yield _AMPERSAND.sub(" & ", folded)


# A name may wrap over one line end.
_LINE_ENDS: Final = "\n\t\r\v\f\x85\u2028\u2029"


def _wraps_as_spaces(folded: str) -> str:
    for line_end in _LINE_ENDS:
        folded = folded.replace(line_end, " ")
    return folded


_AMPERSAND: Final = re.compile(r"(?<=\w) ?& ?(?=\w)")
_SPACED_SEAM: Final = re.compile(r"(?<=[^\x00-\x7f]) (?=[a-z0-9])|(?<=[a-z0-9]) (?=[^\x00-\x7f])")


def _seams_opened(tight: str) -> str:
    pairs = pairwise(tight)
    gaps = (" " if _is_seam(left, right) else "" for left, right in pairs)
    return "".join(map("".join, zip(tight, (*gaps, ""), strict=True)))


def _is_seam(left: str, right: str) -> bool:
    mixed = is_unspaced(left) != is_unspaced(right)
    return mixed and left.isalnum() and right.isalnum()
