"""A shard's results come in order and in batches, whatever happens to the broker's side."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, date, datetime
from uuid import uuid4

import pytest

from broker.connection import BrokerConnection
from broker.consumer import IngestConsumer, Received
from broker.dead_letters import REASON_HEADER, dead_letter
from broker.publisher import Outgoing, Publisher
from broker.results import decode_result, publish_result
from broker.topology import DELIVERY_LIMIT
from domain.errors import BrokerUnavailable
from domain.ids import shard_key, shard_of
from domain.transport import INGEST_DEAD_LETTER_QUEUE, INGEST_EXCHANGE, ResultMessage, ingest_queue
from tests.support.broker import SHARDS, received
from tests.support.tcp_proxy import TcpProxy


def a_consumer(connection: BrokerConnection, prefix: str, **options: float) -> IngestConsumer:
    return IngestConsumer(connection, 0, shards=SHARDS, prefix=prefix, **options)  # type: ignore[arg-type]


async def send_numbers(publisher: Publisher, numbers: range) -> None:
    outcomes = await publisher.publish_many([Outgoing(INGEST_EXCHANGE, "0", str(n).encode()) for n in numbers])
    assert set(outcomes) == {"routed"}


async def take(batches: AsyncIterator[list[Received]], count: int) -> list[list[Received]]:
    """Whole batches with at least `count` messages in all."""
    taken: list[list[Received]] = []
    async with asyncio.timeout(30):
        while sum(map(len, taken)) < count:
            taken.append(await anext(batches))
    return taken


def numbers_of(batches: list[list[Received]]) -> list[int]:
    return [int(message.body) for batch in batches for message in batch]


async def backlog(connection: BrokerConnection, name: str) -> int:
    """Messages ready in a queue."""
    queue = await (await connection.channel()).declare_queue(name, passive=True)
    return queue.declaration_result.message_count or 0


async def until_backlog(connection: BrokerConnection, name: str, count: int) -> None:
    async with asyncio.timeout(20):
        while await backlog(connection, name) != count:
            await asyncio.sleep(0.02)


async def test_batches_keep_the_order_and_their_bound(
    publisher: Publisher, broker: BrokerConnection, prefix: str
) -> None:
    await send_numbers(publisher, range(250))
    consumer = a_consumer(broker, prefix, max_messages=100)
    async with aclosing(consumer.batches()) as batches:
        taken: list[list[Received]] = []
        while sum(map(len, taken)) < 250:
            taken += await take(batches, 1)
            await consumer.ack(taken[-1])
    assert numbers_of(taken) == list(range(250))
    assert max(map(len, taken)) <= 100
    await until_backlog(broker, prefix + ingest_queue(0), 0)


async def test_what_was_not_acknowledged_comes_again_in_order_and_counted(
    publisher: Publisher, proxied: BrokerConnection, proxy: TcpProxy, prefix: str
) -> None:
    await send_numbers(publisher, range(20))
    consumer = a_consumer(proxied, prefix, max_messages=10)
    async with aclosing(consumer.batches()) as batches:
        first = (await take(batches, 1))[0]
        await consumer.ack(first)
        lost = (await take(batches, 1))[0]
        proxy.cut()
        again = await take(batches, 20 - len(first))
        assert numbers_of(again) == list(range(len(first), 20))
        assert again[0][0].deliveries == 1
        await consumer.ack(lost)
        await consumer.ack(message for batch in again for message in batch)
    assert numbers_of([first]) == list(range(len(first)))


async def test_the_standby_takes_over_in_order_when_the_active_consumer_goes(
    publisher: Publisher, broker: BrokerConnection, prefix: str
) -> None:
    await send_numbers(publisher, range(30))
    active, standby = a_consumer(broker, prefix, max_messages=10), a_consumer(broker, prefix, max_messages=10)
    async with aclosing(standby.batches()) as waiting:
        async with aclosing(active.batches()) as batches:
            done = (await take(batches, 1))[0]
            await active.ack(done)
            turn = asyncio.create_task(take(waiting, 30 - len(done)))
        assert numbers_of([done, *await turn]) == list(range(30))


async def test_a_deleted_queue_is_declared_again_and_consumed(
    publisher: Publisher, broker: BrokerConnection, prefix: str
) -> None:
    consumer = a_consumer(broker, prefix)
    async with aclosing(consumer.batches()) as batches:
        await send_numbers(publisher, range(1))
        await consumer.ack((await take(batches, 1))[0])
        waiting = asyncio.create_task(take(batches, 1))
        await (await broker.channel()).queue_delete(prefix + ingest_queue(0))
        while True:
            try:
                await publish_result(publisher, a_result(), "shard-0-key", 1)
                break
            except BrokerUnavailable:
                await asyncio.sleep(0.05)
        assert decode_result((await waiting)[0][0].body).outcome == "succeeded"


async def test_a_rejected_message_goes_to_the_dead_letters_and_a_requeued_one_comes_again(
    publisher: Publisher, broker: BrokerConnection, prefix: str
) -> None:
    await send_numbers(publisher, range(1))
    consumer = a_consumer(broker, prefix)
    async with aclosing(consumer.batches()) as batches:
        await consumer.reject((await take(batches, 1))[0][0], requeue=True)
        again = (await take(batches, 1))[0][0]
        assert again.deliveries == 1
        await consumer.reject(again)
    await until_backlog(broker, prefix + INGEST_DEAD_LETTER_QUEUE, 1)


async def test_a_dead_letter_carries_its_reason(publisher: Publisher, broker: BrokerConnection, prefix: str) -> None:
    await send_numbers(publisher, range(1))
    consumer = a_consumer(broker, prefix)
    async with aclosing(consumer.batches()) as batches:
        poison = (await take(batches, 1))[0][0]
        await dead_letter(publisher, poison, "no such attempt", shard=0)
        await consumer.ack([poison])
    (letter,) = await received(broker, prefix + INGEST_DEAD_LETTER_QUEUE, 1)
    assert letter.headers[REASON_HEADER] == "no such attempt"
    assert letter.message_id == poison.message_id


async def test_the_brokers_own_limit_ends_an_endless_redelivery(
    publisher: Publisher, broker: BrokerConnection, prefix: str
) -> None:
    await send_numbers(publisher, range(1))
    consumer = a_consumer(broker, prefix)
    async with aclosing(consumer.batches()) as batches:
        for count in range(DELIVERY_LIMIT + 1):
            message = (await take(batches, 1))[0][0]
            assert message.deliveries == count
            await consumer.reject(message, requeue=True)
    await until_backlog(broker, prefix + INGEST_DEAD_LETTER_QUEUE, 1)


def a_result() -> ResultMessage:
    return ResultMessage(
        attempt_id=str(uuid4()),
        task_id=str(uuid4()),
        monitor_task_id=1,
        tenant_id=1,
        client_id=str(uuid4()),
        outcome="succeeded",
        received_at=datetime.now(UTC),
        raw="答案",
    )


async def test_a_result_reaches_the_shard_of_its_brand_day_under_its_attempt_id(
    publisher: Publisher, broker: BrokerConnection, prefix: str
) -> None:
    result, key = a_result(), shard_key(1, 2, date(2026, 1, 2))
    await publish_result(publisher, result, key, SHARDS)
    (message,) = await received(broker, prefix + ingest_queue(shard_of(key, SHARDS)), 1)
    assert message.message_id == result.attempt_id
    assert decode_result(message.body) == result


async def test_a_result_without_a_queue_is_not_accepted_until_the_queue_is_back(
    publisher: Publisher, broker: BrokerConnection, prefix: str
) -> None:
    await publish_result(publisher, a_result(), "k", 1)
    await (await broker.channel()).queue_delete(prefix + ingest_queue(0))
    with pytest.raises(BrokerUnavailable):
        await publish_result(publisher, a_result(), "k", 1)
    await publish_result(publisher, a_result(), "k", 1)
    assert await backlog(broker, prefix + ingest_queue(0)) == 1


async def send_sized(publisher: Publisher, sizes: list[int]) -> None:
    outcomes = await publisher.publish_many(
        [Outgoing(INGEST_EXCHANGE, "0", b"%08d" % n * (size // 8)) for n, size in enumerate(sizes)]
    )
    assert set(outcomes) == {"routed"}


async def test_a_batch_closes_at_its_bytes(publisher: Publisher, broker: BrokerConnection, prefix: str) -> None:
    await send_sized(publisher, [40_000] * 6)
    consumer = a_consumer(broker, prefix, max_batch_bytes=100_000, max_wait=5)
    async with aclosing(consumer.batches()) as batches:
        assert [len(batch) for batch in await take(batches, 6)] == [3, 3]


async def test_large_messages_wait_in_the_broker_and_small_ones_widen_the_window_again(
    publisher: Publisher, broker: BrokerConnection, prefix: str
) -> None:
    await send_sized(publisher, [100_000] * 40 + [80] * 120)
    consumer = a_consumer(broker, prefix, max_messages=20, max_held_bytes=1_000_000)
    seen: list[int] = []
    most_held, windows = 0, set()
    async with aclosing(consumer.batches()) as batches, asyncio.timeout(30):
        while len(set(seen)) < 160:
            batch = await anext(batches)
            most_held = max(most_held, consumer.held_bytes)
            windows.add(consumer.window)
            seen += [int(message.body[:8]) for message in batch]
            await consumer.ack(batch)
    # What is acknowledged comes once, also where the window changes.
    assert seen == list(range(160))
    assert most_held <= 1_000_000
    assert windows == {10, 40}
