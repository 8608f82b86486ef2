"""Limits, measured bare: one commit, one confirmed publish and its consume, one WebSocket frame; one claim."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import aio_pika
import asyncpg
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

from store.statements import statements

SQL = statements("bench_dispatch")

Step = Callable[[], Awaitable[None]]


async def _time(step: Step, times: int) -> list[float]:
    """Milliseconds of each of `times` runs, after three that are not counted."""
    for _ in range(3):
        await step()
    figures = []
    for _ in range(times):
        began = time.perf_counter()
        await step()
        figures.append((time.perf_counter() - began) * 1000)
    return figures


async def commits(database_url: str, times: int) -> list[float]:
    """One-row transactions on one open connection."""
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute(
            "create table if not exists bench_commit (id bigint generated always as identity, body text)"
        )

        async def step() -> None:
            await connection.execute("insert into bench_commit (body) values ($1)", "x" * 200)

        return await _time(step, times)
    finally:
        await connection.execute("drop table if exists bench_commit")
        await connection.close()


async def publish_consumes(amqp_url: str, times: int) -> list[float]:
    """A confirmed publish until the consumer has the message, on one broker connection each."""
    sender, receiver = await aio_pika.connect(amqp_url), await aio_pika.connect(amqp_url)
    async with sender, receiver:
        channel = await sender.channel(publisher_confirms=True)
        consuming = await receiver.channel()
        queue = await consuming.declare_queue(exclusive=True)
        arrived: asyncio.Queue[bytes] = asyncio.Queue()

        async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            arrived.put_nowait(message.body)

        await queue.consume(take, no_ack=True)

        async def step() -> None:
            await channel.default_exchange.publish(aio_pika.Message(b"x" * 200), queue.name)
            await arrived.get()

        return await _time(step, times)


async def frames(times: int) -> list[float]:
    """One text frame from a bare server to its client, asked for by the client: a round trip."""

    async def answer(socket: ServerConnection) -> None:
        async for _ in socket:
            await socket.send("x" * 900)

    async with serve(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with connect(f"ws://127.0.0.1:{port}", proxy=None) as socket:

            async def step() -> None:
                await socket.send("?")
                await socket.recv()

            return await _time(step, times)


async def claims(database_url: str, size: int, times: int) -> float:
    """Rows a second of `for update skip locked` claims of `size` rows, over a backlog that outlasts them."""
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute(SQL["bare_queue"])
        await connection.execute(SQL["bare_index"])
        await connection.execute(SQL["fill_bare_queue"], size * (times + 5))
        await connection.execute("vacuum analyze bench_queue")

        async def step() -> None:
            await connection.fetch(SQL["bare_claim"], size)

        milliseconds = await _time(step, times)
        return size * times / sum(milliseconds) * 1000
    finally:
        await connection.close()
