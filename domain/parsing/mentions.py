"""Which names an answer mentions, how often, where, and in which place (3-results §3.3)."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple

from domain.parsing.absence import absent_names
from domain.parsing.boundaries import stands_as_name
from domain.parsing.folding import FoldedText, fold, fold_with_offsets
from domain.parsing.markup import readable
from domain.parsing.masking import Mask, Span
from domain.parsing.names import BrandName, Lexicon, Pattern, Role, lexicon
from domain.parsing.ordered_lists import Item, ordered_lists
from domain.parsing.segmentation import arises_from_words

Match = tuple[Pattern, int, int]

__all__ = ["BrandName", "Mention", "Role", "find_mentions"]


@dataclass(frozen=True, slots=True)
class Mention:
    """All mentions of one name.

    ``offsets`` are the code point spans in the original text that count; ``absent_offsets``
    those in statements that nothing is known of the name. ``position`` is the name's number in
    the answer's ranking list, or else its rank by first mention; None if nothing counts.
    ``ambiguous``: every counted spelling has at most two letters.
    """

    key: str
    role: Role
    name: str
    offsets: tuple[tuple[int, int], ...]
    absent_offsets: tuple[tuple[int, int], ...]
    position: int | None
    ambiguous: bool

    @property
    def count(self) -> int:
        """How many mentions count."""
        return len(self.offsets)

    @property
    def first_offset(self) -> int | None:
        """Where the first counted mention starts."""
        return self.offsets[0][0] if self.offsets else None


class _Hit(NamedTuple):
    pattern: Pattern
    folded: Span
    span: Span

    @property
    def owner(self) -> BrandName:
        return self.pattern.owner


@dataclass(slots=True)
class _Group:
    owner: BrandName
    counted: list[Span] = field(default_factory=list)
    denied: list[Span] = field(default_factory=list)
    ambiguous: bool = True

    def mention(self, position: int | None) -> Mention:
        return Mention(
            key=self.owner.key,
            role=self.owner.role,
            name=self.owner.name,
            offsets=tuple(self.counted),
            absent_offsets=tuple(self.denied),
            position=position,
            ambiguous=self.ambiguous and bool(self.counted),
        )


def find_mentions(text: str, names: Sequence[BrandName], *, question: str | None = None) -> tuple[Mention, ...]:
    """The names in ``text``, ordered by where they first occur (3-results §3.3).

    Case, width and invisible characters do not matter; of overlapping names the leftmost and
    then longest one counts. Letters may touch Han but not letters; URLs, code, markup and the
    repeated ``question`` hold no mentions. A name that is only denied has count 0.
    """
    known = lexicon(tuple(names))
    folded, found = _found(text, known)
    hits = _hits(text, folded, found, _echoable(question, known))
    absent = absent_names(folded.folded, [hit.owner.key for hit in hits], [hit.folded for hit in hits])
    groups = _grouped(hits, absent)
    positions = _positions(text, {key: group.counted for key, group in groups.items()})
    return tuple(group.mention(positions.get(key)) for key, group in groups.items())


def _grouped(hits: Sequence[_Hit], absent: AbstractSet[int]) -> dict[str, _Group]:
    groups: dict[str, _Group] = {}
    for i, hit in enumerate(hits):
        group = groups.setdefault(hit.owner.key, _Group(hit.owner))
        if i in absent:
            group.denied.append(hit.span)
        else:
            group.counted.append(hit.span)
            group.ambiguous &= hit.pattern.is_short
    return groups


def _found(text: str, known: Lexicon) -> tuple[FoldedText, list[Match]]:
    """The text as it is searched, and the matches in it, the longest of each start first."""
    folded = fold_with_offsets(text)
    matches = known.matches(folded.folded)
    shown = readable(text, folded, known, len(matches))
    if shown is not folded:
        matches = known.matches(shown.folded)
    return shown, sorted(matches, key=lambda match: (match[1], -match[2]))


def _hits(text: str, folded: FoldedText, found: Sequence[Match], question: str | None) -> list[_Hit]:
    """Matches that stand as names in the answer's own words, without overlaps, in order."""
    if not found:
        return []
    mask = Mask(text, folded, question)
    hits: list[_Hit] = []
    free_from = 0
    for pattern, start, end in found:
        span = folded.original_span(start, end) if start >= free_from else None
        if span is None or mask.covers(*span):
            continue
        if arises_from_words(folded.folded, start, end, free_from):
            continue
        if stands_as_name(folded.folded, start, end, pattern, text[slice(*span)]):
            hits.append(_Hit(pattern, (start, end), span))
            free_from = end
    return hits


def _echoable(question: str | None, known: Lexicon) -> str | None:
    """A question that is only a name would make every mention an echo."""
    only = fold(question or "").strip(" \n\t?!.。")
    return None if any(only == pattern.folded for pattern in known.patterns) else question


def _positions(text: str, counted: Mapping[str, Sequence[Span]]) -> dict[str, int]:
    """Rank by first mention; inside the ranking list, the number of the name's entry."""
    visible = [key for key, spans in counted.items() if spans]
    visible.sort(key=lambda key: counted[key][0])
    by_mention = {key: rank for rank, key in enumerate(visible, start=1)}
    return by_mention | _list_ranks(text, counted)


def _list_ranks(text: str, counted: Mapping[str, Sequence[Span]]) -> dict[str, int]:
    """Ranks in the list that names most of the names; the first of several such lists."""
    starts = sorted((span[0], key) for key, spans in counted.items() for span in spans)
    ranked = [_ranks(items, starts) for items in ordered_lists(text)] if starts else []
    return max(ranked, key=len, default={})


def _ranks(items: Sequence[Item], starts: Sequence[tuple[int, str]]) -> dict[str, int]:
    """The entry each name leads, or else the first one whose first line holds it."""
    led: dict[str, int] = {}
    held: dict[str, int] = {}
    for item in items:
        first = bisect_left(starts, (item.start, ""))
        last = bisect_left(starts, (item.end, ""))
        for i in range(first, last):
            (led if i == first else held).setdefault(starts[i][1], item.rank)
    return held | led
