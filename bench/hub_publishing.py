"""The publisher of the hub benchmark: what the pump does, at an even pace, and the broker alone as its limit."""

import asyncio
import random
import time
from contextlib import suppress
from typing import Any, Final, Protocol

import msgspec
from aio_pika.abc import AbstractIncomingMessage

from bench.hub_figures import Pushed
from bench.hub_frames import QUESTION, order_hint
from bench.hub_pace import paced
from broker.connection import BrokerConnection
from broker.publisher import Publisher
from broker.topology import INGEST_DEAD_LETTER_EXCHANGE
from domain.errors import BrokerUnavailable
from domain.transport import (
    DISPATCH_EXCHANGE,
    INGEST_DEAD_LETTER_QUEUE,
    INGEST_EXCHANGE,
    ControlHint,
    TaskHint,
    ingest_queue,
)
from store.database import Pool
from store.statements import statements

SQL = statements("bench_hub")

SEED_SECONDS: Final = 600.0
# What is on its way when the last push was published arrives within this, or is counted as missing.
ARRIVAL_SECONDS: Final = 10.0
LIMIT_SECONDS: Final = 5.0
NOBODYS_KEY: Final = "limit"
# Of results, which nobody posts here.
SHARDS: Final = 1

_hints: Final = msgspec.json.Decoder(ControlHint)


async def delete_topology(connection: BrokerConnection, prefix: str) -> None:
    """What was declared under the prefix: the broker may be shared."""
    channel = await connection.channel()
    for queue in (INGEST_DEAD_LETTER_QUEUE, *map(ingest_queue, range(SHARDS))):
        await channel.queue_delete(prefix + queue)
    for exchange in (DISPATCH_EXCHANGE, INGEST_EXCHANGE, INGEST_DEAD_LETTER_EXCHANGE):
        await channel.exchange_delete(prefix + exchange)
    await channel.close()


class Arriving(Protocol):
    """Who knows what came at the desktops since the last question."""

    async def arrivals(self) -> Pushed:
        """Since the last question."""
        ...


class Publishing:
    """Publishes to our hub, and knows when."""

    def __init__(self, pool: Pool, connection: BrokerConnection, prefix: str) -> None:
        self._pool = pool
        self._connection = connection
        self._prefix = prefix
        self._publisher = Publisher(connection, shards=SHARDS, prefix=prefix)
        self._random = random.Random(1)
        self._rounds = 0
        self._under_way: set[asyncio.Task[None]] = set()

    async def push(self, load: Arriving, rate: float, seconds: float, sockets: int) -> Pushed:
        """Orders and hints in turns to the first `sockets` desktops, `rate` a second in all; what arrived."""
        clients = [str(row["id"]) for row in await self._pool.fetch(SQL["read_fleet"])][:sockets]
        hints = await self._seed(-(-round(rate * seconds) // 2), sockets)
        await self._pool.execute("vacuum analyze", timeout=SEED_SECONDS)
        await load.arrivals()
        sent: dict[str, int] = {}
        async for number in paced(rate, seconds):
            if number % 2:
                self._send(order_hint(self._random.choice(clients)))
            else:
                task_id, client_id = (str(each) for each in hints[number // 2])
                sent[task_id] = time.monotonic_ns()
                self._send(TaskHint(task_id=task_id, client_id=client_id))
        await asyncio.gather(*self._under_way)
        return await self._arrived(load, Pushed(published=round(rate * seconds)), sent)

    async def _seed(self, tasks: int, sockets: int) -> list[Any]:
        # Texts are unique: each round asks its own.
        self._rounds += 1
        text = f"{QUESTION} {self._rounds}"
        return await self._pool.fetch(SQL["seed_waiting"], tasks, text, "openai", sockets, timeout=SEED_SECONDS)

    def _send(self, message: ControlHint | TaskHint, key: str | None = None) -> None:
        publishing = asyncio.create_task(self._publish(message, key or f"monitor.normal.{message.client_id}"))
        self._under_way.add(publishing)
        publishing.add_done_callback(self._under_way.discard)

    async def _publish(self, message: ControlHint | TaskHint, key: str) -> None:
        # A broker that does not confirm in time is not the hub's fault, but what did not come is missing all the same.
        with suppress(BrokerUnavailable):
            await self._publisher.publish(DISPATCH_EXCHANGE, key, msgspec.json.encode(message), persistent=False)

    async def _arrived(self, load: Arriving, pushed: Pushed, sent: dict[str, int]) -> Pushed:
        deadline = time.monotonic() + ARRIVAL_SECONDS
        while pushed.count < pushed.published and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
            pushed.join(await load.arrivals(), sent)
        return pushed

    async def broker_alone(self, rate: float, seconds: float) -> list[float]:
        """Milliseconds from publish to a consumer that does nothing, at the same pace, while the desktops only beat."""
        came: list[float] = []

        async def note(message: AbstractIncomingMessage) -> None:
            came.append((time.monotonic_ns() - int(_hints.decode(message.body).reason or 0)) / 1e6)

        channel = await self._connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(self._prefix + DISPATCH_EXCHANGE, NOBODYS_KEY)
        await queue.consume(note, no_ack=True)
        async for _ in paced(rate, min(seconds, LIMIT_SECONDS)):
            self._send(order_hint(NOBODYS_KEY), NOBODYS_KEY)
        await asyncio.gather(*self._under_way)
        await asyncio.sleep(0.2)
        await channel.close()
        return came
