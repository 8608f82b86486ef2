"""Exchanges and queues (2-desktop §2.1, 3-results §3.2). Declaring them again changes nothing.

`prefix` goes before every name, so that several installations (or tests) can share a broker.
"""

from typing import Final

from aio_pika import ExchangeType
from aio_pika.abc import AbstractChannel, AbstractQueue

from broker.connection import OPERATION_SECONDS, broker_errors
from domain.transport import DISPATCH_EXCHANGE, INGEST_DEAD_LETTER_QUEUE, INGEST_EXCHANGE, ingest_queue

INGEST_DEAD_LETTER_EXCHANGE: Final = "monitor.result.dlx"

# Ingest isolates a poison message after 5 tries. The broker also counts a delivery when a consumer dies with the
# message unacknowledged, innocent neighbours included, so its own limit is a backstop and lies well above.
DELIVERY_LIMIT: Final = 20


async def declare_dispatch(channel: AbstractChannel, prefix: str = "") -> None:
    """The topic exchange that hub instances bind to. Raises BrokerUnavailable."""
    with broker_errors("declaring the dispatch exchange"):
        await channel.declare_exchange(
            prefix + DISPATCH_EXCHANGE, ExchangeType.TOPIC, durable=True, timeout=OPERATION_SECONDS
        )


async def declare_ingest(channel: AbstractChannel, shards: int, prefix: str = "") -> None:
    """The result exchange, one quorum queue a shard, and where dead letters go. Raises BrokerUnavailable."""
    with broker_errors("declaring the ingest queues"):
        await _declare_dead_letters(channel, prefix)
        await channel.declare_exchange(
            prefix + INGEST_EXCHANGE, ExchangeType.DIRECT, durable=True, timeout=OPERATION_SECONDS
        )
        for shard in range(shards):
            queue = await _declare_shard(channel, shard, prefix)
            await queue.bind(prefix + INGEST_EXCHANGE, routing_key=str(shard), timeout=OPERATION_SECONDS)


async def declare_topology(channel: AbstractChannel, shards: int, prefix: str = "") -> None:
    """Everything that publishers need. Raises BrokerUnavailable."""
    await declare_dispatch(channel, prefix)
    await declare_ingest(channel, shards, prefix)


async def _declare_dead_letters(channel: AbstractChannel, prefix: str) -> None:
    await channel.declare_exchange(
        prefix + INGEST_DEAD_LETTER_EXCHANGE, ExchangeType.FANOUT, durable=True, timeout=OPERATION_SECONDS
    )
    queue = await channel.declare_queue(
        prefix + INGEST_DEAD_LETTER_QUEUE,
        durable=True,
        arguments={"x-queue-type": "quorum"},
        timeout=OPERATION_SECONDS,
    )
    await queue.bind(prefix + INGEST_DEAD_LETTER_EXCHANGE, timeout=OPERATION_SECONDS)


async def _declare_shard(channel: AbstractChannel, shard: int, prefix: str) -> AbstractQueue:
    return await channel.declare_queue(
        prefix + ingest_queue(shard),
        durable=True,
        arguments={
            "x-queue-type": "quorum",
            "x-single-active-consumer": True,
            "x-delivery-limit": DELIVERY_LIMIT,
            "x-dead-letter-exchange": prefix + INGEST_DEAD_LETTER_EXCHANGE,
            # A dead letter leaves the shard only once the dead-letter queue has it; that needs reject-publish.
            "x-dead-letter-strategy": "at-least-once",
            "x-overflow": "reject-publish",
        },
        timeout=OPERATION_SECONDS,
    )
