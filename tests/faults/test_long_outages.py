"""Outages that last, under the main job on real processes: minutes each, so `make test-faults` alone runs them."""

import asyncio
import io
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from rich.console import Console

from api.desktop import desktop_router
from api.problems import install_problem_handlers
from api.state import ShardedPublisher
from broker.connection import BrokerConnection
from broker.consumer import IngestConsumer
from broker.publisher import Publisher
from devstack.demo.material import samples
from devstack.demo.rest import TenantApi, passes_by_itself
from devstack.demo.story import Options, tell
from devstack.vitals import check_vitals
from domain.transport import ingest_queue
from store.audit import Integrity, check_integrity
from store.database import Pool
from tests.conftest import Servers
from tests.e2e.installation import Installation, install
from tests.faults.own_broker import OwnBroker
from tests.support.results import chat_answer
from tests.support.tcp_proxy import TcpProxy
from tests.support.world import Desktop, Lease, World

pytestmark = [pytest.mark.long_fault, pytest.mark.timeout(900), pytest.mark.xdist_group("own-broker")]

ALARM_SECONDS = 60
BLACKHOLE_SECONDS = 120
# RabbitMQ's own default, of the machine's memory.
USUAL_WATERMARK = "0.4"


@asynccontextmanager
async def memory_alarm(broker: OwnBroker) -> AsyncIterator[None]:
    """Connections that publish are blocked meanwhile."""
    await broker.control("set_vm_memory_high_watermark", "0.000001")
    try:
        yield
    finally:
        await broker.control("set_vm_memory_high_watermark", USUAL_WATERMARK)


@asynccontextmanager
async def silence(proxy: TcpProxy) -> AsyncIterator[None]:
    """Connections stand, and nothing comes through."""
    proxy.swallow()
    try:
        yield
    finally:
        proxy.swallow(False)


async def told_through(
    installation: Installation, pool: Pool, fault: Callable[[], AbstractAsyncContextManager[None]], seconds: float
) -> dict[str, Any]:
    """The main job, with the fault in its middle for so long; what the job says at its end."""

    async def strike() -> None:
        # The job's own patience before the click is short.
        while not await pool.fetchval("select count(*) from monitoring_collect_requests"):
            await asyncio.sleep(0.05)
        async with fault():
            await asyncio.sleep(seconds)

    material = samples()
    options = Options(installation.state_dir, os.environ, speed=2, patience=500)
    striking = asyncio.create_task(strike())
    try:
        console = Console(file=io.StringIO(), force_terminal=False)
        story = tell(installation.server, pool, replace(material, questions=material.questions[:12]), options, console)
        outcome = await story
        await striking
    finally:
        striking.cancel()
        await asyncio.gather(striking, return_exceptions=True)
    return outcome


@pytest.fixture(autouse=True)
def patient_person(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who told the job to run looks at it again and again; the job's own program gives up after a minute and a half."""
    look = TenantApi.get

    async def look_again(api: TenantApi, path: str, **query: Any) -> Any:
        while True:
            try:
                return await look(api, path, **query)
            except Exception as error:
                if not passes_by_itself(error):
                    raise

    monkeypatch.setattr(TenantApi, "get", look_again)


async def check(installation: Installation, pool: Pool, outcome: dict[str, Any]) -> None:
    """Everything was collected once, and nobody had to be started again."""
    assert outcome["batch_completed"] == outcome["batch_expected"] == 48
    assert (outcome["lost"], outcome["duplicated"], outcome["request_status"]) == (0, 0, "succeeded")
    tenant_id = await pool.fetchval("select max(id) from tenants")
    assert await check_integrity(pool, tenant_id) == Integrity(0, 0, 0, 0)
    assert {status.name: status.restarts for status in installation.supervisor.status()} == {
        "migrate": 0, "serve": 0, "worker": 0,
    }  # fmt: skip


async def test_a_memory_alarm_of_a_minute_heals_by_itself(
    servers: Servers, own_broker: OwnBroker, database_url: str, pool: Pool, tmp_path: Path
) -> None:
    async with install(replace(servers, amqp_url=own_broker.url), database_url, tmp_path / "giveway") as installation:
        outcome = await told_through(installation, pool, lambda: memory_alarm(own_broker), ALARM_SECONDS)
        await check(installation, pool, outcome)


async def test_a_broker_that_says_nothing_for_two_minutes_is_found_again(
    servers: Servers, database_url: str, pool: Pool, tmp_path: Path
) -> None:
    async with TcpProxy(servers.amqp_url) as proxy:
        proxied = replace(servers, amqp_url=proxy.url)
        async with install(proxied, database_url, tmp_path / "giveway") as installation:
            outcome = await told_through(installation, pool, lambda: silence(proxy), BLACKHOLE_SECONDS)
            await check(installation, pool, outcome)


async def test_a_database_that_says_nothing_for_two_minutes_is_found_again(
    servers: Servers, database_url: str, pool: Pool, tmp_path: Path
) -> None:
    async with TcpProxy(database_url) as proxy, install(servers, proxy.url, tmp_path / "giveway") as installation:
        outcome = await told_through(installation, pool, lambda: silence(proxy), BLACKHOLE_SECONDS)
        await check(installation, pool, outcome)


@asynccontextmanager
async def desktop_api(pool: Pool, broker: OwnBroker, prefix: str) -> AsyncIterator[httpx.AsyncClient]:
    """The desktop's routes with a real publisher."""
    async with BrokerConnection(broker.url, name="fault-api") as connection:
        publish = ShardedPublisher(Publisher(connection, prefix=prefix, shards=1), 1)
        app = FastAPI()
        app.include_router(desktop_router(lambda _: pool, lambda _: publish))
        install_problem_handlers(app)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://desktop", timeout=60) as http:
            yield http


@asynccontextmanager
async def ingested(broker: OwnBroker, prefix: str) -> AsyncIterator[None]:
    """A consumer that takes everything from the shard."""

    async def drain() -> None:
        async with BrokerConnection(broker.url, name="fault-drain") as connection:
            consumer = IngestConsumer(connection, 0, shards=1, prefix=prefix)
            async with aclosing(consumer.batches()) as batches:
                async for batch in batches:
                    await consumer.ack(batch)

    draining = asyncio.create_task(drain())
    try:
        yield
    finally:
        draining.cancel()
        await asyncio.gather(draining, return_exceptions=True)


async def post_result(http: httpx.AsyncClient, client: Desktop, lease: Lease) -> httpx.Response:
    body = {"lease_token": lease.token, "attempt_id": str(lease.attempt_id), "outcome": "succeeded"}
    return await http.post(
        f"/api/desktop/tasks/{lease.task_id}/result",
        json={**body, "raw": chat_answer("Acme."), "content_type": "application/json"},
        headers={"Authorization": f"Bearer {client.token}"},
    )


async def until_taken(http: httpx.AsyncClient, client: Desktop, lease: Lease) -> None:
    """As a desktop does: again, until it is taken."""
    async with asyncio.timeout(60):
        while not (await post_result(http, client, lease)).is_success:
            await asyncio.sleep(0.2)


def is_told_to_wait(response: httpx.Response) -> bool:
    return response.status_code == 503 and int(response.headers["Retry-After"]) >= 1


async def test_a_broker_that_takes_nothing_makes_desktops_keep_their_results(own_broker: OwnBroker, pool: Pool) -> None:
    """A memory alarm, then a shard at the length that an operator's policy allows (ADR 0040)."""
    world = await World.create(pool)
    client = await world.client()
    kept, full = [await world.leased(client, status="in_progress") for _ in range(2)]
    async with desktop_api(pool, own_broker, "limits.") as http:
        async with memory_alarm(own_broker):
            assert is_told_to_wait(await post_result(http, client, kept))
        assert (await world.attempt(kept.attempt_id))["result_received_at"] is None
        await until_taken(http, client, kept)
        policy = ("limit", rf"^limits\.{ingest_queue(0)}$", '{"max-length": 1}')
        await own_broker.control("set_policy", *policy, "--apply-to", "queues")
        async with asyncio.timeout(60):
            # A quorum queue refuses a little later than at its limit.
            while not is_told_to_wait(answer := await post_result(http, client, full)):
                full = await world.leased(client, status="in_progress")
        assert (await world.attempt(full.attempt_id))["result_received_at"] is None
        assert "traceback" not in answer.text.lower()
        # Room alone lets it go on: whoever was refused is told when the queue has been drained.
        async with ingested(own_broker, "limits."):
            await until_taken(http, client, full)
        await own_broker.control("clear_policy", "limit")


async def test_a_frozen_worker_is_seen_by_the_doctor_and_goes_on_when_it_wakes(
    servers: Servers, database_url: str, tmp_path: Path
) -> None:
    async with install(servers, database_url, tmp_path / "giveway") as installation:
        server, pid = installation.server, installation.supervisor.pid("worker")
        assert pid is not None
        environ = {"AMQP_PREFIX": server.settings.amqp_prefix, "INGEST_SHARDS": "2"}

        async def residents_are(ok: bool) -> None:
            async with asyncio.timeout(60):
                while (await check_vitals(server.endpoints, environ))[0].ok != ok:
                    await asyncio.sleep(0.2)

        await residents_are(True)
        os.kill(pid, signal.SIGSTOP)
        try:
            await residents_are(False)
        finally:
            os.kill(pid, signal.SIGCONT)
        await residents_are(True)
