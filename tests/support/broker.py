"""A prefix of its own on the shared broker for each test, and everything under it deleted afterwards."""

import asyncio
from collections.abc import AsyncIterator, Callable
from uuid import uuid4

import pytest
from aio_pika.abc import AbstractIncomingMessage

from broker.connection import BrokerConnection
from broker.publisher import Publisher
from broker.subscription import Subscription
from broker.topology import INGEST_DEAD_LETTER_EXCHANGE, declare_topology
from domain.transport import DISPATCH_EXCHANGE, INGEST_DEAD_LETTER_QUEUE, INGEST_EXCHANGE, ingest_queue
from tests.conftest import Servers
from tests.support.tcp_proxy import TcpProxy

SHARDS = 2
DELETE_SECONDS = 20.0


async def delete_topology(connection: BrokerConnection, prefix: str) -> None:
    """What a test declared. TimeoutError rather than a run that stands still: a broker may never answer for a queue."""
    channel = await connection.channel()
    for queue in (INGEST_DEAD_LETTER_QUEUE, *map(ingest_queue, range(SHARDS))):
        await channel.queue_delete(prefix + queue, timeout=DELETE_SECONDS)
    for exchange in (DISPATCH_EXCHANGE, INGEST_EXCHANGE, INGEST_DEAD_LETTER_EXCHANGE):
        await channel.exchange_delete(prefix + exchange, timeout=DELETE_SECONDS)


@pytest.fixture
async def proxy(servers: Servers) -> AsyncIterator[TcpProxy]:
    """The broker by way of a proxy."""
    async with TcpProxy(servers.amqp_url) as running:
        yield running


@pytest.fixture
async def broker(servers: Servers) -> AsyncIterator[BrokerConnection]:
    """A direct connection."""
    async with BrokerConnection(servers.amqp_url, name="test") as connection:
        yield connection


@pytest.fixture
async def proxied(proxy: TcpProxy) -> AsyncIterator[BrokerConnection]:
    """A connection that the test can break."""
    async with BrokerConnection(proxy.url, name="test-proxied") as connection:
        yield connection


@pytest.fixture
async def prefix(broker: BrokerConnection) -> AsyncIterator[str]:
    """The declared topology's prefix."""
    name = f"t{uuid4().hex[:10]}."
    await declare_topology(await broker.channel(), SHARDS, name)
    yield name
    await delete_topology(broker, name)


@pytest.fixture
async def publisher(broker: BrokerConnection, prefix: str) -> Publisher:
    """Publishes under the test's prefix."""
    return Publisher(broker, prefix=prefix, shards=SHARDS)


async def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait for a condition of this process; asyncio.TimeoutError if it does not come."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


async def received(connection: BrokerConnection, queue: str, count: int) -> list[AbstractIncomingMessage]:
    """The next messages of a queue, acknowledged. (A queue with a single active consumer takes no basic.get.)"""
    subscription = Subscription(await connection.channel())
    await subscription.start(queue, no_ack=True)
    async with asyncio.timeout(20):
        messages = [await subscription.get() for _ in range(count)]
    await subscription.close()
    return messages
