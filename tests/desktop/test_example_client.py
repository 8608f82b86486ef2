"""The example client in Node, against a real hub, API, database and broker (docs/protocol/example)."""

import asyncio
import json
import os
import shutil
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from broker.publisher import Publisher
from domain.ids import new_uuid
from domain.protocol import SUBPROTOCOL, Hello, encode
from domain.transport import DISPATCH_EXCHANGE, ControlHint, DispatchMessage, TaskHint
from store.database import Pool
from tests.conftest import Servers
from tests.support.broker import until
from tests.support.hub_server import HubServer
from tests.support.world import Desktop, World

NODE = shutil.which("node")
EXAMPLE = Path(__file__).resolve().parents[2] / "docs/protocol/example/client.mjs"

pytestmark = [
    pytest.mark.skipif(NODE is None, reason="the example client runs on Node"),
    pytest.mark.timeout(180),
]


@dataclass
class Rig:
    """Hub and API in a process, one tenant, and a way to publish to its desktops as the pump does."""

    server: HubServer
    world: World
    publisher: Publisher

    async def publish(self, message: DispatchMessage) -> None:
        key = f"monitor.high.{message.client_id}"
        assert await self.publisher.publish(DISPATCH_EXCHANGE, key, msgspec.json.encode(message), persistent=False)


@dataclass
class Answers:
    """An OpenAI-compatible endpoint that answers when told to. `asked`: questions that wait."""

    port: int = 0
    asked: list[str] = field(default_factory=list)
    open: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request per connection."""
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line[16:]) for line in head.decode().lower().splitlines() if line.startswith("content-length")
        )
        self.asked.append(json.loads(await reader.readexactly(length))["messages"][0]["content"])
        await self.open.wait()
        body = json.dumps({"choices": [{"message": {"content": "Acme, 阿克米."}}]}).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n")
        writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()


@dataclass
class Node:
    """The client's process and the events that it has told."""

    process: Process
    reading: asyncio.Task[None]
    events: list[dict[str, Any]]

    async def told(self, event: str, count: int = 1, **fields: Any) -> None:
        """Wait until it has told so many such events."""
        wanted = {"event": event, **fields}
        async with asyncio.timeout(60):
            while sum(all(one.get(key) == value for key, value in wanted.items()) for one in self.events) < count:
                await asyncio.sleep(0.02)


@asynccontextmanager
async def example(rig: Rig, client: Desktop, state: Path, answers: Answers) -> AsyncIterator[Node]:
    """The client, running; killed at the end if it lives."""
    assert NODE is not None
    probe = await asyncio.create_subprocess_exec(NODE, "-p", "typeof WebSocket", stdout=PIPE)
    flags = [] if b"function" in (await probe.communicate())[0] else ["--experimental-websocket"]
    process = await asyncio.create_subprocess_exec(
        *(NODE, *flags, str(EXAMPLE), "--ws", rig.server.url, "--api", rig.server.api_url, "--state", str(state)),
        *("--answers", f"http://127.0.0.1:{answers.port}/v1/chat/completions"),
        env={**os.environ, "GIVEWAY_DEVICE_TOKEN": client.token, "NODE_NO_WARNINGS": "1"},
        stdout=PIPE,
        stderr=DEVNULL,
    )
    events: list[dict[str, Any]] = []
    reading = asyncio.create_task(_read(process, events))
    try:
        yield Node(process, reading, events)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await reading


async def _read(process: Process, events: list[dict[str, Any]]) -> None:
    assert process.stdout is not None
    async for line in process.stdout:
        events.append(json.loads(line))


@pytest.fixture
async def rig(
    servers: Servers, pool: Pool, database_url: str, publisher: Publisher, prefix: str, tmp_path: Path
) -> AsyncIterator[Rig]:
    server = HubServer(tmp_path / "hub", database_url, servers.amqp_url, prefix, roles=("hub", "api"))
    async with server:
        yield Rig(server, await World.create(pool), publisher)


@pytest.fixture
async def answers() -> AsyncIterator[Answers]:
    found = Answers()
    async with await asyncio.start_server(found.serve, "127.0.0.1", 0) as server:
        found.port = server.sockets[0].getsockname()[1]
        yield found


async def test_the_example_client_works_gives_way_comes_back_and_stops_for_good(
    rig: Rig, answers: Answers, tmp_path: Path
) -> None:
    desktop = await rig.world.client(online=False)
    task = await queued(rig, desktop)
    async with example(rig, desktop, tmp_path / "state", answers) as client:
        await preempted(rig, client, desktop, task, answers)
        await back_after_a_crash_of_the_hub(rig, client, desktop, answers)
        await replaced(rig, client, desktop)


async def queued(rig: Rig, desktop: Desktop) -> UUID:
    return await rig.world.execution_task(await rig.world.business_task(), desktop.id)


async def preempted(rig: Rig, client: Node, desktop: Desktop, task: UUID, answers: Answers) -> None:
    """An order that comes while the answer is awaited is followed after it, before it is parsed."""
    await until(lambda: bool(answers.asked))
    await rig.world.interrupt(task, await rig.world.request(generation=5), 5)
    await rig.publish(control(desktop, task, 5))
    # An order for a task that it does not run is acknowledged all the same.
    await rig.publish(control(desktop, new_uuid(), 5))
    await client.told("call", action="interrupt-ack", status=404)
    answers.open.set()
    await client.told("call", task_id=str(task), action="interrupt-ack", status=200)
    row = await rig.world.execution(task)
    assert (row["status"], (await rig.world.attempt(row["attempt_id"]))["outcome"]) == ("aborted", "preempted")
    assert not [one for one in client.events if one.get("action") == "result"]


async def back_after_a_crash_of_the_hub(rig: Rig, client: Node, desktop: Desktop, answers: Answers) -> None:
    """What runs goes on, its result is kept while nobody takes it, and is counted once."""
    answers.open.clear()
    task = await queued(rig, desktop)
    await rig.publish(TaskHint(task_id=str(task), client_id=str(desktop.id)))
    await until(lambda: len(answers.asked) == 2)
    rig.server.kill()
    answers.open.set()
    await client.told("call", task_id=str(task), action="result", status=None)
    await rig.server.start()
    await client.told("connected", 2)
    await client.told("call", task_id=str(task), action="result", status=202)
    assert (await rig.world.execution(task))["result_received_at"] is not None


async def replaced(rig: Rig, client: Node, desktop: Desktop) -> None:
    """4509 is final: it does not come again."""
    token = {"Authorization": f"Bearer {desktop.token}"}
    async with connect(rig.server.url, additional_headers=token, subprotocols=[Subprotocol(SUBPROTOCOL)]) as second:
        await second.send(encode(Hello(id="second")))
        async with asyncio.timeout(30):
            assert await client.process.wait() == 1
    await client.told("disconnected", code=4509)


def control(desktop: Desktop, task: UUID, generation: int) -> ControlHint:
    return ControlHint(
        client_id=str(desktop.id),
        task_id=str(task),
        control="interrupt_requested",
        interrupt_generation=generation,
        reason="collect_now_preempt",
    )
