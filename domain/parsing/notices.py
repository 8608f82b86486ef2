"""Refusals, limits and failures that a platform writes where its answer would stand (3-results §3.1, §3.3).

A notice says nothing of the world: its words are about the conversation, the visitor and the machine. So a short
message is a notice when hardly a word of it is strange to notices, none is a name, a price or a word of answers
("brand", 推荐), and the parts that its words play in a sentence make a notice (`FORMS`), such as "I", "not" and
"answer". An answer that declines some part ("I can't name a single best, but Acme ...") or explains a refusal has
other words and stays an answer. So does "I have no information about Acme": an absence, for the mention rules.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from domain.parsing.notices_forms import FORMS, HINTS, Notice, Table
from domain.parsing.notices_parts import Part
from domain.parsing.notices_words import Reading, read

__all__ = ["MAX_NOTICE", "Notice", "notice_in"]

_Kind = TypeVar("_Kind")

MAX_NOTICE: Final = 500
"""Characters; a longer message is no notice."""

_UNITS_PER_STRANGER: Final = 20
_STRANGE_HAN: Final = 2
"""Characters: one word of Chinese."""

_SPEAKERS: Final = frozenset({Part.ME, Part.US, Part.YOU, Part.PRODUCT})
_VOICES: Final = frozenset({Part.ME, Part.US, Part.TALK})

_SENTENCE_ENDS: Final = re.compile(r"[.!?](?=\s|$)|\.{2,}|[。！？；;\n…~～|·]+")
_DECORATION: Final = re.compile(
    r"[*_`#>\"“”\[\]()（）【】<]+|[\u200b-\u200f\u2060\ufe0f\U0001f300-\U0001faff\u2600-\u27bf]+"
)
_QUOTES: Final = str.maketrans({"’": "'", "‘": "'", "´": "'"})


def notice_in(text: str) -> Notice | None:
    """What a message is instead of an answer: a refusal, a limit, a block or a failure; None for an answer."""
    if len(text) > MAX_NOTICE:
        return None
    message = _read(text)
    if message.tells_something():
        return None
    return message.notice()


def _read(text: str) -> "_Message":
    plain = _DECORATION.sub(" ", text.translate(_QUOTES))
    return _Message(tuple(map(read, _SENTENCE_ENDS.split(plain))))


@dataclass(frozen=True, slots=True)
class _Message:
    """A short message, read sentence by sentence."""

    sentences: tuple[Reading, ...]

    def notice(self) -> Notice | None:
        """The gravest notice of its sentences, else what its words hint at together."""
        told = (_matching(FORMS, sentence.parts) for sentence in self.sentences)
        order = list(Notice)
        gravest = min(filter(None, told), key=order.index, default=None)
        return gravest if gravest or self._strangers() else _matching(HINTS, self._parts())

    def tells_something(self) -> bool:
        """Whether it speaks of anything but itself; two platforms are a comparison."""
        return (
            Part.TELLING in self._parts()
            or any(sentence.names for sentence in self.sentences)
            or (any(sentence.opener for sentence in self.sentences) and not self._parts() & _VOICES)
            or len(_union(sentence.products for sentence in self.sentences)) > 1
            or self._strangers() > self._strangers_allowed()
        )

    def _strangers_allowed(self) -> int:
        """A word may be strange where somebody speaks or is spoken to; else it may be what the message is about."""
        allowed = sum(sentence.size for sentence in self.sentences) // _UNITS_PER_STRANGER
        if any(sentence.han for sentence in self.sentences):
            return allowed + _STRANGE_HAN * bool(self._parts() & _SPEAKERS)
        return allowed + bool(self._parts() & (_SPEAKERS | _VOICES))

    def _strangers(self) -> int:
        return sum(sentence.strange for sentence in self.sentences)

    def _parts(self) -> frozenset[Part]:
        return _union(sentence.parts for sentence in self.sentences)


def _union(sets: Iterable[frozenset[_Kind]]) -> frozenset[_Kind]:
    return frozenset().union(*sets)


def _matching(table: Table, parts: frozenset[Part]) -> Notice | None:
    return next(
        (notice for notice, forms in table if any(form <= parts for form in forms)),
        None,
    )
