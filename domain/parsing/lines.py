"""Searching where lines begin (3-results §3.3)."""

import re
from collections.abc import Iterator


def line_matches(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """As ``pattern.finditer(text)`` of a multi-line pattern that begins with ``^`` and matches within one line.

    A search would look for the line's beginning at every character.
    """
    start = 0
    while start >= 0:
        if match := pattern.match(text, start):
            yield match
        start = text.find("\n", start) + 1 or -1
