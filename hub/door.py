"""The connections that nobody has vouched for yet: bounded in number, in bytes and in time (ADR 0048).

What is refused here costs no task, no database query, and no memory that lasts.
"""

from typing import Final, Protocol

from telemetry.metrics import hub_pending, hub_refused

RETRY_SECONDS: Final = 5


class Abortable(Protocol):
    """What the door needs of a connection."""

    @property
    def opened(self) -> bool:
        """Whether it has asked for something."""
        ...

    def cut(self) -> None:
        """End it at once, without a closing handshake."""
        ...


class Door:
    """Counts the sockets between their TCP connection and their authentication; at most `most` at a time."""

    def __init__(self, most: int) -> None:
        self._most: Final = most
        self._pending: set[Abortable] = set()

    def __len__(self) -> int:
        return len(self._pending)

    def enter(self, socket: Abortable) -> bool:
        """Take a new socket in; False when too many wait already: it is to be turned away."""
        if len(self._pending) >= self._most:
            refuse("busy")
            return False
        self._pending.add(socket)
        hub_pending.set(len(self._pending))
        return True

    def leave(self, socket: Abortable) -> None:
        """The socket is authenticated, or gone."""
        self._pending.discard(socket)
        hub_pending.set(len(self._pending))

    def shut_unopened(self) -> None:
        """Cut everybody who has not asked for anything yet: there is nothing to be told to them."""
        for socket in [each for each in self._pending if not each.opened]:
            socket.cut()


def refuse(reason: str) -> None:
    """Count a socket that is not let in."""
    hub_refused.add(1, reason)


def refusal(status: str) -> bytes:
    """A whole HTTP answer for a socket that gets no handshake."""
    return (
        f"HTTP/1.1 {status}\r\nRetry-After: {RETRY_SECONDS}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    ).encode()


class Pace:
    """A token bucket without a timer and without a waiting line: one number a connection (generic cell rate).

    `per_second` on average, `burst` at once. `next` is given what it returned last, at first 0.0.
    """

    __slots__ = ("_interval", "_tolerance")

    def __init__(self, per_second: float, burst: int) -> None:
        self._interval: Final = 1.0 / per_second
        self._tolerance: Final = (burst - 1) * self._interval

    def next(self, due: float, now: float) -> float | None:
        """When the event after this one would be due, in the clock's seconds; None: this one is too many."""
        due = max(due, now)
        return None if due - now > self._tolerance + 1e-9 else due + self._interval
