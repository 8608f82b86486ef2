"""Many desktops in one process, for load tests and the demo (2-desktop §2.4)."""

import asyncio
import logging
from collections.abc import Sequence

from desktop.client import DesktopClient, http_client
from desktop.config import DesktopConfig
from desktop.connection import ConnectionRefused
from desktop.events import Observer

log = logging.getLogger(__name__)


async def run_fleet(
    configs: Sequence[DesktopConfig],
    observer: Observer | None = None,
    *,
    stop: asyncio.Event | None = None,
    finish: bool = False,
) -> list[ConnectionRefused]:
    """Run all clients until `stop` is set (or the caller is cancelled), over one HTTP client.

    A client that the hub refuses is logged and leaves the others running; the refusals are the answer. Ends by itself
    only when every client was refused. All configs must name the same `api_url`.
    """
    if not configs:
        return []
    async with http_client(configs[0].api_url, connections=max(20, 2 * len(configs))) as http:
        clients = [DesktopClient(config, observer, http=http) for config in configs]
        return await _run_all(clients, stop or asyncio.Event(), finish)


async def _run_all(clients: list[DesktopClient], stop: asyncio.Event, finish: bool) -> list[ConnectionRefused]:
    running = [asyncio.create_task(_run_one(client), name=client.config.client_id) for client in clients]
    stopping = asyncio.create_task(_stop_all(clients, stop, finish))
    try:
        ended = await asyncio.gather(*running)
        return [refused for refused in ended if refused is not None]
    finally:
        for task in [*running, stopping]:
            task.cancel()
        await asyncio.gather(*running, stopping, return_exceptions=True)


async def _run_one(client: DesktopClient) -> ConnectionRefused | None:
    try:
        await client.run()
    except ConnectionRefused as refused:
        log.error("desktop %s was refused: %s", client.config.name or client.config.client_id, refused)
        return refused
    return None


async def _stop_all(clients: list[DesktopClient], stop: asyncio.Event, finish: bool) -> None:
    await stop.wait()
    for client in clients:
        await client.stop(finish=finish)
