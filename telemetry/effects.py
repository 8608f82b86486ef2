"""Counting what commits: inside a transaction a count waits for its commit, and a rolled-back one is forgotten.

`store.database.transaction` holds counts back; the statements that bring an effect about count it where it happens,
and so each effect counts once, whoever runs it. A commit whose answer is lost on the wire is not counted.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from prometheus_client import Histogram

from telemetry.families import ExactCounter

K = TypeVar("K", bound=str)

_held: ContextVar[list[Callable[[], None]] | None] = ContextVar("held_counts", default=None)


def count(counter: ExactCounter, by: float = 1, value: str = "") -> None:
    """Add to a counter (to its series of this label value) when the transaction around this call commits."""
    if by:
        _when_committed(lambda: counter.add(by, value))


def count_each(counter: ExactCounter, counts: Mapping[K, int]) -> None:
    """Add to the series of each label value."""
    for value, by in counts.items():
        count(counter, by, value)


def observe(histogram: Histogram, value: float) -> None:
    """Put a value into a histogram when the transaction around this call commits."""
    _when_committed(lambda: histogram.observe(value))


def _when_committed(step: Callable[[], None]) -> None:
    held = _held.get()
    if held is None:
        step()
    else:
        held.append(step)


@contextmanager
def counted_at_commit() -> Iterator[None]:
    """Hold counts back until the body ends; an exception forgets them. A scope inside another one is its own."""
    outer, own = _held.get(), list[Callable[[], None]]()
    _held.set(own)
    try:
        yield
    finally:
        # Set, not reset by a token: a fixture may end the scope in another context than it began in.
        _held.set(outer)
    for step in own:
        step()
