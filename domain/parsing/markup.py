"""Names that markup splits: ``**Ac**me``, ``AT&amp;T``, a name wrapped over two quoted lines (3-results §3.3)."""

import html
import re
from collections.abc import Iterator
from typing import Final

from domain.parsing.boundaries import stands_as_name
from domain.parsing.folding import HIDDEN, FoldedText, fold_with_offsets
from domain.parsing.names import Lexicon

_INLINE_TAG: Final = re.compile(r"</?(?:b|strong|i|em|u|mark|span|font|su[bp])\b[^<>]{0,200}>")
_MARKS: Final = re.compile(
    r"(?P<hidden>\*+|~~|\\(?=[!-/:-@\[-`{-~])|" + _INLINE_TAG.pattern + ")"
    r"|(?P<entity>&(?:amp|nbsp|apos|quot|middot|#39|#38|#160|#x27|#xa0);)"
    r"|(?P<line>[ \t\r]*\n[ \t>]*(?![\s>]))"
    r"|(?P<space>[ \t]{2,})",
    re.IGNORECASE,
)


def readable(text: str, folded: FoldedText, names: Lexicon, matches: int) -> FoldedText:
    """``folded`` without the marks inside names that only they split, of which it shows but ``matches``.

    Marks elsewhere stay, because they may part two words: ``**Acme**is``. Offsets are those of ``text``.
    """
    if names.count(_squeezed(folded.folded)) == matches:
        return folded
    joined = _joined(text, tuple(_split_names(text, names)))
    return folded if joined == text else fold_with_offsets(joined)


def _squeezed(folded: str) -> str:
    """A quick approximation of what the reader sees."""
    shown = folded.replace("*", "").replace("~~", "").replace("\\", "").replace("\n>", "\n")
    if "<" in shown:
        shown = _INLINE_TAG.sub("", shown)
    if "&" in shown:
        shown = html.unescape(shown)
    return " ".join(shown.split())


def _split_names(text: str, names: Lexicon) -> Iterator[tuple[int, int]]:
    """Original spans of the names in ``text`` without its marks, in order of their ends."""
    bare = fold_with_offsets(_MARKS.sub(_replacement, text))
    for pattern, start, end in names.matches(bare.folded):
        span = bare.original_span(start, end)
        if span is not None and stands_as_name(bare.folded, start, end, pattern, text[slice(*span)]):
            yield span


def _joined(text: str, spans: tuple[tuple[int, int], ...]) -> str:
    """``text`` with the marks within ``spans`` replaced, others left."""
    inside = bytearray(len(text))
    for start, end in spans:
        inside[start:end] = b"\x01" * (end - start)
    return _MARKS.sub(lambda mark: _replacement(mark) if inside[mark.start()] else mark.group(), text)


def _replacement(mark: re.Match[str]) -> str:
    """As many characters as the mark has, of which the reader sees none, or the one the mark stands for."""
    size = len(mark.group())
    if mark["hidden"]:
        return HIDDEN * size
    if mark["entity"]:
        return html.unescape(mark.group()) + HIDDEN * (size - 1)
    return ("\n" if mark["line"] else " ") + HIDDEN * (size - 1)
