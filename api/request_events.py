"""Changes of one collect-now request as server-sent events: the tenant UI's live progress (1-dispatch §1.5).

Level-triggered: each event is the request as it stands, so a lost one costs nothing and a reader may come back at any
time. No database connection is held between two looks.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from store.listen import REQUESTS, Listener, wait_for_wake

# LISTEN dies silently, so each stream also looks by itself.
LOOK_SECONDS: Final = 2.0
# One request's changes come in bursts, and everybody's wake everybody: a person sees no more than this.
LEAST_SECONDS: Final = 0.2
# Proxies close what is silent for longer.
SILENCE_SECONDS: Final = 15.0
# Reconnecting is cheap, and renews the token.
LONGEST_SECONDS: Final = 600.0
RETRY_MS: Final = 2000

# The request as JSON text, and whether it is over.
Look = Callable[[], Awaitable[tuple[str, bool]]]


async def stream(look: Look, listener: Listener, stopping: asyncio.Event) -> AsyncIterator[str]:
    """An event at once and at each change, until the request is over, 10 minutes have passed, or the process stops."""
    news = listener.subscribe(REQUESTS)
    ends = time.monotonic() + LONGEST_SECONDS
    shown, spoke_at = "", time.monotonic()
    try:
        yield f"retry: {RETRY_MS}\n\n"
        while True:
            text, over = await look()
            if text != shown:
                shown, spoke_at = text, time.monotonic()
                yield f"event: request\ndata: {text}\n\n"
            elif time.monotonic() - spoke_at >= SILENCE_SECONDS:
                spoke_at = time.monotonic()
                yield ": still here\n\n"
            if over or stopping.is_set() or time.monotonic() >= ends:
                return
            await asyncio.sleep(LEAST_SECONDS)
            await wait_for_wake(news, LOOK_SECONDS)
    finally:
        listener.unsubscribe(REQUESTS, news)
