"""Composition root of the server process: the REST API, the desktop hub, or both side by side in one event loop."""

import asyncio
import logging
import resource
import socket
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import uvicorn

from broker.connection import BrokerConnection
from broker.dispatch_queue import DispatchQueue, publish_control
from broker.publisher import Publisher
from domain.errors import PortTaken
from hub.ports import HubStatus, Limits
from hub.server import Hub
from settings import Settings
from store.database import open_pool
from store.hub_backend import StoreHubBackend
from telemetry import metrics
from telemetry.server import Readiness, serve_metrics

log = logging.getLogger(__name__)

T = TypeVar("T")

# From SIGTERM to the end of the process it is 10 s: the drain, then each connection to another server.
DRAIN_SECONDS: Final = 8
CLOSE_SECONDS: Final = 0.5
# Of the hub's pool, what greetings leave to grants, beats and reports.
RESERVED_CONNECTIONS: Final = 2
# Files that are no desktop's socket: servers, broker, database, API.
OTHER_FILES: Final = 256


class Role(StrEnum):
    """What a server process serves."""

    API = "api"
    HUB = "hub"


async def run_server(
    settings: Settings,
    stop: asyncio.Event,
    *,
    roles: frozenset[Role] = frozenset(Role),
    hurry: asyncio.Event | None = None,
) -> None:
    """Serve until `stop`; then send the desktops away with 1012 and finish open requests, within 10 s.

    `hurry` cuts the end short. Raises PortTaken, and what the database's client raises when there is none.
    """
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(running_hub(settings)) if Role.HUB in roles else None
        http = await stack.enter_async_context(_running_api(settings, stop)) if Role.API in roles else None
        _announce(settings.giveway_ready_file)
        await _first(stop.wait(), *([http.ended()] if http else []))
        async with _hurrying(hurry or asyncio.Event(), hub, http):
            await asyncio.gather(*([hub.stop()] if hub else []), *([http.finish()] if http else []))


def _announce(path: str) -> None:
    """Tell the supervisor, if there is one, that this process serves."""
    if path:
        Path(path).write_text("ready\n", encoding="utf-8")


@asynccontextmanager
async def _hurrying(hurry: asyncio.Event, hub: Hub | None, http: "_HttpServer | None") -> AsyncIterator[None]:
    async def wait() -> None:
        await hurry.wait()
        if hub is not None:
            hub.hurry()
        if http is not None:
            http.force_exit = True

    waiting = asyncio.create_task(wait(), name="hurry")
    try:
        yield
    finally:
        waiting.cancel()


# --- the hub ----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def running_hub(settings: Settings) -> AsyncIterator[Hub]:
    """The hub on its port, with its endpoint for metrics and probes; leaving stops it."""
    async with AsyncExitStack() as stack:
        connections = settings.hub_database_connections
        pool = await open_pool(settings.database_url, size=connections, name="giveway-hub", stateless=True)
        stack.push_async_callback(lambda: _within(CLOSE_SECONDS, pool.close()))
        # Two connections: under a memory alarm the broker blocks a whole connection that publishes, consumers too.
        broker, outgoing = [
            await stack.enter_async_context(_bounded(BrokerConnection(settings.amqp_url, name=name)))
            for name in ("giveway-hub", "giveway-hub-control")
        ]
        publisher = Publisher(outgoing, shards=settings.ingest_shards, prefix=settings.amqp_prefix)
        queue = await stack.enter_async_context(_bounded(DispatchQueue(broker, prefix=settings.amqp_prefix)))
        hub = Hub(
            StoreHubBackend(pool, hub=settings.hub_instance),
            queue,
            publish_control=partial(publish_control, publisher),
            limits=hub_limits(settings),
        )
        metrics.hub_bindings.set_function(lambda: queue.bound)
        metrics.hub_tasks.set_function(partial(_tasks, asyncio.get_running_loop()))
        await stack.enter_async_context(_endpoint(settings, hub, queue))
        await stack.enter_async_context(_listening(hub, settings))
        yield hub


def _tasks(loop: asyncio.AbstractEventLoop) -> int:
    return len(asyncio.all_tasks(loop))


def hub_limits(settings: Settings) -> Limits:
    """The hub's bounds; fewer connections where the system gives the process fewer open files."""
    wanted = settings.hub_max_connections + settings.hub_max_pending
    room = _allow_files(wanted + OTHER_FILES) - OTHER_FILES
    pending = settings.hub_max_pending if room == wanted else max(1, min(settings.hub_max_pending, room // 4))
    return Limits(
        handshake_seconds=settings.hub_handshake_seconds,
        authentication_seconds=settings.hub_authentication_seconds,
        header_bytes=settings.hub_header_bytes,
        max_connections=max(1, min(settings.hub_max_connections, room - pending)),
        max_pending=pending,
        frames_per_second=settings.hub_frames_per_second,
        frames_burst=settings.hub_frames_burst,
        ping_interval=settings.hub_ping_interval,
        ping_timeout=settings.hub_ping_timeout,
        drain_seconds=settings.hub_drain_seconds,
        drain_closes_per_second=settings.hub_drain_closes_per_second,
        drain_spread_seconds=settings.hub_drain_spread_seconds,
        greetings_at_once=settings.hub_database_connections - RESERVED_CONNECTIONS,
    )


def _allow_files(wanted: int) -> int:
    """Raise the number of open files towards `wanted`; how many there may be then, `wanted` at most."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < wanted:
        log.warning("only %d open files are allowed, %d wanted: the hub takes fewer connections", allowed, wanted)
    return allowed


def _endpoint(settings: Settings, hub: Hub, queue: DispatchQueue) -> AbstractAsyncContextManager[None]:
    def readiness() -> Readiness:
        state = hub.state
        # Without the broker it serves from snapshots: nobody is better off elsewhere, all hubs share it.
        broker = "up" if queue.ready.is_set() else "down"
        shown = {"status": state.status, "connections": state.connections, "pending": state.pending, "broker": broker}
        return Readiness(state.status is HubStatus.READY, shown)

    port = settings.hub_metrics_port
    return serve_metrics(settings.metrics_host, port, readiness=readiness, variable="HUB_METRICS_PORT")


@asynccontextmanager
async def _listening(hub: Hub, settings: Settings) -> AsyncIterator[None]:
    try:
        await hub.start(settings.hub_host, settings.hub_port)
    except OSError as error:
        where = f"{settings.hub_host}:{settings.hub_port}"
        raise PortTaken(f"{where} cannot be listened on ({error.strerror}); set HUB_PORT to a free one") from error
    log.info("hub %s on ws://%s:%d", settings.hub_instance, settings.hub_host, hub.port)
    try:
        yield
    finally:
        await hub.stop()


# --- the API ----------------------------------------------------------------------------------------------------------


class _HttpServer(uvicorn.Server):
    """Signals are the command's business: it stops the hub and the API together."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._listens = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the handlers that are there."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn."""
        await super().startup(sockets)
        self._listens.set()

    async def begin(self, listening: socket.socket) -> None:
        """Returns once it answers."""
        self._serving = asyncio.create_task(self.serve(sockets=[listening]), name="http")
        await _first(self._listens.wait(), self.ended())

    async def ended(self) -> None:
        """Returns when it serves no more, for whatever reason."""
        if self._serving is not None:
            await asyncio.shield(self._serving)

    async def finish(self) -> None:
        """Take no more, and finish what is open within DRAIN_SECONDS."""
        self.should_exit = True
        await self.ended()


@asynccontextmanager
async def _running_api(settings: Settings, stop: asyncio.Event) -> AsyncIterator[_HttpServer]:
    listening = _listen(settings.api_host, settings.api_port, "API_PORT")
    # Here, so that a process that is only a hub spares their memory.
    from api.app import create_app
    from api.state import open_state

    async with _bounded(open_state(settings)) as state:
        app = create_app(settings, state)
        # Streams end with it instead of keeping the server from stopping.
        app.state.stopping = stop
        config = uvicorn.Config(
            app,
            log_config=None,
            # Its access log prints query strings.
            access_log=False,
            timeout_graceful_shutdown=DRAIN_SECONDS,
            ws="none",
        )
        server = _HttpServer(config)
        await server.begin(listening)
        try:
            yield server
        finally:
            await server.finish()


def _listen(host: str, port: int, variable: str) -> socket.socket:
    """A listening socket, or an error that says what to do."""
    try:
        return socket.create_server((host, port), backlog=2048)
    except OSError as error:
        raise PortTaken(
            f"{host}:{port} cannot be listened on ({error.strerror}); set {variable} to a free one"
        ) from error


# --- ends that are waited for only so long ----------------------------------------------------------------------------


async def _first(*waits: Coroutine[Any, Any, object]) -> None:
    """Wait for one of them; a failure of it is raised."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()


@asynccontextmanager
async def _bounded(held: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
    """The resource; a server that does not answer at the end is not waited for."""
    value = await held.__aenter__()
    try:
        yield value
    finally:
        await _within(CLOSE_SECONDS, held.__aexit__(None, None, None))


async def _within(seconds: float, closing: Coroutine[Any, Any, object]) -> None:
    task = asyncio.ensure_future(closing)
    _, late = await asyncio.wait({task}, timeout=seconds)
    if late:
        log.warning("a connection was not closed in %.1f s: it is dropped", seconds)
        task.cancel()
    with suppress(asyncio.CancelledError):
        await task
