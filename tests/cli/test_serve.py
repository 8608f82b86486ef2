"""`giveway serve --hub` as the process that a supervisor starts, probes and stops."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from devstack.ports import PortBook
from domain.protocol import PATH, SUBPROTOCOL, CloseCode, Hello, encode
from store.database import Pool
from tests.conftest import Servers
from tests.support.broker import until
from tests.support.world import World

REPOSITORY = Path(__file__).resolve().parents[2]


class Process:
    """One `giveway serve --hub`."""

    def __init__(self, folder: Path, environment: dict[str, str], ports: tuple[int, int]) -> None:
        self.hub, self.probes = (f"{kind}://127.0.0.1:{port}" for kind, port in zip(("ws", "http"), ports, strict=True))
        self.ready = folder / "ready"
        self.errors = folder / "stderr"
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "cli", "serve", "--hub"],
            cwd=REPOSITORY,
            env={**os.environ, **environment, "GIVEWAY_READY_FILE": str(self.ready)},
            stderr=self.errors.open("wb"),
            start_new_session=True,
        )

    def signal(self) -> None:
        self._popen.send_signal(signal.SIGTERM)

    @property
    def exit_code(self) -> int | None:
        return self._popen.poll()

    async def serves(self) -> None:
        await until(lambda: self.ready.exists() or self.exit_code is not None, seconds=60)
        assert self.exit_code is None, self.errors.read_text(encoding="utf-8")

    def end(self) -> None:
        if self.exit_code is None:
            self._popen.kill()
            self._popen.wait()


@pytest.fixture
async def process(tmp_path: Path, database_url: str, servers: Servers) -> AsyncIterator[Process]:
    book = PortBook(tmp_path, {}, {})
    ports = book.take("hub"), book.take("metrics")
    environment = {
        "DATABASE_URL": database_url, "AMQP_URL": servers.amqp_url, "AMQP_PREFIX": f"t{uuid4().hex[:10]}.",
        "HUB_PORT": str(ports[0]), "HUB_METRICS_PORT": str(ports[1]), "HUB_NAME": "the only one",
        # The second connection waits for its turn to go until somebody is in a hurry.
        "HUB_DRAIN_CLOSES_PER_SECOND": "0.001", "HUB_DRAIN_SPREAD_SECONDS": "60", "HUB_DRAIN_SECONDS": "60",
    }  # fmt: skip
    running = Process(tmp_path, environment, ports)
    yield running
    running.end()
    book.close()


async def close_code(world: World, process: Process, connected: asyncio.Event) -> int | None:
    """A desktop's whole life at this hub."""
    desktop = await world.client(online=False)
    headers = {"Authorization": f"Bearer {desktop.token}"}
    url = process.hub + PATH
    async with connect(url, additional_headers=headers, subprotocols=[Subprotocol(SUBPROTOCOL)]) as socket:
        await socket.send(encode(Hello(id="h")))
        assert '"snapshot"' in str(await socket.recv())
        connected.set()
        try:
            while True:
                await socket.recv()
        except ConnectionClosed:
            return socket.close_code


async def test_it_serves_until_sigterm_then_drains_and_a_second_signal_ends_it_with_0(
    process: Process, pool: Pool
) -> None:
    world = await World.create(pool)
    async with asyncio.timeout(90), httpx.AsyncClient(base_url=process.probes) as http:
        await process.serves()
        events = [asyncio.Event(), asyncio.Event()]
        lives = [asyncio.create_task(close_code(world, process, each)) for each in events]
        await asyncio.gather(*(each.wait() for each in events))
        ready = await http.get("/readyz")
        assert (ready.status_code, ready.json()["status"], ready.json()["connections"]) == (200, "ready", 2)
        assert "giveway_hub_connections 2.0" in (await http.get("/metrics")).text
        assert await pool.fetchval("select count(*) from desktop_clients where online and hub = 'the only one'") == 2
        process.signal()
        await asyncio.wait(lives, return_when=asyncio.FIRST_COMPLETED)
        draining = await http.get("/readyz")
        assert (draining.status_code, draining.json()["status"]) == (503, "draining")
        assert (await http.get("/healthz")).status_code == 200
        assert process.exit_code is None
        process.signal()
        assert await asyncio.gather(*lives) == [CloseCode.SERVICE_RESTART] * 2
        await until(lambda: process.exit_code is not None, seconds=60)
    assert process.exit_code == 0
    codes = await pool.fetch("select online, last_close_code from desktop_clients")
    assert [tuple(row) for row in codes] == [(False, CloseCode.SERVICE_RESTART)] * 2
