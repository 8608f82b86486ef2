"""Many desktops in one process, for load tests and the demo (2-desktop §2.4)."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from desktop.client import DesktopClient, http_client
from desktop.config import DesktopConfig
from desktop.connection import ConnectionRefused
from desktop.events import Observer

log = logging.getLogger(__name__)

# Calls are short: a few connections carry those of hundreds of desktops, and the pool looks through them at each call.
FEWEST_CONNECTIONS: Final = 20
MOST_CONNECTIONS: Final = 100


async def run_fleet(
    configs: Sequence[DesktopConfig],
    observer: Observer | None = None,
    *,
    stop: asyncio.Event | None = None,
    finish: bool = False,
    spread: float = 0.0,
) -> list[ConnectionRefused]:
    """Run all clients until `stop` is set (or the caller is cancelled), over one HTTP client.

    They start evenly within `spread` seconds, and their heartbeats keep these distances. A client that the hub refuses
    is logged and leaves the others running; the refusals are the answer. Ends by itself only when every client was
    refused. All configs must name the same `api_url`.
    """
    if not configs:
        return []
    connections = min(max(FEWEST_CONNECTIONS, 2 * len(configs)), MOST_CONNECTIONS)
    async with http_client(configs[0].api_url, connections=connections) as http:
        clients = [DesktopClient(config, observer, http=http) for config in configs]
        return await _run_all(clients, stop or asyncio.Event(), finish, spread / len(clients))


async def _run_all(
    clients: list[DesktopClient], stop: asyncio.Event, finish: bool, distance: float
) -> list[ConnectionRefused]:
    running = [
        asyncio.create_task(_run_one(client, number * distance, stop), name=client.config.client_id)
        for number, client in enumerate(clients)
    ]
    stopping = asyncio.create_task(_stop_all(clients, stop, finish))
    try:
        ended = await asyncio.gather(*running)
        return [refused for refused in ended if refused is not None]
    finally:
        for task in [*running, stopping]:
            task.cancel()
        await asyncio.gather(*running, stopping, return_exceptions=True)


async def _run_one(client: DesktopClient, after: float, stop: asyncio.Event) -> ConnectionRefused | None:
    if await _stopped_within(after, stop):
        return None
    try:
        await client.run()
    except ConnectionRefused as refused:
        log.error("desktop %s was refused: %s", client.config.name or client.config.client_id, refused)
        return refused
    return None


async def _stopped_within(seconds: float, stop: asyncio.Event) -> bool:
    if seconds > 0:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await stop.wait()
    return stop.is_set()


async def _stop_all(clients: list[DesktopClient], stop: asyncio.Event, finish: bool) -> None:
    await stop.wait()
    for client in clients:
        await client.stop(finish=finish)
