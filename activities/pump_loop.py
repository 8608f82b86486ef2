"""The loop both outbox pumps share: woken by NOTIFY, polling as well, draining until nothing is due."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Final

import asyncpg

from store.listen import Listener, wait_for_wake

log = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.2
LONGEST_PAUSE: Final = 2.0


class Round(Enum):
    """How one round of a pump ended."""

    # Something moved; there may be more.
    MOVED = "moved"
    # Nothing is due.
    IDLE = "idle"
    # The other side (broker, Temporal) took nothing of what was offered.
    AWAY = "away"


async def run_pump(listener: Listener, channel: str, one_round: Callable[[], Awaitable[Round]]) -> None:
    """Repeat rounds until cancelled. An absent database or receiver slows the loop to one round in 2 s, no further.

    Raises what a round raises otherwise (FencedOut).
    """
    wake = listener.subscribe(channel)
    pause = POLL_SECONDS
    try:
        while True:
            ended = await _guarded(one_round)
            if ended is Round.AWAY:
                # Notifications do not help here: they would turn the pause into a busy loop.
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
                continue
            pause = POLL_SECONDS
            if ended is Round.IDLE:
                await wait_for_wake(wake, POLL_SECONDS)
    finally:
        listener.unsubscribe(channel, wake)


async def _guarded(one_round: Callable[[], Awaitable[Round]]) -> Round:
    try:
        return await one_round()
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
        log.warning("pump: the database failed: %r", error)
        return Round.AWAY
