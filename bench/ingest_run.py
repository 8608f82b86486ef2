"""A run of the ingest residents over results that wait on the broker, in this process or in one of several workers."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Final
from uuid import uuid4

import msgspec

from activities.ingest import IngestShard
from broker.connection import BrokerConnection
from broker.consumer import IngestConsumer, Received
from broker.dead_letters import dead_letter
from broker.publisher import Outcome, Outgoing, Publisher
from broker.topology import INGEST_DEAD_LETTER_EXCHANGE
from domain.ids import shard_of
from domain.transport import DISPATCH_EXCHANGE, INGEST_DEAD_LETTER_QUEUE, INGEST_EXCHANGE, ResultMessage, ingest_queue
from store.database import Pool
from store.raw_answers import RawAnswers
from store.residents import take

PUBLISH_CHUNK: Final = 200

Results = Sequence[tuple[str, ResultMessage]]


@dataclass(slots=True)
class Shards:
    """The result queues of one measurement, under a prefix of its own."""

    connection: BrokerConnection
    count: int
    prefix: str = field(default_factory=lambda: f"bench-{uuid4().hex[:12]}.")

    async def publish(self, results: Results) -> None:
        """Put the results on their shards, confirmed; each comes with its shard key."""
        publisher = Publisher(self.connection, prefix=self.prefix, shards=self.count)
        outgoing = [self._outgoing(key, message) for key, message in results]
        for first in range(0, len(outgoing), PUBLISH_CHUNK):
            outcomes = await publisher.publish_many(outgoing[first : first + PUBLISH_CHUNK], timeout=60)
            if set(outcomes) != {Outcome.ROUTED}:
                raise RuntimeError("the broker did not take every result")
        await publisher.renew()

    def _outgoing(self, key: str, message: ResultMessage) -> Outgoing:
        shard = str(shard_of(key, self.count))
        return Outgoing(INGEST_EXCHANGE, shard, msgspec.json.encode(message), message.attempt_id)

    async def delete(self) -> None:
        """Remove everything that the measurement declared."""
        channel = await self.connection.channel()
        for queue in (*map(ingest_queue, range(self.count)), INGEST_DEAD_LETTER_QUEUE):
            await channel.queue_delete(self.prefix + queue)
        for exchange in (INGEST_EXCHANGE, INGEST_DEAD_LETTER_EXCHANGE, DISPATCH_EXCHANGE):
            await channel.exchange_delete(self.prefix + exchange)
        await channel.close()


@dataclass(slots=True)
class Counting:
    """A shard's consumer that tells of each acknowledgement."""

    consumer: IngestConsumer
    acknowledged: Callable[[int], None]

    async def batches(self) -> AsyncGenerator[list[Received]]:
        """As the consumer's own."""
        async with aclosing(self.consumer.batches()) as batches:
            async for batch in batches:
                yield batch

    async def ack(self, batch: Iterable[Received]) -> None:
        """As the consumer's own, and told."""
        given = list(batch)
        await self.consumer.ack(given)
        self.acknowledged(len(given))


async def run_residents(
    pool: Pool, shards: Shards, raw: RawAnswers, numbers: Sequence[int], acknowledged: Callable[[int], None]
) -> None:
    """The residents of these shards until cancelled; RuntimeError when one of them ends by itself."""
    publisher = Publisher(shards.connection, prefix=shards.prefix, shards=shards.count)

    def consumer(shard: int) -> Counting:
        one = IngestConsumer(shards.connection, shard, shards=shards.count, prefix=shards.prefix)
        return Counting(one, acknowledged)

    ingest = IngestShard(pool, consumer, raw, partial(dead_letter, publisher))
    loops = [asyncio.create_task(_resident(pool, ingest, number)) for number in numbers]
    try:
        await asyncio.wait(loops, return_when=asyncio.FIRST_COMPLETED)
        raise RuntimeError("a resident of ingest ended before its results did")
    finally:
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)


async def _resident(pool: Pool, ingest: IngestShard, shard: int) -> None:
    name = f"ingest/{shard}"
    await ingest.run(name, await take(pool, name, "bench"), shard)
