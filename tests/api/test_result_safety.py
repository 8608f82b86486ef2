"""A result between the broker and the database: whatever is lost there, sent again it counts once (2-desktop §2.2)."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.types import Message

from api.body_guard import BodyGuard
from api.desktop import desktop_router
from api.problems import install_problem_handlers
from broker.publisher import Publisher
from broker.results import publish_result
from domain.errors import BrokerUnavailable
from domain.transport import ResultMessage
from store.audit import Integrity, check_integrity
from store.database import Pool
from store.raw_answers import RawAnswers
from tests.conftest import Servers
from tests.support.ingesting import ingesting
from tests.support.result_queues import RabbitQueue, rabbit_queue, until
from tests.support.results import chat_answer
from tests.support.world import Desktop, Lease, World


@dataclass(slots=True)
class Doubtful:
    """Publishes to the real broker; the first confirms are lost on their way back."""

    publisher: Publisher
    lost: int = 0

    async def __call__(self, message: ResultMessage, shard_key: str) -> None:
        await publish_result(self.publisher, message, shard_key, 1)
        if self.lost:
            self.lost -= 1
            raise BrokerUnavailable("no confirm in time")


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


@pytest.fixture
async def queue(servers: Servers) -> AsyncIterator[RabbitQueue]:
    async with rabbit_queue(servers.amqp_url) as opened:
        yield opened


@pytest.fixture
def doubtful(queue: RabbitQueue) -> Doubtful:
    return Doubtful(queue.publisher)


@pytest.fixture
async def http(pool: Pool, doubtful: Doubtful) -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI()
    app.include_router(desktop_router(lambda _: pool, lambda _: doubtful))
    install_problem_handlers(app)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://desktop") as client:
        yield client


async def send(http: httpx.AsyncClient, client: Desktop, lease: Lease) -> httpx.Response:
    body: dict[str, Any] = {"lease_token": lease.token, "attempt_id": str(lease.attempt_id), "outcome": "succeeded"}
    return await http.post(
        f"/api/desktop/tasks/{lease.task_id}/result",
        json={**body, "raw": chat_answer("Acme is fine.")},
        headers={"Authorization": f"Bearer {client.token}"},
    )


async def test_a_confirm_that_was_lost_is_503_and_the_result_sent_again_has_one_effect(
    world: World, http: httpx.AsyncClient, doubtful: Doubtful, queue: RabbitQueue, tmp_path: Path
) -> None:
    client, batch = await world.client(), await world.batch(expected=1)
    lease = await world.leased(client, status="in_progress", batch_id=batch)
    doubtful.lost = 1
    refused = await send(http, client, lease)
    assert (refused.status_code, refused.json()["code"]) == (503, "broker_unavailable")
    assert (await world.execution(lease.task_id))["result_received_at"] is None
    answers = await asyncio.gather(*(send(http, client, lease) for _ in range(3)))
    assert [answer.status_code for answer in answers] == [202] * 3
    assert [answer.json()["duplicate"] for answer in answers].count(False) == 1

    async def all_in() -> bool:
        done = (await world.business(lease.business_id))["status"] == "completed"
        return done and await queue.waiting() == 0

    # More than one is there: the one whose confirm was lost, and at least one sent again.
    await until(lambda: holds(queue, 2))
    async with ingesting(world.pool, queue, RawAnswers(f"file://{tmp_path}/raw")):
        await until(all_in)
    assert await world.pool.fetchval("select count(*) from question_monitor_runs") == 1
    assert (await world.row("scheduled_batches", batch))["completed_count"] == 1
    assert (await world.attempt(lease.attempt_id))["outcome"] == "succeeded"
    assert await check_integrity(world.pool, world.tenant_id) == Integrity(0, 0, 0, 0)
    assert (await send(http, client, lease)).json()["duplicate"]


async def holds(queue: RabbitQueue, count: int) -> bool:
    return await queue.waiting() >= count


async def test_a_body_that_is_too_large_with_its_last_part_is_answered_without_waiting_for_more() -> None:
    """Nothing more comes: who asked for it would wait for the peer to go away."""
    parts = [{"type": "http.request", "body": b"x" * 11, "more_body": False}]
    sent: list[Message] = []

    async def receive() -> Message:
        return parts.pop()

    async def send_back(message: Message) -> None:
        sent.append(message)

    async def nobody(*_arguments: Any) -> None:
        raise AssertionError("no route may see it")

    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": []}
    await BodyGuard(nobody, max_body_bytes=10)(scope, receive, send_back)
    assert (sent[0]["status"], parts) == (413, [])
