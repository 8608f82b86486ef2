"""`/metrics` of a process that serves nothing else."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import uvicorn

from domain.errors import PortTaken
from telemetry.exposition import CONTENT_TYPE, exposition
from telemetry.metrics import REGISTRY
from telemetry.readings import Readings

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, Scope

GRACE_SECONDS = 2


@asynccontextmanager
async def serve_metrics(host: str, port: int, readings: Readings) -> AsyncIterator[None]:
    """Serve while entered, the readings refreshed before each scrape. Port 0: nothing is served. Raises PortTaken."""
    if port == 0:
        yield
        return
    listening = _listen(host, port)
    config = uvicorn.Config(
        _app(readings),
        lifespan="off",
        log_config=None,
        access_log=False,
        ws="none",
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    server = _Server(config)
    REGISTRY.register(readings)
    serving = asyncio.create_task(server.serve(sockets=[listening]), name="metrics")
    try:
        yield
    finally:
        server.should_exit = True
        await serving
        REGISTRY.unregister(readings)


class _Server(uvicorn.Server):
    """Signals are the command's business."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the handlers that are there."""
        yield


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port))
    except OSError as error:
        raise PortTaken(
            f"{host}:{port} cannot be listened on ({error.strerror});"
            " set WORKER_METRICS_PORT to a free one, or to 0 to serve no metrics"
        ) from error


def _app(
    readings: Readings,
) -> "Callable[[Scope, ASGIReceiveCallable, ASGISendCallable], Awaitable[None]]":
    async def app(scope: "Scope", receive: "ASGIReceiveCallable", send: "ASGISendCallable") -> None:
        if scope["type"] != "http":
            return
        if (scope["method"], scope["path"]) == ("GET", "/metrics"):
            await readings.refresh()
            await _answer(send, 200, exposition(REGISTRY))
        else:
            await _answer(send, 404, b"there is GET /metrics\n")

    return app


async def _answer(send: "ASGISendCallable", status: int, body: bytes) -> None:
    headers = [(b"content-type", CONTENT_TYPE.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers, "trailers": False})
    await send({"type": "http.response.body", "body": body, "more_body": False})
