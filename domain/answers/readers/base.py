"""What every format module offers to the registry, and the habits streams share."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.fields import Node, node_at, optional_text_at, text_at

_NO_REASON = ("null", "none", "unspecified", "finish_reason_unspecified", "not_finished")


@dataclass(frozen=True, slots=True)
class Reader:
    """A format found by content: `matches` looks, `read` may assume that it matched.

    `keys` spares the look: a body in which no event has one of them at its top is of another format.
    """

    name: str
    matches: Callable[[Document], bool]
    read: Callable[[Document], Draft]
    keys: frozenset[str] = frozenset()

    def takes(self, document: Document) -> bool:
        if self.keys and self.keys.isdisjoint(document.keys):
            return False
        return self.matches(document)


def last_text(events: Iterable[Node], *path: str | int) -> str | None:
    """The last non-empty string at `path`: models, ids and finish reasons of a stream."""
    found: str | None = None
    for event in events:
        found = optional_text_at(event, *path) or found
    return found


def last_finish(events: Iterable[Node], *path: str | int) -> str | None:
    """The last finish reason; several platforms write the word "null" while the answer runs."""
    found: str | None = None
    for event in events:
        reason = text_at(event, *path)
        if reason and reason.casefold() not in _NO_REASON:
            found = optional_text_at(event, *path)
    return found


def last_list(lists: Iterable[list[Node]]) -> list[Node]:
    """The last non-empty list: streams repeat their sources, or send them once and empty lists after."""
    found: list[Node] = []
    for entries in lists:
        found = entries or found
    return found


def nested(events: Iterable[Node], *keys: str) -> list[Node]:
    """The events, and the objects under each of `keys` in them."""
    listed = list(events)
    return listed + [inner for event in listed for key in keys if (inner := node_at(event, key))]


def join_pieces(pieces: Sequence[str]) -> str:
    """A stream's text: the pieces joined, or the last one where each repeats all before it (DashScope's default)."""
    spoken = [piece for piece in pieces if piece]
    pairs = list(pairwise(spoken))
    grows = all(later.startswith(earlier) for earlier, later in pairs)
    if pairs and grows and len(spoken[-1]) > len(spoken[0]):
        return spoken[-1]
    return "".join(spoken)
