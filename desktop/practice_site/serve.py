"""Serves the practice site on the loopback address."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn

from desktop.practice_site.site import PracticeSite
from domain.errors import PortTaken


@asynccontextmanager
async def served(site: PracticeSite, port: int = 0) -> AsyncIterator[str]:
    """The site's address while it runs; `port` 0: any free one. PortTaken."""
    try:
        listening = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise PortTaken(f"port {port} is taken; give another one with --port") from error
    config = uvicorn.Config(site.app(), log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]), name="practice site")
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
        listening.close()


class _Server(uvicorn.Server):
    """Signals are the command's, or the test's, own matter."""

    def install_signal_handlers(self) -> None:
        return
