"""Two implementations of the ingest shard's queue for one suite: a list, and RabbitMQ."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol
from uuid import uuid4

from broker.connection import BrokerConnection
from broker.consumer import IngestConsumer, Received
from broker.dead_letters import REASON_HEADER, dead_letter
from broker.publisher import Publisher
from broker.topology import INGEST_DEAD_LETTER_EXCHANGE
from domain.transport import INGEST_DEAD_LETTER_QUEUE, INGEST_EXCHANGE, ingest_queue

SHARD = 0


class ResultQueue(Protocol):
    """What a test needs of a shard's queue."""

    async def publish(self, body: bytes, message_id: str | None) -> None:
        """Put a message on the shard."""
        ...

    def consumer(self, shard: int) -> "ListConsumer | IngestConsumer":
        """A consumer of the shard."""
        ...

    async def dead_letter(self, message: Received, reason: str, shard: int) -> None:
        """Put a message on the dead-letter queue."""
        ...

    async def waiting(self) -> int:
        """Messages on the shard that no consumer holds or has acknowledged."""
        ...

    async def reasons(self) -> list[str]:
        """The reasons of the dead letters so far, in order."""
        ...


@dataclass
class ListQueue:
    """In memory, in order; what is not acknowledged goes to the next consumer."""

    messages: list[Received] = field(default_factory=list)
    dead: list[str] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def publish(self, body: bytes, message_id: str | None) -> None:
        self.messages.append(Received(body, message_id, 0, {}, len(self.messages), 0))
        self.arrived.set()

    def consumer(self, shard: int) -> "ListConsumer":
        return ListConsumer(self)

    async def dead_letter(self, message: Received, reason: str, shard: int) -> None:
        self.dead.append(reason)

    async def waiting(self) -> int:
        return len(self.messages)

    async def reasons(self) -> list[str]:
        return list(self.dead)


@dataclass
class ListConsumer:
    """Gives everything that waits as one batch."""

    queue: ListQueue
    given: int = 0

    async def batches(self) -> AsyncGenerator[list[Received]]:
        taken: set[int] = set()
        while True:
            self.queue.arrived.clear()
            batch = [each for each in self.queue.messages if id(each) not in taken]
            taken |= {id(each) for each in batch}
            if batch:
                yield batch
            else:
                await self.queue.arrived.wait()

    async def ack(self, batch: Iterable[Received]) -> None:
        gone = {id(each) for each in batch}
        self.queue.messages = [each for each in self.queue.messages if id(each) not in gone]


class RabbitQueue:
    """One shard on the real broker, under a prefix of its own."""

    def __init__(self, url: str, connection: BrokerConnection, prefix: str) -> None:
        self.url = url
        self._connection = connection
        self.prefix = self._prefix = prefix
        self.publisher = Publisher(connection, prefix=prefix, shards=1)
        self._reasons: list[str] = []

    async def publish(self, body: bytes, message_id: str | None) -> None:
        assert await self.publisher.publish(INGEST_EXCHANGE, str(SHARD), body, message_id=message_id)

    def consumer(self, shard: int) -> IngestConsumer:
        return IngestConsumer(self._connection, shard, shards=1, prefix=self._prefix)

    async def dead_letter(self, message: Received, reason: str, shard: int) -> None:
        await dead_letter(self.publisher, message, reason, shard)

    async def waiting(self) -> int:
        """Ready ones; those that a dead consumer held are ready again soon."""
        channel = await self._connection.channel()
        try:
            queue = await channel.declare_queue(self._prefix + ingest_queue(SHARD), passive=True)
            return queue.declaration_result.message_count or 0
        finally:
            await channel.close()

    async def reasons(self) -> list[str]:
        channel = await self._connection.channel()
        try:
            queue = await channel.get_queue(self._prefix + INGEST_DEAD_LETTER_QUEUE)
            while (message := await queue.get(fail=False)) is not None:
                self._reasons.append(str(message.headers[REASON_HEADER]))
                await message.ack()
        finally:
            await channel.close()
        return list(self._reasons)

    async def delete(self) -> None:
        """Remove everything that this queue declared."""
        channel = await self._connection.channel()
        for queue in (ingest_queue(SHARD), INGEST_DEAD_LETTER_QUEUE):
            await channel.queue_delete(self._prefix + queue)
        for exchange in (INGEST_EXCHANGE, INGEST_DEAD_LETTER_EXCHANGE, "desktop.task.dispatch"):
            await channel.exchange_delete(self._prefix + exchange)
        await channel.close()


@asynccontextmanager
async def rabbit_queue(url: str) -> AsyncIterator[RabbitQueue]:
    """A shard on the broker for one test."""
    async with BrokerConnection(url, name="giveway-test-ingest") as connection:
        queue = RabbitQueue(url, connection, f"test-{uuid4().hex[:12]}.")
        await queue.publisher.renew()
        try:
            yield queue
        finally:
            await queue.delete()


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 30) -> None:
    """Wait for a condition that the parts under test bring about."""
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.02)
