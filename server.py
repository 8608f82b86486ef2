"""Composition root of the server process: the REST API and the desktop hub side by side in one event loop."""

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial

import uvicorn

from api.app import create_app
from broker.connection import BrokerConnection
from broker.dispatch_queue import DispatchQueue, publish_control
from broker.publisher import Publisher
from domain.errors import PortTaken
from hub.server import Hub
from settings import Settings
from store.database import open_pool
from store.hub_backend import StoreHubBackend

log = logging.getLogger(__name__)

# The hub's statements are few and short; sockets hold no connection.
HUB_CONNECTIONS = 5
DRAIN_SECONDS = 10


async def run_server(settings: Settings, stop: asyncio.Event) -> None:
    """Serve until `stop`; then close sockets with 1012 and finish open requests within 10 s."""
    async with AsyncExitStack() as stack:
        await _start_hub(settings, stack)
        listening = _listen(settings.api_host, settings.api_port, "API_PORT")
        server = _http_server(settings, stop)
        serving = asyncio.create_task(server.serve(sockets=[listening]), name="http")
        stopping = asyncio.create_task(stop.wait(), name="stop")
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        await serving
        stopping.cancel()


async def _start_hub(settings: Settings, stack: AsyncExitStack) -> None:
    pool = await open_pool(settings.database_url, size=HUB_CONNECTIONS, name="giveway-hub")
    stack.push_async_callback(pool.close)
    # Two connections: under a memory alarm the broker blocks a whole connection that publishes, consumers too.
    broker = await stack.enter_async_context(BrokerConnection(settings.amqp_url, name="giveway-hub"))
    outgoing = await stack.enter_async_context(BrokerConnection(settings.amqp_url, name="giveway-hub-control"))
    publisher = Publisher(outgoing, shards=settings.ingest_shards, prefix=settings.amqp_prefix)
    queue = await stack.enter_async_context(DispatchQueue(broker, prefix=settings.amqp_prefix))
    hub = Hub(StoreHubBackend(pool), queue, publish_control=partial(publish_control, publisher))
    try:
        await stack.enter_async_context(hub.serve(settings.hub_host, settings.hub_port))
    except OSError as error:
        where = f"{settings.hub_host}:{settings.hub_port}"
        raise PortTaken(f"{where} cannot be listened on ({error.strerror}); set HUB_PORT to a free one") from error
    log.info("hub on ws://%s:%d", settings.hub_host, settings.hub_port)


class _Server(uvicorn.Server):
    """Signals are the command's business: it stops the hub and the API together."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the handlers that are there."""
        yield


def _http_server(settings: Settings, stop: asyncio.Event) -> uvicorn.Server:
    app = create_app(settings)
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
    return _Server(config)


def _listen(host: str, port: int, variable: str) -> socket.socket:
    """A listening socket, or an error that says what to do."""
    try:
        return socket.create_server((host, port), backlog=2048)
    except OSError as error:
        raise PortTaken(
            f"{host}:{port} cannot be listened on ({error.strerror}); set {variable} to a free one"
        ) from error
