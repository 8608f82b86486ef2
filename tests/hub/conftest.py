"""A hub on real sockets and the real broker, with a backend in memory, and desktops to connect to it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID, uuid4

import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from broker.connection import BrokerConnection
from broker.dispatch_queue import DispatchQueue, publish_control
from broker.publisher import Publisher
from domain.hub_port import ClientIdentity
from domain.protocol import (
    PATH,
    SUBPROTOCOL,
    AnyServerFrame,
    ClientFrame,
    HeldAttempt,
    Hello,
    Snapshot,
    decode_server_frame,
    encode,
)
from domain.transport import DISPATCH_EXCHANGE, ClientClosed, ControlHint, DispatchMessage, TaskHint
from hub.ports import Limits
from hub.server import Hub
from tests.hub.memory_backend import MemoryBackend

F = TypeVar("F")
# Long to authenticate: a busy machine must not cut off a test that is not about silence.
LIMITS = Limits(authentication_seconds=20.0, heartbeat_fold_seconds=0.05, close_seconds=2.0, longest_pause=0.2)


@dataclass
class Desk:
    """A desktop's end of a connection."""

    socket: ClientConnection
    client: ClientIdentity
    seen: list[AnyServerFrame] = field(default_factory=list)

    async def send(self, frame: ClientFrame) -> None:
        await self.socket.send(encode(frame))

    async def frame(self) -> AnyServerFrame:
        async with asyncio.timeout(20):
            frame = decode_server_frame(await self.socket.recv())
        self.seen.append(frame)
        return frame

    async def next(self, kind: type[F]) -> F:
        """The next frame of a kind; others are kept in `seen`."""
        while not isinstance(frame := await self.frame(), kind):
            pass
        return frame

    async def hello(self, *held: HeldAttempt, generation: int = 0) -> Snapshot:
        """Say hello; the (last page of the) snapshot."""
        await self.send(Hello(id=uuid4().hex, held=list(held), highest_generation=generation))
        while not (page := await self.next(Snapshot)).last:
            pass
        return page

    async def closed(self) -> int | None:
        """The code with which the hub closes."""
        return await close_code(self.socket)


def drop(socket: ClientConnection) -> None:
    """End a connection without a closing handshake."""
    if not socket.transport.is_closing():
        socket.transport.abort()


async def close_code(socket: ClientConnection) -> int | None:
    """Read to the end; the close code."""
    try:
        async with asyncio.timeout(20):
            while True:
                await socket.recv()
    except ConnectionClosed:
        return socket.close_code


@dataclass
class Rig:
    """One hub, its backend, and a way to publish to its clients as the pump does."""

    hub: Hub
    backend: MemoryBackend
    publisher: Publisher
    queue: DispatchQueue
    stack: AsyncExitStack

    def url(self, query: str = "", path: str = PATH) -> str:
        return f"ws://127.0.0.1:{self.hub.port}{path}{query}"

    async def socket(self, token: str | None = None, query: str = "", **options: Any) -> ClientConnection:
        """A bare connection."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        options = {"subprotocols": [Subprotocol(SUBPROTOCOL)], "ping_interval": None, **options}
        socket = await connect(self.url(query), additional_headers=headers, **options)
        self.stack.callback(drop, socket)
        return socket

    async def desk(self, known: tuple[str, ClientIdentity] | None = None, **options: Any) -> Desk:
        """An authenticated desktop that has not said hello."""
        token, client = known or self.backend.register()
        return Desk(await self.socket(token, **options), client)

    async def publish(self, message: DispatchMessage) -> bool:
        key = f"monitor.high.{message.client_id}"
        return await self.publisher.publish(DISPATCH_EXCHANGE, key, msgspec.json.encode(message), persistent=False)

    async def hint(self, client: ClientIdentity, task_id: UUID) -> bool:
        return await self.publish(TaskHint(task_id=str(task_id), client_id=str(client.client_id)))

    async def order(self, client: ClientIdentity, task_id: UUID, generation: int) -> bool:
        return await self.publish(
            ControlHint(
                client_id=str(client.client_id),
                task_id=str(task_id),
                control="interrupt_requested",
                interrupt_generation=generation,
            )
        )


MakeRig = Callable[..., Awaitable[Rig]]


@pytest.fixture
async def backend() -> MemoryBackend:
    return MemoryBackend()


@pytest.fixture
async def make_rig(
    broker: BrokerConnection,
    publisher: Publisher,
    prefix: str,
    backend: MemoryBackend,
) -> AsyncIterator[MakeRig]:
    """Starts hubs on one backend and one broker."""
    async with AsyncExitStack() as stack:

        async def make(
            connection: BrokerConnection = broker,
            limits: Limits = LIMITS,
            over: Any = backend,
            queues: type[DispatchQueue] = DispatchQueue,
        ) -> Rig:
            queue = await stack.enter_async_context(queues(connection, prefix=prefix))

            async def announce(message: ClientClosed) -> None:
                await publish_control(publisher, message)

            hub = Hub(over, queue, publish_control=announce, limits=limits)
            await stack.enter_async_context(hub.serve("127.0.0.1", 0))
            await queue.ready.wait()
            return Rig(hub, over, publisher, queue, stack)

        yield make


@pytest.fixture
async def rig(make_rig: MakeRig) -> Rig:
    """One hub."""
    return await make_rig()
