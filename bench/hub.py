"""`giveway bench hub`: memory a socket and push latency of our hub, beside a bare server of the same WebSocket library.

Both are processes of their own with the same event loop, the same clients, the same pace. Ours has a real database and
a real broker behind it: an order goes from the broker to its frame, a task from its hint through its lease.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from rich.console import Console

from bench.database import own_database_and_broker
from bench.hub_child import Child, child
from bench.hub_figures import Footprint, Measured, Pushed, figures
from bench.hub_frames import a_task, an_order
from bench.hub_publishing import Publishing, delete_topology
from broker.connection import BrokerConnection
from domain.protocol import PATH
from store.database import open_pool
from store.migrate import migrate
from store.statements import statements

SQL = statements("bench_hub")

SECONDS: Final = 600.0
# Warms up what a process makes once: pools, caches, the code paths themselves.
WARMING: Final = 20
A_TENANT: Final = 50
# A load process has an event loop to itself; beyond this it would measure its own queue.
SOCKETS_A_PROCESS: Final = 5_000

# At so many a second, for so many seconds, to so many connected desktops.
Push = Callable[[float, float, int], Awaitable[Pushed]]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Options:
    """How much is measured. `idle_seconds`: how long connected desktops only beat, before the pushes."""

    sockets: int = 2_000
    pushes_per_second: float = 500.0
    seconds: float = 20.0
    idle_seconds: float = 20.0
    warming_seconds: float = 2.0


class Load:
    """The desktops, in one or several processes."""

    def __init__(self, processes: list[Child]) -> None:
        self._processes = processes

    async def open(self, tokens: list[str]) -> float:
        """Connect and greet them; greetings a second."""
        shares = [tokens[number :: len(self._processes)] for number in range(len(self._processes))]
        answers = await asyncio.gather(
            *(one.ask("open", tokens=share) for one, share in zip(self._processes, shares, strict=True))
        )
        return len(tokens) / max(float(answer["seconds"]) for answer in answers)

    async def close(self) -> None:
        """Cut them all."""
        await asyncio.gather(*(one.ask("close") for one in self._processes))

    async def arrivals(self) -> Pushed:
        """What came since the last question."""
        pushed = Pushed()
        for seen in await asyncio.gather(*(one.ask("arrivals") for one in self._processes)):
            pushed.add(seen)
        return pushed


@asynccontextmanager
async def load_processes(port: int, sockets: int) -> AsyncIterator[Load]:
    """As many as it takes not to disturb."""
    async with AsyncExitStack() as stack:
        given = {"url": f"ws://127.0.0.1:{port}{PATH}"}
        count = -(-sockets // SOCKETS_A_PROCESS)
        processes = [await stack.enter_async_context(child("bench.hub_clients", given)) for _ in range(count)]
        yield Load([process for process, _ in processes])


async def run_bench(options: Options, console: Console) -> dict[str, Any]:
    """The bare server first, then ours; returns the JSON object of the last line."""

    def say(text: str) -> None:
        console.print(f"· {text}")

    sizes = {"task_control": len(an_order()), "task_available": len(a_task())}
    bare = await _bare(options, sizes, say)
    async with own_database_and_broker(say) as (database_url, amqp_url):
        ours, broker = await _ours(options, database_url, amqp_url, say)
    return figures(options.sockets, options.pushes_per_second, options.seconds, sizes, ours, bare, broker)


async def _bare(options: Options, sizes: dict[str, int], say: Say) -> Measured:
    say(f"a bare server, {options.sockets:,} sockets")
    async with (
        child("bench.bare_hub", {}) as (server, started),
        load_processes(started["port"], options.sockets) as load,
    ):

        async def push(rate: float, seconds: float, _connected: int) -> Pushed:
            await load.arrivals()
            told = await server.ask("push", rate=rate, seconds=seconds, sizes=sizes)
            await asyncio.sleep(0.5)
            pushed = Pushed(published=told["pushed"])
            pushed.join(await load.arrivals(), {})
            return pushed

        return await _measure(options, server, load, push, say)


async def _ours(options: Options, database_url: str, amqp_url: str, say: Say) -> tuple[Measured, list[float]]:
    """Our hub, and the broker alone (milliseconds) in the same run."""
    await asyncio.to_thread(migrate, database_url)
    prefix = f"bench-{uuid4().hex[:8]}."
    async with AsyncExitStack() as stack:
        pool = await open_pool(database_url, size=2, name="giveway-bench", command_timeout=SECONDS)
        stack.push_async_callback(pool.close)
        await pool.execute(SQL["seed_fleet"], options.sockets, A_TENANT)
        await pool.execute("vacuum analyze", timeout=SECONDS)
        connection = await stack.enter_async_context(BrokerConnection(amqp_url, name="giveway-bench"))
        stack.push_async_callback(delete_topology, connection, prefix)
        publishing = Publishing(pool, connection, prefix)
        say(f"our hub, {options.sockets:,} sockets")
        given = {"database_url": database_url, "amqp_url": amqp_url, "prefix": prefix}
        server, started = await stack.enter_async_context(child("bench.hub_process", given))
        load = await stack.enter_async_context(load_processes(started["port"], options.sockets))

        async def push(rate: float, seconds: float, connected: int) -> Pushed:
            return await publishing.push(load, rate, seconds, connected)

        measured = await _measure(options, server, load, push, say)
        return measured, await publishing.broker_alone(options.pushes_per_second, options.seconds)


async def _measure(
    options: Options,
    server: Child,
    load: Load,
    push: Push,
    say: Say,
) -> Measured:
    tokens = [f"bench-device-{number}" for number in range(1, options.sockets + 1)]
    await load.open(tokens[:WARMING])
    await push(min(50.0, options.pushes_per_second), 1.0, WARMING)
    await load.close()
    await asyncio.sleep(1.0)
    base = Footprint.of(await server.ask("footprint"))
    half = len(tokens) // 2
    greeted = [await load.open(tokens[:half])]
    await asyncio.sleep(options.idle_seconds / 4)
    halfway = Footprint.of(await server.ask("footprint"))
    greeted.append(await load.open(tokens[half:]))
    await asyncio.sleep(options.idle_seconds / 4)
    settled = Footprint.of(await server.ask("footprint"))
    say(f"  {min(greeted):,.0f} greetings/s, {settled.over(halfway) / (len(tokens) - half) / 1024:.1f} KB a socket")
    await asyncio.sleep(options.idle_seconds)
    idle = Footprint.of(await server.ask("footprint"))
    await push(options.pushes_per_second, options.warming_seconds, options.sockets)
    before = Footprint.of(await server.ask("footprint"))
    pushed = await push(options.pushes_per_second, options.seconds, options.sockets)
    after = Footprint.of(await server.ask("footprint"))
    say(f"  {pushed.said()}")
    return Measured(base, halfway, settled, idle, before, after, options.idle_seconds, min(greeted), pushed)
