"""Several hubs behind one address, on one database and one broker (2-desktop §2.1)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from activities.presence import PresenceSweeper
from broker.connection import BrokerConnection
from broker.dispatch_queue import DispatchQueue
from domain.hub_port import ClientIdentity
from domain.lanes import Lane
from domain.protocol import PATH, SUBPROTOCOL, CloseCode, Heartbeat, ServerAck, Snapshot, TaskAvailable, TaskControl
from domain.transport import DispatchMessage, TaskHint
from store import residents
from store.database import Pool, open_pool
from store.hub_backend import StoreHubBackend
from tests.conftest import Servers
from tests.hub.conftest import Desk, MakeRig, Rig, drop
from tests.support.broker import until
from tests.support.tcp_proxy import RoundRobin, TcpProxy
from tests.support.world import Desktop, World, ago


class Ear(DispatchQueue):
    """A hub's queue that remembers what the broker sent it."""

    def __init__(self, connection: BrokerConnection, *, prefix: str = "") -> None:
        super().__init__(connection, prefix=prefix)
        self.heard: list[DispatchMessage] = []

    def _receive(self, body: bytes) -> None:
        self.heard.append(msgspec.json.decode(body, type=DispatchMessage))
        super()._receive(body)

    def hints(self) -> list[str]:
        return [message.client_id for message in self.heard if isinstance(message, TaskHint)]


@dataclass
class Instance:
    """One hub with a pool and a broker connection of its own, as its own process would have."""

    rig: Rig
    ear: Ear
    pool: Pool

    def die(self) -> None:
        """As kill -9: nothing more gets out of it, to nobody."""
        self.pool.terminate()
        self.rig.hub.backend = _Dead()  # type: ignore[assignment]
        server = self.rig.hub._server
        assert server is not None
        server.server.close()
        for connection in list(server.all_connections):
            connection.transport.abort()


class _Dead:
    """The backend of a process that is no more."""

    def __getattr__(self, name: str) -> Any:
        async def never(*_arguments: object) -> None:
            await asyncio.Event().wait()

        return never


@dataclass
class Fleet:
    """Two hubs behind one address."""

    instances: list[Instance]
    proxy: RoundRobin
    world: World
    stack: AsyncExitStack

    async def desk(self, desktop: Desktop) -> Desk:
        """A desktop at whichever hub is next."""
        headers = {"Authorization": f"Bearer {desktop.token}"}
        socket = await connect(
            self.proxy.url + PATH,
            additional_headers=headers,
            subprotocols=[Subprotocol(SUBPROTOCOL)],
            ping_interval=None,
        )
        self.stack.callback(drop, socket)
        return Desk(socket, ClientIdentity(desktop.id, self.world.tenant_id))

    def holder(self, desktop: Desktop) -> Instance:
        """The instance that has the client."""
        [holder] = [each for each in self.instances if each.rig.hub._registry.find(desktop.id) is not None]
        return holder

    async def row(self, desktop: Desktop) -> dict[str, Any]:
        return await self.world.row("desktop_clients", desktop.id)

    async def queued(self, desktop: Desktop, *, high: bool = False) -> UUID:
        """A task that waits for its lease; a high one belongs to an open request."""
        lane = Lane.HIGH if high else Lane.NORMAL
        request = await self.world.request(client_id=desktop.id) if high else None
        business = await self.world.business_task(lane=lane, request_id=request, client_id=desktop.id)
        return await self.world.execution_task(business, desktop.id)

    async def hint(self, desktop: Desktop, task_id: UUID) -> bool:
        return await self.instances[0].rig.hint(ClientIdentity(desktop.id, self.world.tenant_id), task_id)


@pytest.fixture
async def fleet(make_rig: MakeRig, pool: Pool, database_url: str, servers: Servers) -> AsyncIterator[Fleet]:
    async with AsyncExitStack() as stack:
        instances = []
        for name in ("a", "b"):
            own = await open_pool(database_url, size=3, name=f"hub-{name}")
            stack.callback(own.terminate)
            connection = await stack.enter_async_context(BrokerConnection(servers.amqp_url, name=name))
            rig = await make_rig(connection, over=StoreHubBackend(own, hub=name), queues=Ear)
            assert isinstance(rig.queue, Ear)
            instances.append(Instance(rig, rig.queue, own))
        ports = [f"ws://127.0.0.1:{each.rig.hub.port}" for each in instances]
        proxy = await stack.enter_async_context(RoundRobin(ports))
        yield Fleet(instances, proxy, await World.create(pool), stack)
        # Before what they stand on is taken away.
        for each in instances:
            each.rig.hub.hurry()
            await each.rig.hub.stop()


async def test_a_client_that_comes_back_at_the_other_hub_replaces_the_older_connection_and_stays_online(
    fleet: Fleet,
) -> None:
    desktop = await fleet.world.client(online=False)
    older = await fleet.desk(desktop)
    await older.hello()
    first = fleet.holder(desktop)
    newer = await fleet.desk(desktop)
    await newer.hello()
    assert await older.closed() == CloseCode.REPLACED
    await until(lambda: first.rig.hub.connections == 0)
    # The older hub has reported the end of its connection; it changes nothing.
    await first.rig.hub.stop()
    second = fleet.holder(desktop)
    assert second is not first
    row = await fleet.row(desktop)
    assert (row["online"], row["lost_at"]) == (True, None)
    await newer.send(Heartbeat(id="b"))
    assert (await newer.next(ServerAck)).ref == "b"


async def test_each_hub_is_bound_for_exactly_the_clients_it_holds(fleet: Fleet) -> None:
    desktops = [await fleet.world.client(online=False) for _ in range(6)]
    desks = {desktop.id: await fleet.desk(desktop) for desktop in desktops}
    for desk in desks.values():
        await desk.hello()
    assert [each.ear.bound for each in fleet.instances] == [3, 3]
    for desktop in desktops:
        assert await fleet.hint(desktop, await fleet.queued(desktop))
        await desks[desktop.id].next(TaskAvailable)
    for instance in fleet.instances:
        here = {str(each.id) for each in desktops if fleet.holder(each) is instance}
        assert len(instance.ear.hints()) == 3
        assert set(instance.ear.hints()) == here
    for desk in desks.values():
        await desk.socket.close()
    await until(lambda: not any(each.rig.hub.connections + each.ear.bound for each in fleet.instances))
    for desktop in desktops:
        # The broker knows nobody who would want it. An unbinding is an answer later than the count.
        async with asyncio.timeout(20):
            while await fleet.hint(desktop, uuid4()):
                await asyncio.sleep(0.01)


async def test_a_client_that_moves_takes_its_binding_with_it(fleet: Fleet) -> None:
    desktop = await fleet.world.client(online=False)
    older = await fleet.desk(desktop)
    await older.hello()
    first = fleet.holder(desktop)
    newer = await fleet.desk(desktop)
    await newer.hello()
    await until(lambda: first.rig.hub.connections == 0 and first.ear.bound == 0)
    before = len(first.ear.hints())
    assert await fleet.hint(desktop, await fleet.queued(desktop))
    await newer.next(TaskAvailable)
    await first.rig.order(newer.client, uuid4(), 3)
    await newer.next(TaskControl)
    assert len(first.ear.hints()) == before


async def test_the_clients_of_a_hub_that_dies_go_on_at_the_other_with_everything_they_should_know(fleet: Fleet) -> None:
    desktops = [await fleet.world.client(online=False) for _ in range(4)]
    desks = {desktop.id: await fleet.desk(desktop) for desktop in desktops}
    for desk in desks.values():
        await desk.hello()
    dead = fleet.holder(desktops[0])
    stranded = [each for each in desktops if fleet.holder(each) is dead]
    assert len(stranded) == 2
    dead.die()
    waiting = {desktop.id: await fleet.queued(desktop) for desktop in stranded}
    for desktop in stranded:
        assert await desks[desktop.id].closed() == 1006
        # Nobody has said that it left, and nobody will.
        assert (await fleet.row(desktop))["online"]
        again = await fleet.desk(desktop)
        snapshot = await again.hello()
        assert [item.task_id for item in snapshot.available] == [str(waiting[desktop.id])]
        desks[desktop.id] = again
    alive = next(each for each in fleet.instances if each is not dead)
    assert alive.rig.hub.connections == 4
    for desktop in desktops:
        assert await fleet.hint(desktop, await fleet.queued(desktop))
        await desks[desktop.id].next(TaskAvailable)


# --- a hub that dies without a word, and nobody comes back -----------------------------------------------------------


async def sweep(world: World) -> dict[str, int]:
    name = "resident/presence/0"
    return await PresenceSweeper(world.pool).sweep(name, await residents.take(world.pool, name, "test"))


async def silent_for(fleet: Fleet, desktop: Desktop, seconds: float) -> None:
    """The desktop's last beat was so long ago."""
    await fleet.world.set("desktop_clients", desktop.id, last_heartbeat_at=ago(seconds=seconds))


async def test_the_client_of_a_hub_that_dies_is_lost_after_thirty_seconds_its_request_hears_and_its_work_moves(
    fleet: Fleet,
) -> None:
    desktop, talking = await fleet.world.client(online=False), await fleet.world.client(online=False)
    desk, other = await fleet.desk(desktop), await fleet.desk(talking)
    await desk.hello()
    await other.hello()
    fleet.holder(desktop).die()
    high, normal = await fleet.queued(desktop, high=True), await fleet.queued(desktop)
    await silent_for(fleet, desktop, 29)
    assert (await sweep(fleet.world))["lost"] == 0
    await silent_for(fleet, desktop, 31)
    assert (await sweep(fleet.world))["lost"] == 1
    row = await fleet.row(desktop)
    assert (row["online"], row["lost_at"] is None) == (False, False)
    [signal] = await fleet.world.outbox("client_lost")
    assert signal["payload"]["client_id"] == str(desktop.id)
    # What waited there is free for another desktop: scheduled work at once, that of a request with its workflow.
    assert (await fleet.world.execution(normal))["status"] == "aborted"
    await fleet.world.set("desktop_clients", desktop.id, lost_at=ago(seconds=6))
    await sweep(fleet.world)
    assert (await fleet.world.execution(high))["status"] == "aborted"
    assert (await fleet.row(talking))["online"]


async def test_a_client_that_is_back_at_another_hub_within_thirty_seconds_is_never_lost(fleet: Fleet) -> None:
    desktop = await fleet.world.client(online=False)
    desk = await fleet.desk(desktop)
    await desk.hello()
    task_id = await fleet.queued(desktop, high=True)
    fleet.holder(desktop).die()
    await silent_for(fleet, desktop, 29)
    again = await fleet.desk(desktop)
    assert [item.task_id for item in (await again.hello()).available] == [str(task_id)]
    assert (await sweep(fleet.world))["lost"] == 0
    assert await fleet.world.outbox("client_lost") == []
    assert (await fleet.world.execution(task_id))["status"] == "queued"


async def test_a_hub_that_loses_its_broker_serves_on_and_its_clients_hear_what_they_missed(
    pool: Pool, proxied: BrokerConnection, proxy: TcpProxy, make_rig: MakeRig
) -> None:
    rig = await make_rig(proxied, over=StoreHubBackend(pool, hub="a"))
    world = await World.create(pool)
    desktop = await world.client(online=False)
    desk = await rig.desk((desktop.token, ClientIdentity(desktop.id, world.tenant_id)))
    await desk.hello()
    proxy.refusing = True
    proxy.cut()
    await until(lambda: not rig.queue.ready.is_set())
    missed = await world.execution_task(await world.business_task(client_id=desktop.id), desktop.id)
    await desk.send(Heartbeat(id="b"))
    assert (await desk.next(ServerAck)).ref == "b"
    proxy.refusing = False
    assert [item.task_id for item in (await desk.next(Snapshot)).available] == [str(missed)]
