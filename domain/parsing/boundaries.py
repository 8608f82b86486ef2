"""Where a name may begin and end inside running text (3-results §3.3)."""

import re
import unicodedata
from typing import Final

from domain.parsing.folding import is_unspaced, is_word
from domain.parsing.homographs import is_common_word, is_ordinary_word
from domain.parsing.names import Pattern

_MIN_INFLECTED: Final = 3
_VERSION: Final = re.compile(r"\d{1,4}(?![a-z0-9_])")
_DECIMAL: Final = re.compile(r"[.,]\d")
# "360度", "$360", "360 degrees": after or before these, a name of digits only is a quantity.
_UNIT: Final = re.compile(
    r" ?(?:[%°‰元块亿千百年次条台秒米岁斤克倍]|度(?!假)|天(?![擎眼御])|个(?!人)|万(?!能)|日(?!历)|人(?!工)"
    r"|小时|分钟|公里|美元"
    r"|-?(?:degrees?|days?|users?|people|hours?|minutes?|seconds?|dollars?|times|employees|customers|percent|usd|rmb"
    r"|cny|k|m|gb|mb|km|kg|px)\b)"
)
_CURRENCY: Final = frozenset("$¥€£₩#")
# A name in Han that goes on as a domain name: "爱客美.com".
_DOMAIN: Final = re.compile(r"\.(?:com|cn|net|org|io|ai|co|app|shop|中国|公司|网络|集团)(?![a-z0-9])")
# "c++", "x-ray", "h&m", "go.mod": glued to a very short name, these make another word of it.
_GLUED_AFTER: Final = re.compile(r"[+#]|(?!'s\b)[-&.'][a-z0-9]")
_GLUED_BEFORE: Final = re.compile(r"[a-z0-9][-&.'+#]")


def stands_as_name(folded: str, start: int, end: int, pattern: Pattern, written: str) -> bool:
    """Whether folded ``[start, end)`` is a name rather than a part of another word.

    Han and other scripts without spaces may touch it on both sides, word characters may not.
    Behind it a plural ``s`` is fine after the name's own spelling, and a version number
    (``Qwen3``, but ``GPT-4.5`` is no ``GPT-4``); names of one or two letters, and in English those
    that are common words, must be written as they are in the settings or in capitals.
    """
    if not _opens(folded, start) or not _closes(folded, start, end, pattern, written):
        return False
    if _is_quantity(folded, start, end) or _DOMAIN.match(folded, end) or is_ordinary_word(folded, start, end):
        return False
    if is_common_word(pattern.folded) and _is_in_english(folded, start, end):
        return _is_written_as_name(pattern, written)
    return not pattern.is_short or _is_short_name(folded, start, end, pattern, written)


def _opens(folded: str, start: int) -> bool:
    if start == 0 or is_unspaced(folded[start]):
        return True
    before = folded[start - 1]
    if not is_word(folded[start]):  # ".NET" is no part of "ASP.NET"
        return not is_word(before)
    if before == "_":  # emphasis, unless it joins an identifier
        return start < 2 or not is_word(folded[start - 2])
    in_number = folded[start].isdecimal() and folded[start - 2 : start - 1].isdecimal()
    return not is_word(before) and not (before in ".," and in_number)


def _closes(folded: str, start: int, end: int, pattern: Pattern, written: str) -> bool:
    last, after = folded[end - 1], folded[end : end + 2]
    if not after or not is_word(last):
        return True
    if after[0] == "_":
        return len(after) < 2 or not is_word(after[1])
    if not is_word(after[0]):
        return not (last.isdecimal() and _DECIMAL.match(after))
    may_inflect = last.isalpha() and end - start >= _MIN_INFLECTED
    return may_inflect and (_VERSION.match(folded, end) is not None or _is_plural(after, pattern, written))


def _is_quantity(folded: str, start: int, end: int) -> bool:
    if not folded[end - 1].isdecimal() or not folded[start:end].isdecimal():
        return False
    return folded[start - 1 : start] in _CURRENCY or _UNIT.match(folded, end) is not None


def _is_plural(after: str, pattern: Pattern, written: str) -> bool:
    ends_there = len(after) < 2 or not is_word(after[1])
    return after[0] == "s" and ends_there and written in pattern.written


def _is_short_name(folded: str, start: int, end: int, pattern: Pattern, written: str) -> bool:
    glued = _GLUED_AFTER.match(folded, end) or (start > 1 and _GLUED_BEFORE.match(folded, start - 2))
    return not glued and _is_written_as_name(pattern, written)


def _is_written_as_name(pattern: Pattern, written: str) -> bool:
    shown = unicodedata.normalize("NFKC", written)
    return shown in pattern.written or shown.isupper()


def _is_in_english(folded: str, start: int, end: int) -> bool:
    """Whether no Chinese stands beside it: ``用notion写`` cannot mean the English word."""
    neighbours = folded[max(0, start - 2) : start].rstrip(" ")[-1:] + folded[end : end + 2].lstrip(" ")[:1]
    return not any(map(is_unspaced, neighbours))
