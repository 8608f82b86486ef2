"""Both paths behind the desktop's routes, over HTTP: 2-desktop §2.2, 1-dispatch §1.7."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from api.desktop import desktop_router
from api.problems import install_problem_handlers
from domain.transport import ResultMessage
from store.database import Pool
from tests.support.legacy import LegacyHands, legacy_task, number_of, offered
from tests.support.world import Desktop, World


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


@pytest.fixture
def published() -> list[ResultMessage]:
    return []


@pytest.fixture
async def http(pool: Pool, published: list[ResultMessage]) -> AsyncIterator[httpx.AsyncClient]:
    async def publish(message: ResultMessage, _shard: str) -> None:
        published.append(message)

    app = FastAPI()
    app.include_router(desktop_router(lambda _: pool, lambda _: publish))
    install_problem_handlers(app)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://desktop") as client:
        yield client


async def call(http: httpx.AsyncClient, client: Desktop, path: str, **body: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {client.token}"}
    return await http.post(f"/api/desktop/tasks/{path}", json=body, headers=headers)


async def test_a_legacy_task_is_pulled_run_and_answered_over_the_same_routes(
    world: World, http: httpx.AsyncClient, published: list[ResultMessage]
) -> None:
    client = await world.client()
    number = await legacy_task(world)
    await offered(world, client, number)
    pulled = (await call(http, client, "lease", count=5)).json()
    assert (len(pulled["tasks"]), pulled["remaining"]) == (1, 0)
    [task] = pulled["tasks"]
    lease = {"lease_token": task["lease_token"]}
    started = await call(http, client, f"{task['task_id']}/start", **lease)
    extended = await call(http, client, f"{task['task_id']}/extend", **lease, phase="WAITING")
    result = {**lease, "attempt_id": task["attempt_id"], "outcome": "succeeded", "raw": "{}"}
    answers = [await call(http, client, f"{task['task_id']}/result", **result) for _ in range(2)]
    assert (task["task_id"], task["owner"]) == (f"l-{number}", "legacy")
    assert (started.status_code, started.json()["status"]) == (200, "leased")
    assert extended.status_code == 200
    assert [(answer.status_code, answer.json()["duplicate"]) for answer in answers] == [(202, False), (202, True)]
    [message] = published
    assert (message.task_id, message.monitor_task_id, message.attempt_id) == (
        f"l-{number}", number, task["attempt_id"],
    )  # fmt: skip
    assert (await world.business(number))["status"] == "received"


async def test_a_legacy_task_is_given_back_over_the_same_routes(world: World, http: httpx.AsyncClient) -> None:
    hands = LegacyHands(world, await world.client())
    task, other = await hands.pull_one(), await hands.pull_one(platform="doubao")
    cancelled = await call(
        http, hands.desktop, f"{task.task_id}/cancel", lease_token=task.lease_token, reason="client_stopping"
    )
    acknowledged = await call(
        http,
        hands.desktop,
        f"{other.task_id}/interrupt-ack",
        lease_token=other.lease_token,
        interrupt_generation=0,
        safe_point="before_open",
    )
    assert (cancelled.status_code, cancelled.json()["result"]) == (200, "requeued")
    assert (acknowledged.status_code, acknowledged.json()["result"]) == (200, "requeued")
    assert (await world.business(number_of(task)))["status"] == "pending"
    lost = await call(http, hands.desktop, f"{task.task_id}/start", lease_token=task.lease_token)
    assert (lost.status_code, lost.json()["code"]) == (409, "lease_lost")


@pytest.mark.parametrize("task_id", ["l-7", "l-", "l-x", "l--1", "l-99999999999999999999", "L-7", "l-٣"])
async def test_an_id_that_is_nobodys_is_not_found(world: World, http: httpx.AsyncClient, task_id: str) -> None:
    client = await world.client()
    refused = await call(http, client, f"{task_id}/start", lease_token="x" * 40)
    assert (refused.status_code, refused.json()["code"]) == (404, "not_found")


async def test_a_pull_needs_the_device_token_and_a_sane_count(world: World, http: httpx.AsyncClient) -> None:
    client = await world.client()
    unknown = await http.post("/api/desktop/tasks/lease", json={"count": 1})
    assert unknown.status_code == 401
    for count in (0, -1, 65, "many", None):
        assert (await call(http, client, "lease", count=count)).status_code == 422
    assert (await call(http, client, "lease", count=1)).json() == {"tasks": [], "remaining": 0}


async def test_the_old_event_stream_is_gone(http: httpx.AsyncClient) -> None:
    gone = await http.get("/api/desktop/events")
    assert (gone.status_code, gone.json()["code"]) == (410, "gone")
