"""A publish ends in a confirm, in `unroutable`, or in BrokerUnavailable; never in silence."""

import asyncio
from uuid import uuid4

import pytest

from broker.connection import BrokerConnection, broker_errors
from broker.publisher import Outcome, Outgoing, Publisher
from broker.topology import declare_topology
from domain.errors import BrokerUnavailable
from domain.transport import DISPATCH_EXCHANGE, INGEST_EXCHANGE, ingest_queue
from tests.support.broker import SHARDS, received
from tests.support.tcp_proxy import TcpProxy


async def test_the_topology_can_be_declared_again(broker: BrokerConnection, prefix: str) -> None:
    channel = await broker.channel()
    await declare_topology(channel, SHARDS, prefix)
    assert not channel.is_closed


async def test_a_message_with_a_queue_is_routed_and_one_without_is_not(publisher: Publisher) -> None:
    assert await publisher.publish(INGEST_EXCHANGE, "0", b"{}")
    assert not await publisher.publish(DISPATCH_EXCHANGE, f"monitor.high.{uuid4()}", b"{}")


async def test_every_try_has_a_message_id_of_its_own_and_keeps_its_headers(
    publisher: Publisher, broker: BrokerConnection, prefix: str
) -> None:
    for _ in range(2):
        await publisher.publish(INGEST_EXCHANGE, "0", b"{}", headers={"x-giveway-outbox-id": 7})
    first, second = await received(broker, prefix + ingest_queue(0), 2)
    assert first.message_id != second.message_id
    assert first.headers["x-giveway-outbox-id"] == 7


async def test_one_message_id_published_twice_at_once_is_unroutable_both_times(publisher: Publisher) -> None:
    key, same = f"monitor.high.{uuid4()}", str(uuid4())
    tries = (publisher.publish(DISPATCH_EXCHANGE, key, b"{}", message_id=same) for _ in range(10))
    assert not any(await asyncio.gather(*tries))


async def test_many_are_confirmed_in_order_and_judged_one_by_one(
    publisher: Publisher, broker: BrokerConnection, prefix: str
) -> None:
    good = [Outgoing(INGEST_EXCHANGE, "1", str(number).encode()) for number in range(200)]
    lost = Outgoing(DISPATCH_EXCHANGE, f"x.{uuid4()}", b"{}")
    endless = Outgoing(INGEST_EXCHANGE, "k" * 300, b"{}")
    outcomes = await publisher.publish_many([*good, lost, endless])
    assert outcomes == [Outcome.ROUTED] * 200 + [Outcome.UNROUTABLE, Outcome.REFUSED]
    assert [int(m.body) for m in await received(broker, prefix + ingest_queue(1), 200)] == list(range(200))


async def test_a_broker_that_is_away_is_unavailable_and_the_next_publish_reconnects(
    proxied: BrokerConnection, proxy: TcpProxy, prefix: str
) -> None:
    publisher = Publisher(proxied, prefix=prefix, shards=SHARDS)
    assert await publisher.publish(INGEST_EXCHANGE, "0", b"{}")
    proxy.refusing = True
    proxy.cut()
    with pytest.raises(BrokerUnavailable):
        await publisher.publish(INGEST_EXCHANGE, "0", b"{}")
    assert await publisher.publish_many([Outgoing(INGEST_EXCHANGE, "0", b"{}")]) == [Outcome.FAILED]
    proxy.refusing = False
    assert await publisher.publish(INGEST_EXCHANGE, "0", b"{}")


async def test_publishes_in_flight_when_the_connection_dies_are_unavailable_not_cancelled(
    proxied: BrokerConnection, proxy: TcpProxy, prefix: str
) -> None:
    publisher = Publisher(proxied, prefix=prefix, shards=SHARDS)
    assert await publisher.publish(INGEST_EXCHANGE, "0", b"{}")
    proxy.swallow()
    waiting = [asyncio.create_task(publisher.publish(INGEST_EXCHANGE, "0", b"{}", timeout=60)) for _ in range(20)]
    await asyncio.sleep(0)
    proxy.cut()
    proxy.swallow(False)
    ends = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(end is True or isinstance(end, BrokerUnavailable) for end in ends)
    assert any(isinstance(end, BrokerUnavailable) for end in ends)


async def test_a_waiter_that_the_closing_channel_cancels_is_told_unavailable_and_our_own_cancel_stays_one() -> None:
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    ended.set_exception(asyncio.CancelledError())
    with pytest.raises(BrokerUnavailable), broker_errors("waiting"):
        await ended

    async def wait_forever() -> None:
        with broker_errors("waiting"):
            await asyncio.get_running_loop().create_future()

    task = asyncio.create_task(wait_forever())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_publish_that_nobody_confirms_times_out(
    proxied: BrokerConnection, proxy: TcpProxy, prefix: str
) -> None:
    publisher = Publisher(proxied, prefix=prefix, shards=SHARDS)
    assert await publisher.publish(INGEST_EXCHANGE, "0", b"{}")
    proxy.swallow()
    with pytest.raises(BrokerUnavailable):
        await publisher.publish(INGEST_EXCHANGE, "0", b"{}", timeout=0.3)
    proxy.swallow(False)
    assert await publisher.publish(INGEST_EXCHANGE, "0", b"{}")


async def test_a_broker_that_lost_its_exchanges_is_set_up_again(
    publisher: Publisher, broker: BrokerConnection, prefix: str
) -> None:
    assert await publisher.publish(INGEST_EXCHANGE, "0", b"{}")
    await (await broker.channel()).exchange_delete(prefix + INGEST_EXCHANGE)
    with pytest.raises(BrokerUnavailable):
        await publisher.publish(INGEST_EXCHANGE, "0", b"{}")
    assert await publisher.publish(INGEST_EXCHANGE, "0", b"{}")
