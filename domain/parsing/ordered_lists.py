"""Numbered lists of an answer, for rank in a list (3-results §3.3)."""

import re
from dataclasses import dataclass, field
from typing import Final

_HAN_NUMERALS: Final = "一二三四五六七八九十"
_KEYCAPS: Final = "\ufe0f?\u20e3"
_CIRCLED: Final = "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳"
_HEAD: Final = r"(?P<indent>[ \t>]*)(?P<mark>#{1,6}[ \t]+|[-*+][ \t]+|\|[ \t]*)?[*_]{0,3}"
_ITEM: Final = re.compile(
    rf"^{_HEAD}(?:"
    rf"(?P<digits>\d{{1,3}})(?:[.．)、）:：](?!\d)|{_KEYCAPS}|[ \t]*\|)"
    r"|[(（](?P<enclosed>\d{1,3})[)）]"
    rf"|(?P<circled>[{_CIRCLED}])"
    r"|(?:No\.?|Top|TOP|#)[ \t]?(?P<labelled>\d{1,3})\b"
    rf"|第(?P<ranked>\d{{1,3}}|[{_HAN_NUMERALS}])(?:名|位)?[ \t]*[:：、，,]"
    rf"|(?P<numeral>[{_HAN_NUMERALS}])、"
    r")",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Item:
    """One entry: its rank in the list from 1, and the span of its first line."""

    rank: int
    start: int
    end: int


@dataclass(slots=True)
class _Open:
    last: int
    items: list[Item] = field(default_factory=list)


def ordered_lists(text: str) -> tuple[tuple[Item, ...], ...]:
    """The numbered lists of ``text`` with at least two items, in order of their first item.

    Markdown items, numbered headings, ``1、``, ``（1）``, ``①``, ``第一名：``, ``一、``, ``Top 1``
    and a table whose first column counts up. Text and bullets between two numbers do not end a
    list; the number starting again does. Items all numbered 1 count up, as in markdown.
    """
    lists: list[_Open] = []
    current: dict[tuple[int, str], _Open] = {}
    for match in _ITEM.finditer(text):
        key, number = _style(match), _number(match)
        found = current.get(key)
        if found is None or not _continues(found, number):
            found = current[key] = _Open(number)
            lists.append(found)
        found.last = number
        found.items.append(_item(text, match, len(found.items) + 1))
        _close_deeper(current, key)
    return tuple(tuple(each.items) for each in lists if len(each.items) > 1)


def _continues(found: _Open, number: int) -> bool:
    all_ones = number == 1 and found.last == 1
    return number == found.last + 1 or all_ones


def _item(text: str, match: re.Match[str], rank: int) -> Item:
    line_end = text.find("\n", match.end())
    return Item(rank, match.end(), len(text) if line_end < 0 else line_end)


def _style(match: re.Match[str]) -> tuple[int, str]:
    indent = len(match["indent"].expandtabs(4))
    return indent // 2, f"{(match['mark'] or '').strip()}{match.lastgroup}"


def _close_deeper(current: dict[tuple[int, str], _Open], key: tuple[int, str]) -> None:
    for other in [each for each in current if each[0] > key[0]]:
        del current[other]


def _number(match: re.Match[str]) -> int:
    groups = ("digits", "enclosed", "circled", "labelled", "ranked", "numeral")
    written = next(match[name] for name in groups if match[name])
    for numerals in (_CIRCLED, _HAN_NUMERALS):
        if written in numerals:
            return numerals.index(written) + 1
    return int(written)
