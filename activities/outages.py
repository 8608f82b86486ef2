"""Telling a broken part, a broken message and a broken program apart (3-results §3.2).

An outage is waited for; poison is the message's own fault; whatever else goes wrong is a defect of ours, which no
message is to pay for.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import asyncpg

from domain.errors import FencedOut, GivewayError
from telemetry import metrics
from telemetry.effects import count

log = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0

# Classes of SQLSTATE that pass by themselves or by an operator's hand: connection, transaction state and rollback,
# authorisation, catalogue (no such database), not migrated yet, resources, locks, intervention, system. Every other one
# may be the message's fault: waiting for it would stop a shard for ever.
WAITED_FOR: Final = frozenset({"08", "25", "28", "3D", "40", "42", "53", "55", "57", "58"})

# Classes that a message's content brings about: values that cannot be stored, broken constraints, limits.
OF_THE_DATA: Final = frozenset({"22", "23", "54"})


def is_outage(error: Exception) -> bool:
    """Whether waiting helps: the database, broker or object store is away, busy, or not migrated yet."""
    if isinstance(error, GivewayError):
        return error.retryable
    if isinstance(error, asyncpg.PostgresError):
        return (error.sqlstate or "")[:2] in WAITED_FOR
    if isinstance(error, asyncpg.InternalClientError):
        # What the driver says of a connection that the server ended just as a statement was sent.
        return True
    if isinstance(error, asyncpg.InterfaceError):
        # A value that the driver cannot send is of this family, and a ValueError.
        return not isinstance(error, ValueError)
    return isinstance(error, OSError | TimeoutError)


def is_poison(error: Exception) -> bool:
    """Whether the content of a message is at fault: it fails alike however often, and its neighbours do not."""
    if isinstance(error, GivewayError):
        return not error.retryable and not isinstance(error, FencedOut)
    if isinstance(error, asyncpg.PostgresError):
        return (error.sqlstate or "")[:2] in OF_THE_DATA
    return isinstance(error, UnicodeError) or (
        isinstance(error, asyncpg.InterfaceError) and isinstance(error, ValueError)
    )


def is_defect(error: Exception) -> bool:
    """Whether our own program is at fault, or something that nobody foresaw."""
    return not isinstance(error, FencedOut) and not is_outage(error) and not is_poison(error)


async def through_outages(
    step: Callable[[], Awaitable[T]],
    what: str,
    *,
    first_pause: float = FIRST_PAUSE,
    waits_for: Callable[[Exception], bool] = is_outage,
) -> T:
    """The step's result, however long that takes: it is tried again, with back-off up to 5 s, while a part is away.

    Any other error is the step's own and raised. The step must be safe to repeat. `waits_for`: another opinion of what
    is waited for.
    """
    pause = first_pause
    while True:
        try:
            return await step()
        except Exception as error:
            if not waits_for(error):
                raise
            report_pause(error, what, pause)
        await asyncio.sleep(pause)
        pause = longer(pause)


def report_pause(error: Exception, what: str, seconds: float) -> None:
    """Say why something of ours waits, in the log and in the metrics; a defect with its traceback."""
    defect = is_defect(error)
    count(metrics.resident_pauses, value="defect" if defect else "outage")
    shown = error if defect else None
    log.log(
        logging.ERROR if defect else logging.WARNING,
        "%s waits %.1f s: %s: %s", what, seconds, type(error).__name__, error, exc_info=shown,
    )  # fmt: skip


def longer(pause: float) -> float:
    """The next pause of a back-off, in seconds."""
    return min(pause * 2, LONGEST_PAUSE)
