"""What every fault test has: a seed that it prints, a look for leaks at its end, and a broker that it may break."""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from broker.connection import BrokerConnection
from broker.publisher import Publisher
from store.database import Pool, open_pool
from tests.conftest import Servers, database_named
from tests.faults.hub_rig import HubRig, MakeRig, hub_rig
from tests.faults.own_broker import OwnBroker
from tests.support.broker import delete_topology
from tests.support.databases import DatabaseFarm
from tests.support.hub_server import HubServer


@pytest.fixture
def rng() -> random.Random:
    """Chance that can be had again: FAULT_SEED."""
    seed = int(os.environ.get("FAULT_SEED") or random.SystemRandom().randrange(2**32))
    print(f"FAULT_SEED={seed}")  # noqa: T201 - shown with a failure
    return random.Random(seed)


@pytest.fixture(autouse=True)
async def no_leaks() -> AsyncIterator[None]:
    """Tasks and sockets that the test made in its event loop are gone after it."""
    tasks, watched = asyncio.all_tasks(), _watched()
    yield
    tasks |= {task for task in (asyncio.current_task(),) if task is not None}
    async with asyncio.timeout(10):
        while left := asyncio.all_tasks() - tasks:
            await asyncio.wait(left, timeout=0.05)
        while _watched() > watched:
            await asyncio.sleep(0.02)


def _watched() -> int:
    """Sockets and pipes that the running loop waits for. (Other threads have descriptors of their own.)"""
    return len(asyncio.get_running_loop()._selector.get_map())  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnBroker]:
    """Started once a run; each test takes a prefix of its own on it."""
    broker = OwnBroker(tmp_path_factory.mktemp("own-broker"))
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
async def make_rig(
    servers: Servers, pool: Pool, database_url: str, publisher: Publisher, prefix: str, tmp_path: Path
) -> AsyncIterator[MakeRig]:
    """Starts a hub in a process of the test's own, with these settings in its environment."""
    async with AsyncExitStack() as stack:

        async def make(**environment: str) -> HubRig:
            server = HubServer(tmp_path, database_url, servers.amqp_url, prefix, **environment)
            await stack.enter_async_context(server)
            return await stack.enter_async_context(hub_rig(server, pool, publisher))

        yield make


async def forget_topology(amqp_url: str, prefix: str) -> None:
    """Delete what a hub declared."""
    async with BrokerConnection(amqp_url, name="test") as connection:
        await delete_topology(connection, prefix)


@pytest.fixture(scope="session")
def standing_hub(
    servers: Servers, databases: DatabaseFarm, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HubServer]:
    """A hub in a process that outlives each test: for those that leave it as they found it."""
    name, prefix = databases.take(), f"hub-{uuid4().hex[:8]}."
    database_url = database_named(servers.database_url, name)
    server = HubServer(tmp_path_factory.mktemp("hub"), database_url, servers.amqp_url, prefix)
    asyncio.run(server.start())
    yield server
    server.close()
    asyncio.run(forget_topology(servers.amqp_url, prefix))
    databases.give_back(name)


@pytest.fixture
async def rig(standing_hub: HubServer) -> AsyncIterator[HubRig]:
    """The standing hub with a tenant of the test's own."""
    async with AsyncExitStack() as stack:
        pool = await open_pool(standing_hub.database_url, size=10, name="giveway-test")
        stack.callback(pool.terminate)
        connection = await stack.enter_async_context(BrokerConnection(standing_hub.amqp_url, name="test"))
        publisher = Publisher(connection, prefix=standing_hub.prefix, shards=1)
        yield await stack.enter_async_context(hub_rig(standing_hub, pool, publisher))
