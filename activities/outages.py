"""Telling a broken part from a broken message: an outage is waited for, a message is not (3-results §3.2)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import asyncpg

from domain.errors import GivewayError

log = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0

# Classes of SQLSTATE that pass by themselves or by an operator's hand: connection, transaction state and rollback,
# authorisation, catalogue (no such database), not migrated yet, resources, locks, intervention, system. Every other one
# may be the message's fault: waiting for it would stop a shard for ever.
WAITED_FOR: Final = frozenset({"08", "25", "28", "3D", "40", "42", "53", "55", "57", "58"})


def is_outage(error: Exception) -> bool:
    """Whether waiting helps: the database, broker or object store is away, busy, or not migrated yet."""
    if isinstance(error, GivewayError):
        return error.retryable
    if isinstance(error, asyncpg.PostgresError):
        return (error.sqlstate or "")[:2] in WAITED_FOR
    return isinstance(error, OSError | TimeoutError | asyncpg.InterfaceError)


async def through_outages(step: Callable[[], Awaitable[T]], what: str, *, first_pause: float = FIRST_PAUSE) -> T:
    """The step's result, however long that takes: it is tried again, with back-off up to 5 s, while a part is away.

    Any other error is the step's own and raised. The step must be safe to repeat.
    """
    pause = first_pause
    while True:
        try:
            return await step()
        except Exception as error:
            if not is_outage(error):
                raise
            log.warning("%s waits %.1f s: %s: %s", what, pause, type(error).__name__, error)
        await asyncio.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)
