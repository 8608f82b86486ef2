"""A tenant's desktops at a hub that runs as a process of its own, and a way to publish to them as the pump does."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import msgspec
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from broker.publisher import Publisher
from domain.errors import BrokerUnavailable
from domain.hub_port import ClientIdentity
from domain.protocol import SUBPROTOCOL, HeldAttempt, Snapshot, decode_server_frame
from domain.transport import DISPATCH_EXCHANGE, ControlHint, DispatchMessage, TaskHint
from store.database import Pool
from tests.hub.conftest import Desk, drop
from tests.support.hub_server import HubServer
from tests.support.raw_socket import RawSocket
from tests.support.result_queues import until
from tests.support.world import Desktop, World


@dataclass
class HubRig:
    """The server, one tenant, and everything that a test opened."""

    server: HubServer
    world: World
    publisher: Publisher
    stack: AsyncExitStack

    @property
    def pool(self) -> Pool:
        return self.world.pool

    async def desk(self, client: Desktop | None = None) -> Desk:
        """A client that has said hello and has its snapshot."""
        desk = await self.connect(client or await self.world.client(online=False))
        await desk.hello()
        return desk

    async def connect(self, client: Desktop, **options: Any) -> Desk:
        """A client that has not said hello."""
        options = {"subprotocols": [Subprotocol(SUBPROTOCOL)], "ping_interval": None, "compression": None, **options}
        headers = {"Authorization": f"Bearer {client.token}"}
        socket = await connect(self.server.url, additional_headers=headers, **options)
        self.stack.callback(drop, socket)
        return Desk(socket, ClientIdentity(client.id, self.world.tenant_id))

    async def peer(self, token: str | None = None, **options: Any) -> RawSocket:
        """A peer after the handshake."""
        return self.kept(await RawSocket.upgraded(self.server.url, token, **options))

    async def stranger(self, query: str = "", **options: Any) -> RawSocket:
        """A peer that has said nothing yet."""
        return self.kept(await RawSocket.open(self.server.url + query, **options))

    async def greeted(
        self, client: Desktop | None = None, *, held: Sequence[HeldAttempt] = (), **options: Any
    ) -> RawSocket:
        """A peer that has its snapshot."""
        client = client or await self.world.client(online=False)
        peer = await self.peer(client.token, **options)
        await peer.hello(held)
        while not isinstance(page := decode_server_frame(await peer.text()), Snapshot) or not page.last:
            pass
        return peer

    def kept(self, peer: RawSocket) -> RawSocket:
        self.stack.callback(peer.close)
        return peer

    async def hint(self, client_id: UUID, task_id: UUID) -> bool:
        return await push(self.publisher, client_id, task_id)

    async def order(self, client_id: UUID, *, generation: int = 1, reason: str = "") -> bool:
        """An order about some task; `reason` makes it as large as a test needs."""
        hint = ControlHint(
            client_id=str(client_id),
            task_id=str(uuid4()),
            control="interrupt_requested",
            interrupt_generation=generation,
            reason=reason,
        )
        return await publish(self.publisher, hint)

    async def online(self) -> int:
        """Clients that the database believes connected."""
        count: int = await self.pool.fetchval(
            "select count(*) from desktop_clients where tenant_id = $1 and online", self.world.tenant_id
        )
        return count


async def desks_of(rig: HubRig, count: int) -> list[tuple[Desktop, Desk]]:
    """New clients, each greeted."""
    clients = [await rig.world.client(online=False) for _ in range(count)]
    return [(client, await rig.desk(client)) for client in clients]


async def waiting(rig: HubRig, client: Desktop) -> UUID:
    """A task that waits for the client, unleased."""
    return await rig.world.execution_task(await rig.world.business_task(), client.id)


async def push(publisher: Publisher, client_id: UUID, task_id: UUID) -> bool:
    """A task's hint, as the pump sends it; whether a hub held the client."""
    return await publish(publisher, TaskHint(task_id=str(task_id), client_id=str(client_id)))


async def publish(publisher: Publisher, message: DispatchMessage) -> bool:
    """Whether a hub held the client; again while the broker does not answer, as the pump does."""
    key = f"monitor.high.{message.client_id}"
    while True:
        with suppress(BrokerUnavailable):
            return await publisher.publish(DISPATCH_EXCHANGE, key, msgspec.json.encode(message), persistent=False)
        await asyncio.sleep(0.1)


async def ended(desk: Desk) -> int | None:
    """Read to the end, keeping what comes in `seen`; the close code."""
    with suppress(ConnectionClosed):
        while True:
            await desk.frame()
    return desk.socket.close_code


MakeRig = Callable[..., Awaitable[HubRig]]


@asynccontextmanager
async def hub_rig(server: HubServer, pool: Pool, publisher: Publisher) -> AsyncIterator[HubRig]:
    """A rig on a server that runs, with a tenant of its own; its sockets end with it."""
    async with AsyncExitStack() as stack:
        rig = HubRig(server, await World.create(pool), publisher, stack)
        await _warm(rig)
        yield rig


async def _warm(rig: HubRig) -> None:
    """One desktop comes and goes: what is made at the first need is there before anything is counted."""
    desk = await rig.desk()
    await desk.socket.close()

    async def gone() -> bool:
        return await rig.online() == 0 and (await rig.server.counts())["clients"] == 0

    await until(gone)
