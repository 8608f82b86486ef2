"""What every format module offers to the registry, and the habits streams share."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.fields import Node, optional_text_at


@dataclass(frozen=True, slots=True)
class Reader:
    """A format found by content: `matches` looks, `read` may assume that it matched."""

    name: str
    matches: Callable[[Document], bool]
    read: Callable[[Document], Draft]


def last_text(events: Iterable[Node], *path: str | int) -> str | None:
    """The last non-empty string at `path`: models, ids and finish reasons of a stream."""
    found: str | None = None
    for event in events:
        found = optional_text_at(event, *path) or found
    return found


def last_list(lists: Iterable[list[Node]]) -> list[Node]:
    """The last non-empty list: streams repeat their sources, or send them once and empty lists after."""
    found: list[Node] = []
    for entries in lists:
        found = entries or found
    return found


def join_pieces(pieces: Sequence[str]) -> str:
    """A stream's text: the pieces joined, or the last one where each repeats all before it (DashScope's default)."""
    spoken = [piece for piece in pieces if piece]
    pairs = list(pairwise(spoken))
    grows = all(later.startswith(earlier) for earlier, later in pairs)
    if pairs and grows and len(spoken[-1]) > len(spoken[0]):
        return spoken[-1]
    return "".join(spoken)
