"""`/metrics` of a process that has no API, and probes for whoever balances or restarts it."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import orjson
import uvicorn

from domain.errors import PortTaken
from telemetry.exposition import CONTENT_TYPE, exposition
from telemetry.metrics import REGISTRY
from telemetry.readings import Readings

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, Scope

GRACE_SECONDS = 2
PROBES: Final = ("/healthz", "/readyz")


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether new clients are welcome, and what is shown of the process's state."""

    ready: bool
    shown: Mapping[str, object]


@asynccontextmanager
async def serve_metrics(
    host: str,
    port: int,
    readings: Readings | None = None,
    *,
    readiness: Callable[[], Readiness] | None = None,
    variable: str = "WORKER_METRICS_PORT",
) -> AsyncIterator[None]:
    """Serve while entered. Port 0: nothing is served. Raises PortTaken, naming the setting `variable`.

    `readings` are refreshed before each scrape. With `readiness` there are `/healthz` (the process answers) and
    `/readyz` (200, or 503 while it is not ready) too.
    """
    if port == 0:
        yield
        return
    listening = _listen(host, port, variable)
    config = uvicorn.Config(
        _app(readings, readiness),
        lifespan="off",
        log_config=None,
        access_log=False,
        ws="none",
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    server = _Server(config)
    if readings is not None:
        REGISTRY.register(readings)
    serving = asyncio.create_task(server.serve(sockets=[listening]), name="metrics")
    try:
        yield
    finally:
        server.should_exit = True
        await serving
        if readings is not None:
            REGISTRY.unregister(readings)


class _Server(uvicorn.Server):
    """Signals are the command's business."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the handlers that are there."""
        yield


def _listen(host: str, port: int, variable: str) -> socket.socket:
    try:
        return socket.create_server((host, port))
    except OSError as error:
        raise PortTaken(
            f"{host}:{port} cannot be listened on ({error.strerror});"
            f" set {variable} to a free one, or to 0 to serve no metrics"
        ) from error


def _app(
    readings: Readings | None, readiness: Callable[[], Readiness] | None
) -> "Callable[[Scope, ASGIReceiveCallable, ASGISendCallable], Awaitable[None]]":
    async def answer(method: str, path: str) -> tuple[int, str, bytes]:
        if (method, path) == ("GET", "/metrics"):
            if readings is not None:
                await readings.refresh()
            return 200, CONTENT_TYPE, exposition(REGISTRY)
        if readiness is not None and method == "GET" and path in PROBES:
            state = readiness()
            alive = path == "/healthz"
            shown = {"status": "ok"} if alive else state.shown
            return 200 if alive or state.ready else 503, "application/json", orjson.dumps(shown)
        return 404, "text/plain", b"there is GET /metrics\n"

    async def app(scope: "Scope", receive: "ASGIReceiveCallable", send: "ASGISendCallable") -> None:
        if scope["type"] == "http":
            await _send(send, *await answer(scope["method"], scope["path"]))

    return app


async def _send(send: "ASGISendCallable", status: int, kind: str, body: bytes) -> None:
    headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers, "trailers": False})
    await send({"type": "http.response.body", "body": body, "more_body": False})
