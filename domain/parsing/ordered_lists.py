"""Numbered lists of an answer, for rank in a list (3-results §3.3)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from domain.parsing.lines import line_matches

_HAN_NUMERALS: Final = (
    "一",
    "二",
    "三",
    "四",
    "五",
    "六",
    "七",
    "八",
    "九",
    "十",
    "十一",
    "十二",
    "十三",
    "十四",
    "十五",
)
_HAN: Final = "十[一二三四五]?|[一二三四五六七八九]"
_KEYCAPS: Final = "\ufe0f?\u20e3"
_CIRCLED: Final = "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳"
_MEDALS: Final = "🥇🥈🥉"
_HEAD: Final = r"(?P<indent>[ \t>]*)(?P<mark>#{1,6}[ \t]+|[-*+•][ \t]+|\|[ \t]*)?[*_]{0,3}"
_ITEM: Final = re.compile(
    rf"^{_HEAD}(?:"
    rf"(?P<digits>\d{{1,3}})(?:[.．)、）:：](?!\d)|{_KEYCAPS}|[ \t]*\|)"
    rf"|[(（【\[](?P<enclosed>\d{{1,3}})[)）】\]](?![(:])"
    rf"|[(（](?P<bracketed>{_HAN})[)）]"
    rf"|(?P<circled>[{_CIRCLED}])"
    rf"|(?P<medal>[{_MEDALS}])"
    r"|(?:No\.?|NO\.?|Top|TOP|#)[ \t]?(?P<labelled>\d{1,3})(?![\d.]|[ \t]*\w+s\b)"
    rf"|第(?P<ranked>\d{{1,3}}|{_HAN})(?:[名位](?=[ \t:：、，,是为*|])|[ \t]*[:：、，,])"
    rf"|(?P<numeral>{_HAN})[、.．](?!\d)"
    r")",
    re.MULTILINE,
)
_NUMERALS: Final = {
    written: rank for numerals in (_HAN_NUMERALS, _CIRCLED, _MEDALS) for rank, written in enumerate(numerals, start=1)
}
# Numbers within a line: "1. Foo 2. Acme", "（1）Foo；（2）Acme", "①Foo②Acme", "一是Foo，二是Acme".
_INLINE: Final = (
    *(tuple(f"{number}{mark}" for number in range(1, 21)) for mark in ".、)）"),
    tuple(_CIRCLED),
    tuple(f"{numeral}是" for numeral in _HAN_NUMERALS[:10]),
)
# The entry's name stands at its head; what follows in the line is about it.
_INLINE_HEAD: Final = 60
_GLUED: Final = re.compile(r"[\w.,]")


@dataclass(frozen=True, slots=True)
class Item:
    """One entry: its rank in the list from 1, and the span of its first line."""

    rank: int
    start: int
    end: int


@dataclass(slots=True)
class _Open:
    last: int
    step: int = 0
    items: list[Item] = field(default_factory=list)

    def takes(self, number: int) -> bool:
        """Whether ``number`` goes on with the list: upwards, downwards to a winner, or 1 again and again."""
        step = number - self.last
        may_turn = len(self.items) == 1 or step == self.step
        return may_turn and (step in (1, -1) or (step == 0 and number == 1))

    def add(self, number: int, start: int, end: int) -> None:
        """One more item; its number is its rank, unless all are numbered 1 or the list begins below 1."""
        if self.items:
            self.step = number - self.last
        self.last = number
        self.items.append(Item(number, start, end))

    def ranked(self) -> tuple[Item, ...]:
        if self.step and min(item.rank for item in self.items) > 0:
            return tuple(self.items)
        return tuple(replace(item, rank=rank) for rank, item in enumerate(self.items, start=1))


def ordered_lists(text: str) -> tuple[tuple[Item, ...], ...]:
    """The numbered lists of ``text`` with at least two items, in order of their first item.

    Markdown items, numbered headings, ``1、``, ``（1）``, ``①``, ``第一名：``, ``一、``, ``Top 1``, medals
    and a table whose first column counts. Text and bullets between two numbers do not end a
    list; the number starting again does. Items all numbered 1 count up, as in markdown. Numbers
    within one line make a list, too, when they count up from 1.
    """
    lists: list[_Open] = []
    current: dict[tuple[int, str], _Open] = {}
    for match in line_matches(_ITEM, text):
        key, number = _style(match), _number(match)
        found = current.get(key)
        if found is None or not found.takes(number):
            found = current[key] = _Open(number)
            lists.append(found)
        found.add(number, match.end(), _line_end(text, match.end()))
        _close_deeper(current, key)
    return (*(each.ranked() for each in lists if len(each.items) > 1), *_inline_lists(text))


def _inline_lists(text: str) -> Iterator[tuple[Item, ...]]:
    """Runs 1, 2, 3 … of one style within a line."""
    for marks in _INLINE:
        end = 0
        while (start := _place(text, marks[0], end, len(text))) >= 0:
            end = _line_end(text, start)
            starts = [start, *_further(text, marks[1:], start, end)]
            if len(starts) > 1:
                yield _inline_list(marks, starts, end)


def _further(text: str, marks: Sequence[str], start: int, end: int) -> Iterator[int]:
    for mark in marks:
        start = _place(text, mark, start + 1, end)
        if start < 0:
            return
        yield start


def _place(text: str, mark: str, start: int, end: int) -> int:
    """Where ``mark`` stands for itself: not in "3.1)", "1.5" or "之一是"; else -1."""
    at = text.find(mark, start, end)
    while at >= 0 and _is_glued(text, mark, at):
        at = text.find(mark, at + 1, end)
    return at


def _is_glued(text: str, mark: str, at: int) -> bool:
    if len(mark) == 1:
        return False
    before, after = text[at - 1 : at] if at else "", text[at + len(mark) : at + len(mark) + 1]
    return _GLUED.match(before) is not None or (mark[-1] == "." and after.isdecimal())


def _inline_list(marks: Sequence[str], starts: Sequence[int], end: int) -> tuple[Item, ...]:
    ends = (*starts[1:], end)
    return tuple(
        Item(rank, start + len(mark), min(stop, start + _INLINE_HEAD))
        for rank, (mark, start, stop) in enumerate(zip(marks, starts, ends, strict=False), start=1)
    )


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _style(match: re.Match[str]) -> tuple[int, str]:
    indent = len(match["indent"].expandtabs(4))
    return indent // 2, f"{(match['mark'] or '').strip()}{match.lastgroup}"


def _close_deeper(current: dict[tuple[int, str], _Open], key: tuple[int, str]) -> None:
    for other in [each for each in current if each[0] > key[0]]:
        del current[other]


def _number(match: re.Match[str]) -> int:
    written = match[match.lastgroup or 0]
    return _NUMERALS.get(written) or int(written)
