"""What a person says of a doubtful answer, and the figures that follow from it (3-results §3.1, §3.3)."""

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from domain.errors import InvalidInput, UnknownName
from domain.parsing.names import BrandName

NO_ANSWER: Final = "labelled_no_answer"
"""The failure kind of a run that a person found to hold no answer."""


@dataclass(frozen=True, slots=True)
class LabelledMention:
    """A name that counts `count` times, from 1; `position` is its place among the names, from 1.

    `first_offset`: code points of the answer's text before its first mention; None when nobody looked.
    """

    name: str
    count: int
    position: int
    first_offset: int | None = None


@dataclass(frozen=True, slots=True)
class Label:
    """A person's word on one answer. `absence`: it says that it knows nothing of the brand."""

    is_answer: bool
    mentions: tuple[LabelledMention, ...] = ()
    absence: bool = False
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """What the label makes of a run, as the extractor would have; mentions in the order of their place.

    `share_of_voice`: the brand's part of all mentions, from 0 to 1; None without any.
    """

    brand_mention_count: int
    brand_position: int | None
    absence: bool
    share_of_voice: float | None
    competitor_mention_count: int
    mentions: tuple[tuple[BrandName, LabelledMention], ...]

    @property
    def brand_mentioned(self) -> bool:
        return self.brand_mention_count > 0


def figures_of(label: Label, names: Sequence[BrandName]) -> Figures:
    """The label's figures for a brand and its competitors, each named by its name or an alias.

    UnknownName for any other; InvalidInput for one named twice, and for mentions in what is no answer.
    """
    if not label.is_answer and (label.mentions or label.absence):
        raise InvalidInput("what is no answer says nothing of any name: leave mentions and absence out")
    mentions = _resolved(label.mentions, names)
    counts = Counter[str]()
    for owner, mention in mentions:
        counts[owner.role] += mention.count
    places = [mention.position for owner, mention in mentions if owner.role == "brand"]
    return Figures(
        brand_mention_count=counts["brand"],
        brand_position=min(places, default=None),
        absence=label.absence,
        share_of_voice=counts["brand"] / counts.total() if mentions else None,
        competitor_mention_count=counts["competitor"],
        mentions=mentions,
    )


def _resolved(
    mentions: Sequence[LabelledMention], names: Sequence[BrandName]
) -> tuple[tuple[BrandName, LabelledMention], ...]:
    known = _by_spelling(names)
    found: dict[str, tuple[BrandName, LabelledMention]] = {}
    for mention in mentions:
        owner = known.get(_folded(mention.name))
        if owner is None:
            listed = [name.name for name in names]
            raise UnknownName(
                f"no brand or competitor is called {mention.name!r}; known: {', '.join(listed)}", known=listed
            )
        if owner.key in found:
            raise InvalidInput(f"{owner.name!r} is named twice")
        found[owner.key] = owner, mention
    return tuple(sorted(found.values(), key=lambda each: each[1].position))


def _by_spelling(names: Sequence[BrandName]) -> Mapping[str, BrandName]:
    """Whose a spelling is: as in the extractor the brand's, where two share it, else the first one's; names first."""
    ordered = sorted(names, key=lambda name: name.role != "brand")
    spelled = [(name.name, name) for name in ordered]
    spelled += [(alias, name) for name in ordered for alias in name.aliases]
    spellings: dict[str, BrandName] = {}
    for spelling, owner in spelled:
        spellings.setdefault(_folded(spelling), owner)
    return spellings


def _folded(spelling: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", spelling).casefold().split())


def check_offsets(label: Label, text: str) -> None:
    """InvalidInput for a mention beyond the end of the answer's text; a body without text says nothing about that."""
    for mention in label.mentions:
        if text and mention.first_offset is not None and mention.first_offset >= len(text):
            raise InvalidInput(
                f"{mention.name!r} cannot begin at {mention.first_offset}: the answer has {len(text)} characters"
            )
