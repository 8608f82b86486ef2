"""When a desktop connects again after its socket ended (2-desktop §2.1; ADR 0050)."""

from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random
from typing import Final

from desktop.config import Timings
from domain.protocol import CloseCode

# The hub has said that less of this client would be better.
CROWDED: Final = frozenset({CloseCode.SLOW_CONSUMER, CloseCode.TOO_MANY_FRAMES, CloseCode.HUB_FULL})
# A server that asks for more is not believed.
LONGEST_ASKED: Final = 300.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a socket ended.

    `code`: the close code, or the HTTP status of a refused handshake. `lasted`: seconds since its first whole snapshot,
    0 if none came. `asked`: the seconds of a Retry-After header.
    """

    code: int
    reason: str
    lasted: float = 0.0
    asked: float | None = None


class Reconnect:
    """Chooses one desktop's waits. The first after a connection that held is short but spread over seconds.

    That connection may have been one of thousands that a dying hub dropped in the same instant: a desktop cannot tell.
    """

    def __init__(self, timings: Timings, rng: Random) -> None:
        self._timings = timings
        self._rng = rng
        self._failures = 0

    def delay(self, ended: Ended) -> float:
        """Seconds to wait now. Counts the failure; a connection that did not hold does not start the count anew."""
        if ended.lasted >= self._timings.settled:
            self._failures = 0
        backoff = self._timings.crowded if ended.code in CROWDED else self._timings.reconnect
        wait = backoff.delay(self._failures, self._rng)
        self._failures += 1
        # Everybody was told the same number, so it comes on top of the spread.
        return wait + min(ended.asked or 0.0, LONGEST_ASKED)


def retry_after(header: str | None, now: datetime) -> float | None:
    """The seconds of a Retry-After header in either of its forms; None when it is absent or neither."""
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        return _seconds_until(header, now)


def _seconds_until(date: str, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return None
    # "-0000" parses without a zone; it is UTC as well.
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds())
