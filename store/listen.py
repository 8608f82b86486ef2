"""LISTEN with self-healing: wake-ups are hints, so every waiter polls as well."""

import asyncio
import logging
from collections import defaultdict
from typing import Final, Self

import asyncpg

from store.database import Connection

log = logging.getLogger(__name__)

# Channel names; NOTIFY is sent by the statements that change what the channel is about.
DISPATCH: Final = "giveway_dispatch"
OUTBOX_AMQP: Final = "giveway_outbox_amqp"
OUTBOX_SIGNAL: Final = "giveway_outbox_signal"
PROJECTION: Final = "giveway_projection"
PROXY: Final = "giveway_proxy"
REQUESTS: Final = "giveway_requests"
CHANNELS: Final = (DISPATCH, OUTBOX_AMQP, OUTBOX_SIGNAL, PROJECTION, PROXY, REQUESTS)

PROBE_SECONDS: Final = 5.0


class Listener:
    """One connection a process that turns NOTIFY into events.

    LISTEN dies silently when the connection does: the listener probes it every 5 s, reconnects with back-off and
    wakes everybody then, since notifications may have been missed.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._waiters: dict[str, set[asyncio.Event]] = defaultdict(set)
        self._task: asyncio.Task[None] | None = None
        self.ready = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="listener")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def subscribe(self, channel: str) -> asyncio.Event:
        """An event set at each notification of the channel; the waiter clears it before it looks."""
        event = asyncio.Event()
        self._waiters[channel].add(event)
        return event

    def unsubscribe(self, channel: str, event: asyncio.Event) -> None:
        """Forget a waiter's event."""
        self._waiters[channel].discard(event)

    def _wake(self, channel: str) -> None:
        for event in self._waiters[channel]:
            event.set()

    def _notified(self, _connection: object, _pid: int, channel: str, _payload: object) -> None:
        self._wake(channel)

    async def _run(self) -> None:
        pause = 0.1
        while True:
            try:
                await self._listen_until_lost()
                pause = 0.1
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError) as error:
                log.warning("listen connection lost: %s; again in %.1f s", error, pause)
            self.ready.clear()
            await asyncio.sleep(pause)
            pause = min(pause * 2, 2.0)

    async def _listen_until_lost(self) -> None:
        connection = await asyncpg.connect(
            self._url, timeout=10, server_settings={"application_name": "giveway-listen"}
        )
        try:
            for channel in CHANNELS:
                await connection.add_listener(channel, self._notified)
            self.ready.set()
            for channel in CHANNELS:
                self._wake(channel)
            while True:
                await asyncio.sleep(PROBE_SECONDS)
                await connection.fetchval("select 1", timeout=PROBE_SECONDS)
        finally:
            connection.terminate()


async def wake(connection: Connection, *channels: str) -> None:
    """Wake the channels' listeners when this transaction commits; a rolled-back one wakes nobody."""
    await connection.execute("select pg_notify(channel, '') from unnest($1::text[]) channel", channels)


async def wait_for_wake(event: asyncio.Event, timeout: float) -> bool:
    """Wait for a wake-up at most `timeout` seconds; True if it came. Clears the event.

    Not by `asyncio.wait_for`: in Python 3.11 it loses a cancel that comes in the moment of the wake-up.
    """
    try:
        async with asyncio.timeout(timeout):
            await event.wait()
    except TimeoutError:
        return False
    finally:
        event.clear()
    return True
