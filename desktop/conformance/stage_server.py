"""Serves a stage: the WebSocket by `websockets`, the REST calls by uvicorn on a second port."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from websockets.asyncio.server import Server, serve
from websockets.typing import Subprotocol

from desktop.conformance.stage import Address, Stage
from desktop.conformance.stage_rest import StageRest
from domain import protocol

# A client that sends more than the protocol allows is to be told so, not cut off by the library.
LARGEST_READ = 16 * protocol.MAX_FRAME_BYTES


@asynccontextmanager
async def serving(stage: Stage, host: str = "127.0.0.1", port: int = 0, rest_port: int = 0) -> AsyncIterator[Address]:
    """Listen; 0 takes a free port. OSError when a port is taken. The address is the stage's own from then on."""
    async with (
        _rest(stage, host, rest_port) as api_url,
        serve(
            stage.serve_socket,
            host,
            port,
            process_request=stage.check_path,
            # No version in common: the handshake succeeds all the same, so that the client gets a close code.
            select_subprotocol=lambda _connection, offered: _common(offered),
            subprotocols=[Subprotocol(one) for one in protocol.SUPPORTED],
            max_size=LARGEST_READ,
            compression=None,
            close_timeout=1,
        ) as server,
    ):
        ws_url = f"ws://{_host(host)}:{_port_of(server)}{protocol.PATH}"
        stage.address = Address(ws_url, api_url, stage.client_id, stage.device_token)
        yield stage.address


def _common(offered: Sequence[Subprotocol]) -> Subprotocol | None:
    version = protocol.negotiate(list(offered))
    return None if version is None else Subprotocol(version)


class _Server(uvicorn.Server):
    """Signals are the command's business."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the handlers that are there."""
        yield


@asynccontextmanager
async def _rest(stage: Stage, host: str, port: int) -> AsyncIterator[str]:
    listening = socket.create_server((host, port))
    config = uvicorn.Config(
        StageRest(stage).app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1
    )
    server = _Server(config)
    running = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield f"http://{_host(host)}:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        await running
        listening.close()


def _port_of(server: Server) -> int:
    port: int = next(iter(server.sockets)).getsockname()[1]
    return port


def _host(host: str) -> str:
    """A name that a client on this machine can connect to."""
    return "127.0.0.1" if host in ("", "0.0.0.0") else host
