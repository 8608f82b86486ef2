"""Where ordinary Chinese words account for a name's characters: ``完美|的`` holds no 美的 (3-results §3.3).

Chinese is written without spaces, so that a short name also arises where two words meet. Both readings
of the surroundings are weighed, the one with the name and the best one in which a word lies across one of
its edges; the cheaper one is believed (ADR 0044).
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from domain.parsing.words import LONGEST, word_costs

Span = tuple[int, int]

_FIRST_HAN: Final = "\u4e00"
_HAN_HEAD: Final = re.compile("[\u4e00-\u9fff]*")
_HAN_TAIL: Final = re.compile("[\u4e00-\u9fff]*\\Z")

# Names of more characters do not arise by chance.
_LONGEST_NAME: Final = 3
# How far the surroundings are read on each side (characters).
_REACH: Final = 6
# A name that is looked for: as rare as a word seen once in 160,000 words.
_NAME_COST: Final = 12.0
_UNKNOWN_COST: Final = 16.0
_NO_WORD: Final = float("inf")
# Where a word across its end leaves the name's beginning alone, that has to be a frequent word: 有|道理, not 华|为何.
_STRAY_COST: Final = 4.0
_FREQUENT: Final = 6.5


def arises_from_words(folded: str, start: int, end: int, free_from: int) -> bool:
    """Whether the Chinese name at folded ``[start, end)`` is but the seam of other words.

    What lies before ``free_from`` belongs to an earlier name.
    """
    if end - start > _LONGEST_NAME or folded[start] < _FIRST_HAN:
        return False
    before = folded[max(free_from, start - _REACH) : start]
    return _reads_better(before, folded[start:end], folded[end : end + _REACH])


@lru_cache(maxsize=8192)
def _reads_better(before: str, name: str, after: str) -> bool:
    """Whether words across the edges of ``name`` are the cheaper reading."""
    before, after = _HAN_TAIL.findall(before)[0], _HAN_HEAD.findall(after)[0]
    start, end, run = len(before), len(before) + len(name), before + name + after
    if not _HAN_HEAD.fullmatch(name) or not any(_crossing(run, start, end)):
        return False
    cost, edges = _reading(run, (start, end))
    if start in edges and end in edges:
        return False
    return cost < _reading(before)[0] + _NAME_COST + _reading(after)[0]


def _crossing(run: str, start: int, end: int) -> Iterator[str]:
    """Known words that lie across an edge."""
    known = word_costs()
    for edge in (start, end):
        for first in range(max(0, edge - LONGEST + 1), edge):
            for last in range(edge + 1, min(len(run), first + LONGEST) + 1):
                if (first, last) != (start, end) and run[first:last] in known:
                    yield run[first:last]


def _reading(run: str, name: Span | None = None) -> tuple[float, set[int]]:
    """The cheapest way to read ``run`` as words, of which none is ``name``: its cost and the words' edges."""
    best: list[tuple[float, int]] = [(0.0, 0)]
    for last in range(1, len(run) + 1):
        firsts = range(max(0, last - LONGEST), last)
        best.append(min((best[first][0] + _cost(run, first, last, name), first) for first in firsts))
    return best[-1][0], _edges(best)


def _cost(run: str, first: int, last: int, name: Span | None) -> float:
    cost = word_costs().get(run[first:last], _UNKNOWN_COST if last - first == 1 else _NO_WORD)
    if name is None or first != name[0] or last > name[1]:
        return cost
    if last == name[1]:
        return _NO_WORD
    return cost + _STRAY_COST if cost > _FREQUENT else cost


def _edges(best: list[tuple[float, int]]) -> set[int]:
    at = len(best) - 1
    edges = {at}
    while at > 0:
        at = best[at][1]
        edges.add(at)
    return edges
