"""Refusals, limits and failures that a platform writes where its answer would stand (3-results §3.1, §3.3).

A message is a notice when *every* sentence of it is one, or a courtesy beside one. An answer that declines some part
("I can't name a single best, but ...") or explains a refusal has other sentences and stays an answer. So does "I have
no information about Acme", which says something about Acme: an absence, which the mention rules judge.
"""

import re
from enum import StrEnum
from typing import Final

from domain.parsing import notices_chinese as chinese
from domain.parsing import notices_english as english

MAX_NOTICE: Final = 500
"""Characters; a longer message is no notice."""

_MAX_TAIL: Final = 60
_MAX_HAN_TAIL: Final = 8
_COURTESY: Final = "courtesy"


class Notice(StrEnum):
    """What a platform said instead of an answer; the values are those of the answers' kinds."""

    REFUSAL = "refusal"
    RATE_LIMITED = "rate_limited"
    BLOCKED = "blocked"
    ERROR = "error"


_Verdict = Notice | str
_SENTENCE_ENDS: Final = re.compile(
    r"[.!?](?=\s|$)|\.{2,}|[。！？；;\n…~～|·]+"
    r"|[,，](?=\s*(?:but |and |so |please |try |there )?(?:i |we |please |try |there |something |is there ))"
    r"|[，,](?=\s*(?:请|sorry$|sorry[.!]))|(?<=[\u4e00-\u9fff])[，,](?=\s*[\u4e00-\u9fff])| (?=please try )",
    re.IGNORECASE,
)
_DECORATION: Final = re.compile(
    r"[*_`#>\"“”\[\]()（）【】<]+|[\u200b-\u200f\u2060\ufe0f\U0001f300-\U0001faff\u2600-\u27bf]+"
)
_HAN: Final = re.compile(r"[\u3400-\u9fff]")
_QUOTES: Final = str.maketrans({"’": "'", "‘": "'", "´": "'"})


def _rules(table: str) -> re.Pattern[str]:
    forms = (*getattr(english, table), *getattr(chinese, table))
    return re.compile("|".join(f"(?:{form})" for form in forms))


_LEADS: Final = re.compile(f"{english.LEADS}|{chinese.LEADS}")
_TAILS: Final = re.compile(english.TAILS)
_TURNS: Final = re.compile(f"{english.TURNS}|{chinese.TURNS}")
_RULES: Final[tuple[tuple[_Verdict, re.Pattern[str]], ...]] = (
    (Notice.RATE_LIMITED, _rules("LIMITS")),
    (Notice.BLOCKED, _rules("BLOCKS")),
    (Notice.REFUSAL, _rules("REFUSALS")),
    (Notice.ERROR, _rules("FAILURES")),
    (_COURTESY, _rules("COURTESIES")),
    (_COURTESY, re.compile(english.SIGNATURES[0])),
)


def notice_in(text: str) -> Notice | None:
    """What a message is instead of an answer: a refusal, a limit, a block or a failure; None for an answer."""
    if len(text) > MAX_NOTICE:
        return None
    found: list[Notice] = []
    for sentence in _sentences(text):
        verdict = _verdict(sentence)
        if verdict is None:
            return None
        if isinstance(verdict, Notice):
            found.append(verdict)
    return min(found, key=_GRAVITY.index, default=None)


# Kinds whose words are also how an answer begins to speak *about* limits and failures.
_STATEMENTS: Final = tuple(rule for kind, rule in _RULES if kind in (Notice.RATE_LIMITED, Notice.BLOCKED, Notice.ERROR))

_GRAVITY: Final = [kind for kind, _ in _RULES]


def _sentences(text: str) -> list[str]:
    plain = _DECORATION.sub(" ", text.translate(_QUOTES)).casefold()
    parts = (" ".join(part.split()).strip(" ,，:：-—") for part in _SENTENCE_ENDS.split(plain))
    return [part for part in parts if part]


def _verdict(sentence: str) -> _Verdict | None:
    """The first rule the sentence begins with, behind its "I'm sorry, but", and that leaves little more to say."""
    lead = _LEADS.match(sentence + " ")
    rest = sentence[lead.end() :] if lead else sentence
    if lead and not rest:
        return _COURTESY
    return next((kind for kind, rule in _RULES if _says_only(rule, rest) or _says_only(rule, sentence)), None)


def _says_only(rule: re.Pattern[str], sentence: str) -> bool:
    begun = rule.match(sentence)
    if begun is None:
        return False
    tail = sentence[begun.end() :]
    brief = len(tail) <= _MAX_TAIL and len(_HAN.findall(tail)) <= _MAX_HAN_TAIL
    return brief and _TURNS.search(tail) is None and (rule not in _STATEMENTS or _TAILS.match(tail) is not None)
