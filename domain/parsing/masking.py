"""Parts of an answer that are not its own words (3-results §3.3).

A name inside a URL, an e-mail address, code, markup or hidden reasoning was not said to the
reader, one in the repeated question was said by the asker, one in the list of sources by others.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from domain.parsing.domains import has_known_suffix
from domain.parsing.echo import echo_spans
from domain.parsing.folding import FoldedText
from domain.parsing.lines import line_matches
from domain.parsing.links import bare_spans
from domain.parsing.sources import source_spans

Span = tuple[int, int]

_FENCE: Final = re.compile(r"^[ \t>]*(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)
_TICKS: Final = re.compile(r"`+|\n[ \t]*(?=\n)")
_REASONING: Final = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL)
# each with a character or two without which it cannot match
_MARKUP: Final = (
    ("<", re.compile(r"<!--.*?(?:-->|\Z)|<(code|pre|script|style|kbd|samp)\b[^<>]*+>.*?(?:</\1>|\Z)", re.DOTALL)),
    ("<", re.compile(r"<[A-Za-z][A-Za-z0-9-]*+[ \n][^<>]*+>")),  # a tag's attributes
    # the destination and title of [text](destination "title")
    ("](", re.compile(r"""\]\((?>(?:[^()\s]++|\([^()\s]*+\))*)(?:\s++"[^"\n]*+")?\s*+\)""")),
    ("![", re.compile(r"!\[[^\[\]\n]*+\](?=[(\[])")),  # an image's alternative text
    ("]:", re.compile(r"^ {0,3}\[[^\]^\n][^\]\n]*+\]:[ \t]*+(?=https?:|<|www\.)[^\n]*+$", re.MULTILINE)),
    ("@", re.compile(r"(?<![A-Za-z0-9_.+-])[A-Za-z0-9_.+-]++@[A-Za-z0-9-]++(?>(?:\.[A-Za-z0-9-]++)+)")),
    ("://", re.compile(r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,30}+://[A-Za-z0-9\-._~:/?#@!$&'*+,;=%]*+")),
    (
        "/",
        re.compile(r"(?<![^\s\"'“(（:：])(?:~|\.{1,2}+)?/(?>(?:[A-Za-z0-9_.-]++/)+)[A-Za-z0-9_.-]*+"),
    ),  # a file's path
)
_BARE_HOST: Final = re.compile(
    r"(?<![A-Za-z0-9_@./:-])(?>(?:[A-Za-z0-9][A-Za-z0-9-]*+\.(?=[A-Za-z0-9]))+)[A-Za-z]{2,24}(?![A-Za-z0-9_@-])"
    r"(?:/[A-Za-z0-9_\-./%?=&#~+]*+)?"
)
_DOTTED: Final = re.compile(r"\.[A-Za-z]{2}")
_FILE: Final = re.compile(
    r".*\.(?:exe|json|html?|ya?ml|txt|csv|pdf|xml|toml|cfg|ini|dll|css|png|jpe?g|svg|docx?|xlsx?|pptx?)"
)


class Mask:
    """Marks the original characters in which no mention counts."""

    __slots__ = ("_hosts", "_masked", "_whole_hosts")

    def __init__(self, text: str, folded: FoldedText, question: str | None) -> None:
        self._whole_hosts = frozenset(_host_spans(text))
        self._hosts = _flags(len(text), self._whole_hosts)
        urls = bare_spans(text) if "://" in folded.folded or "www." in folded.folded else ()
        other = (
            _code(text),
            _markup(text),
            urls,
            source_spans(text, folded.folded),
            echo_spans(text, folded, question),
        )
        self._masked = _flags(len(text), chain.from_iterable(other))

    def covers(self, start: int, end: int) -> bool:
        """Whether any of ``[start, end)`` is masked.

        A bare host such as ``booking.com`` is masked too, unless it is the name as a whole.
        """
        if self._masked.find(1, start, end) != -1:
            return True
        in_host = self._hosts.find(1, start, end) != -1
        return in_host and (start, end) not in self._whole_hosts


def _flags(size: int, spans: Iterable[Span]) -> bytearray:
    flags = bytearray(size)
    for start, end in spans:
        flags[start:end] = b"\x01" * (end - start)
    return flags


def without_reasoning(text: str) -> str:
    """The answer without the ``<think>`` part some models show before it."""
    return _REASONING.sub("", text)


def _code(text: str) -> Iterator[Span]:
    if "`" not in text and "~~~" not in text:
        return
    end = 0
    opening: re.Match[str] | None = None
    for line in line_matches(_FENCE, text):
        if opening is None and not ("`" in line[1] and "`" in line[2]):
            yield from _code_spans(text, end, line.start())
            opening = line
        elif opening is not None and _closes(line, opening):
            yield opening.start(), line.end()
            opening, end = None, line.end()
    if opening is None:
        yield from _code_spans(text, end, len(text))
    else:
        yield opening.start(), len(text)


def _closes(line: re.Match[str], opening: re.Match[str]) -> bool:
    return line[1].startswith(opening[1]) and not line[2].strip()


def _code_spans(text: str, start: int, end: int) -> Iterator[Span]:
    """Code spans open and close with equal runs of backticks inside one paragraph."""
    runs = list(_TICKS.finditer(text, start, end))
    closing = _closing_runs(runs)
    i = 0
    while i < len(runs):
        closer = closing[i]
        if closer is not None:
            yield runs[i].start(), runs[closer].end()
            i = closer
        i += 1


def _closing_runs(runs: list[re.Match[str]]) -> list[int | None]:
    closing: list[int | None] = [None] * len(runs)
    seen: dict[str, int] = {}
    for i in range(len(runs) - 1, -1, -1):
        ticks = runs[i].group()
        if ticks.startswith("\n"):
            seen.clear()
        else:
            closing[i] = seen.get(ticks)
            seen[ticks] = i
    return closing


def _markup(text: str) -> Iterator[Span]:
    if "<think" in text:
        yield from (match.span() for match in _REASONING.finditer(text))
    for sign, pattern in _MARKUP:
        if sign in text:
            yield from (match.span() for match in pattern.finditer(text))


def _host_spans(text: str) -> Iterator[Span]:
    if not _DOTTED.search(text):
        return
    for match in _BARE_HOST.finditer(text):
        host = match.group().partition("/")[0]
        one_case = host.islower() or host.rpartition(".")[2].islower()
        if (one_case and has_known_suffix(host)) or (host.islower() and _FILE.fullmatch(host)):
            yield match.span()
