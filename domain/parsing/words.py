"""Common Chinese words and how rare they are (3-results §3.3)."""

from functools import cache
from pathlib import Path
from typing import Final

LONGEST: Final = 4
"""Characters of the longest word in the table."""

_TABLE: Final = Path(__file__).with_name("words_zh.txt")


@cache
def word_costs() -> dict[str, float]:
    """What each word costs: the negative natural logarithm of its share of running text, in steps of a half.

    Read when the first short Chinese name is looked for, which costs some 15 ms and 3 MB.
    """
    costs: dict[str, float] = {}
    for line in _TABLE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            halves, size, words = line.split(" ")
            length, cost = int(size), int(halves) / 2
            costs.update((words[i : i + length], cost) for i in range(0, len(words), length))
    return costs
