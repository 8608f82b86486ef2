"""Comparing interrupt generations (dispatch §10.2): a counter that fences stale orders and never goes back."""

from enum import StrEnum


class Order(StrEnum):
    """What an order's or a callback's generation is to the one seen last."""

    NEWER = "newer"
    CURRENT = "current"
    STALE = "stale"


def compare(generation: int, seen: int) -> Order:
    """NEWER and CURRENT are followed; STALE is recorded and not applied."""
    if generation > seen:
        return Order.NEWER
    return Order.CURRENT if generation == seen else Order.STALE


def follows(generation: int, seen: int) -> bool:
    """Whether an order at `generation` is to be followed by somebody who has seen `seen`."""
    return compare(generation, seen) is not Order.STALE


def past(stored: int, reported: int) -> int:
    """The counter after a client reported what it has seen: never behind, which covers a restored database."""
    return max(stored, reported)
