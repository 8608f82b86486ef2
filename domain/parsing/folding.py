"""Text without case and width that still knows its original offsets (3-results §3.3)."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

# Characters that NFKC and case folding change one for one, and that compose with nothing before
# them: ASCII, Latin-1 letters, punctuation, arrows, symbols, kana, Han, Hangul, full-width ASCII, emoji.
_SIMPLE: Final = (
    "\t\n\r -~\u00a0-\u00a7\u00ab\u00ac\u00b0\u00b1\u00b6\u00b7\u00bb\u00bf-\u00de\u00e0-\u00ff"
    "\u2000-\u200a\u2010-\u2016\u2018-\u2022\u2030\u203b\u20ac\u2190-\u21ff\u2500-\u27bf"
    "\u3000-\u3020\u3041-\u3096\u30a1-\u30fe\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff5e"
    "\U0001f300-\U0001f64f\U0001f680-\U0001f6ff\U0001f900-\U0001faff"
)
_RUNS: Final = re.compile(f"[{_SIMPLE}]+(?=[{_SIMPLE}]|\\Z)|[{_SIMPLE}]?[^{_SIMPLE}]+")
_SIMPLE_RUN: Final = re.compile(f"[{_SIMPLE}]*")
# What keyboards and models write for one another: hyphens, apostrophes, middle dots.
_LOOKALIKES: Final = {
    **dict.fromkeys("\u2010\u2011\u2013\u2043\u2212", "-"),
    **dict.fromkeys("\u2018\u2019\u02bc\u2032", "'"),
    **dict.fromkeys("\u2022\u2027\u2219\u22c5\u30fb", "\u00b7"),
}
_LOOKALIKE_TABLE: Final = str.maketrans(_LOOKALIKES)
# Replaced one by one before normalising: of text that then needs no change NFKC makes short work.
_FREQUENT: Final = (
    *((wide, unicodedata.normalize("NFKC", wide)) for wide in "\uff0c\uff1a\uff08\uff09\uff1b\uff01\uff1f\u3000\u00a0"),
    *((odd, plain) for odd, plain in _LOOKALIKES.items() if odd in "\u2010\u2011\u2013\u2018\u2019\u2022\u30fb"),
)
_INVISIBLE: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e"
    "\u2060-\u2064\u2066-\u206f\ufe00-\ufe0f\ufeff]+"
)
# Trademark signs, some of which NFKC would turn into letters ("Acme™" into "Acmetm").
_SIGNS: Final = re.compile(
    "[\u2122\u2120\u00a9\u00ae\u2117\U0001f16a-\U0001f16c][\u2122\u2120\u00a9\u00ae\u2117\U0001f16a-\U0001f16c"
    "\u200b-\u200f\u2060\ufe00-\ufe0f\ufeff]*"
    "|\u1d40\u1d39|\u02e2\u1d39"
)
HIDDEN: Final = "\u200b"
"""An invisible character: in its place folding sees nothing."""
# Unicode's stream-safe limit: longer runs of combining marks make normalisation quadratic.
_MAX_CLUSTER: Final = 30

# Scripts written without spaces, whose letters are no word boundary trouble for a neighbour.
_UNSPACED: Final = (
    (0x0E00, 0x0EFF),
    (0x1000, 0x109F),
    (0x1100, 0x11FF),
    (0x1780, 0x17FF),
    (0x2E80, 0xA4CF),
    (0xA960, 0xA97F),
    (0xAC00, 0xD7FF),
    (0xF900, 0xFAFF),
    (0xFF66, 0xFFDC),
    (0x1B000, 0x1B16F),
    (0x20000, 0x3FFFF),
)


@dataclass(frozen=True, slots=True)
class FoldedText:
    """Folded text; character ``i`` came from ``original[starts[i]:ends[i]]`` (code points)."""

    folded: str
    starts: Sequence[int]
    ends: Sequence[int]

    def original_span(self, start: int, end: int) -> tuple[int, int] | None:
        """The original span of folded ``[start, end)``; None where it would cut a character."""
        cuts_head = start > 0 and self.starts[start] < self.ends[start - 1]
        cuts_tail = end < len(self.folded) and self.starts[end] < self.ends[end - 1]
        if cuts_head or cuts_tail:
            return None
        return self.starts[start], self.ends[end - 1]


def fold(text: str) -> str:
    """NFKC and case folding without invisible characters and trademark signs (3-results §3.3)."""
    return fold_with_offsets(text).folded


def fold_with_offsets(text: str) -> FoldedText:
    """Fold ``text`` in linear time and keep each character's origin (3-results §3.3)."""
    if text.isascii():
        return FoldedText(text.lower(), range(len(text)), range(1, len(text) + 1))
    if _SIMPLE_RUN.fullmatch(text):
        return FoldedText(_fold_simple(text), range(len(text)), range(1, len(text) + 1))
    builder = _Builder()
    text = _SIGNS.sub(_hide, text)
    for run in _RUNS.finditer(text):
        if _SIMPLE_RUN.fullmatch(run.group()):
            builder.add_simple(run.group(), run.start())
        else:
            builder.add_clusters(run.group(), run.start())
    return FoldedText("".join(builder.parts), builder.starts, builder.ends)


def without_signs(text: str) -> str:
    """``text`` as it is written, but for trademark signs."""
    return _SIGNS.sub("", text)


def _hide(signs: re.Match[str]) -> str:
    """Invisible characters in place of ``signs``; between two words they part, as a space does."""
    start, end = signs.span()
    neighbours = signs.string[max(0, start - 1) : start], signs.string[end : end + 1]
    parts = all(neighbour and is_word(neighbour) for neighbour in neighbours)
    return (" " if parts else HIDDEN) + HIDDEN * (end - start - 1)


@lru_cache(maxsize=8192)
def is_word(character: str) -> bool:
    """A letter, mark or digit of a script that puts spaces between words; ``②`` and ``²`` part words."""
    category = unicodedata.category(character)
    return not is_unspaced(character) and category[0] in "LMN" and category != "No"


@lru_cache(maxsize=8192)
def is_unspaced(character: str) -> bool:
    """A character of Chinese, Japanese, Korean, Thai and the like, where words run together."""
    point = ord(character)
    return any(low <= point <= high for low, high in _UNSPACED)


class _Builder:
    __slots__ = ("ends", "parts", "starts")

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.starts: list[int] = []
        self.ends: list[int] = []

    def add_simple(self, run: str, base: int) -> None:
        self.parts.append(_fold_simple(run))
        self.starts.extend(range(base, base + len(run)))
        self.ends.extend(range(base + 1, base + len(run) + 1))

    def add_clusters(self, run: str, base: int) -> None:
        for start, end in _clusters(run):
            folded = _fold_cluster(run[start:end])
            self.parts.append(folded)
            self.starts.extend([base + start] * len(folded))
            self.ends.extend([base + end] * len(folded))


def _fold_simple(run: str) -> str:
    for frequent, plain in _FREQUENT:
        run = run.replace(frequent, plain)
    return unicodedata.normalize("NFKC", run).casefold()


def _clusters(run: str) -> Iterator[tuple[int, int]]:
    start = 0
    for i in range(1, len(run) + 1):
        if i == len(run) or not _continues(run[i]) or i - start >= _MAX_CLUSTER:
            yield start, i
            start = i


@lru_cache(maxsize=8192)
def _continues(character: str) -> bool:
    point = ord(character)
    hangul_tail = 0x1160 <= point <= 0x11FF
    half_width_voicing = point in (0xFF9E, 0xFF9F)
    return unicodedata.combining(character) != 0 or hangul_tail or half_width_voicing


@lru_cache(maxsize=8192)
def _fold_cluster(cluster: str) -> str:
    visible = _INVISIBLE.sub("", cluster)
    if visible and unicodedata.category(visible[0]) == "No":  # "②Acme" is no "2acme"
        return visible
    folded = unicodedata.normalize("NFKC", visible).casefold()
    return unicodedata.normalize("NFKC", folded).translate(_LOOKALIKE_TABLE)
