"""Where an answer lists its sources: their titles are other people's words (3-results §3.3)."""

import re
from collections.abc import Iterator
from typing import Final

from domain.parsing.lines import line_matches

Span = tuple[int, int]

_TITLE: Final = (
    r"(?:sources?|references?|citations?|further reading|works cited"
    r"|参考(?:资料|文献|链接|来源|网址)|引用(?:来源|链接|资料|文献)?|(?:信息|资料|数据|内容)来源|来源(?:链接)?"
    r"|相关链接|出处|出典|参考)(?:列表)?"
)
_TITLE_WORDS: Final = (
    "source",
    "reference",
    "citation",
    "further",
    "cited",
    "参考",
    "引用",
    "来源",
    "链接",
    "出处",
    "出典",
)
_HEADING: Final = re.compile(
    rf"^[ \t>]*+(?:#{{1,6}}[ \t]*+)?[*_]{{0,2}}{_TITLE}[*_]{{0,2}}[ \t]*+[:：]?[*_]{{0,2}}[ \t]*+$",
    re.MULTILINE | re.IGNORECASE,
)
_LABELLED: Final = re.compile(
    rf"^[ \t>*_(（-]*+{_TITLE}[*_]{{0,2}}[ \t]*+[:：](?=[^\n]*?(?:https?://|\]\())[^\n]*+$",
    re.MULTILINE | re.IGNORECASE,
)
_FOOTNOTE: Final = re.compile(r"^ {0,3}\[\^[^\]\n]{1,40}\]:[^\n]*+$", re.MULTILINE)
_NUMBERED: Final = re.compile(r"^[ \t>]*+\[\d{1,3}\](?![(\[])(?=[^\n]*?https?://)[^\n]*+$", re.MULTILINE)
_LINE: Final = re.compile(r"[^\n]*+(?:\n|\Z)")
_ENTRY: Final = re.compile(r"[ \t>]*+(?:$|[-*+•][ \t]|\(?\d{1,3}[.)、\]]|\[|[①-⑳])|.*(?:https?://|\]\()", re.MULTILINE)


def source_spans(text: str, folded: str) -> Iterator[Span]:
    """Footnote definitions, numbered sources with a link, and the entries under a heading such as "Sources"."""
    if "[^" in text:
        yield from (match.span() for match in line_matches(_FOOTNOTE, text))
    if "[" in text and "://" in text:
        yield from (match.span() for match in line_matches(_NUMBERED, text))
    # A single character is looked for much faster than a word.
    if not any(word[0] in folded and word in folded for word in _TITLE_WORDS):
        return
    if "://" in text or "](" in text:
        yield from (match.span() for match in line_matches(_LABELLED, text))
    for heading in line_matches(_HEADING, text):
        yield from _entries(text, heading.end() + 1)


def _entries(text: str, start: int) -> Iterator[Span]:
    """Blank lines, list items and lines with a link; the first other line ends the list."""
    while start < len(text):
        line = _LINE.match(text, start)
        if line is None or not _ENTRY.match(line.group()):
            return
        yield line.span()
        start = line.end()
