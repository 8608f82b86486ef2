"""The desktop's REST calls over HTTP: 2-desktop §2.2; bad inputs of faults.md."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from api.body_guard import MAX_BODY_BYTES, BodyGuard
from api.desktop import desktop_router
from api.problems import install_problem_handlers
from domain.errors import BrokerUnavailable
from domain.transport import ResultMessage
from store.clients import revoke_client
from store.database import Pool
from tests.support.world import Desktop, Lease, World


@dataclass(slots=True)
class RecordingPublisher:
    """A broker at the port: keeps what it confirmed, or is away."""

    available: bool = True
    published: list[tuple[ResultMessage, str]] = field(default_factory=list)

    async def __call__(self, message: ResultMessage, shard_key: str) -> None:
        if not self.available:
            raise BrokerUnavailable("no confirm in time")
        self.published.append((message, shard_key))


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


@pytest.fixture
def publisher() -> RecordingPublisher:
    return RecordingPublisher()


@pytest.fixture
async def http(pool: Pool, publisher: RecordingPublisher) -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI()
    app.include_router(desktop_router(lambda _: pool, lambda _: publisher))
    app.add_middleware(BodyGuard)
    install_problem_handlers(app)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://desktop") as client:
        yield client


async def call(http: httpx.AsyncClient, client: Desktop, lease: Lease, action: str, **body: Any) -> httpx.Response:
    return await http.post(
        f"/api/desktop/tasks/{lease.task_id}/{action}",
        json={"lease_token": lease.token, **body},
        headers={"Authorization": f"Bearer {client.token}"},
    )


async def send(http: httpx.AsyncClient, client: Desktop, lease: Lease, **body: Any) -> httpx.Response:
    given = {"attempt_id": str(lease.attempt_id), "outcome": "succeeded", "raw": "{}", **body}
    return await call(http, client, lease, "result", **given)


async def test_a_task_runs_from_start_to_a_safe_result(
    world: World, http: httpx.AsyncClient, publisher: RecordingPublisher
) -> None:
    client = await world.client()
    lease = await world.leased(client)
    started = await call(http, client, lease, "start", phase="PREPARING")
    extended = await call(http, client, lease, "extend", phase="WAITING")
    accepted = await send(http, client, lease, phase_times={"WAITING": 800}, model="qwen-max")
    [(message, shard)] = publisher.published
    assert (started.status_code, started.json()["status"]) == (200, "in_progress")
    assert extended.json()["lease_expires_at"] >= started.json()["lease_expires_at"]
    assert (accepted.status_code, accepted.json()["duplicate"]) == (202, False)
    assert (message.attempt_id, message.monitor_task_id) == (str(lease.attempt_id), lease.business_id)
    assert (message.outcome, message.raw, message.phase_times) == ("succeeded", "{}", {"WAITING": 800.0})
    assert shard == (await world.business(lease.business_id))["ingest_shard_key"]


async def test_a_resent_result_is_published_once(
    world: World, http: httpx.AsyncClient, publisher: RecordingPublisher
) -> None:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    answers = [await send(http, client, lease) for _ in range(2)]
    assert [(answer.status_code, answer.json()["duplicate"]) for answer in answers] == [(202, False), (202, True)]
    assert len(publisher.published) == 1


async def test_without_the_broker_the_result_stays_the_desktops_and_nothing_changes(
    world: World, http: httpx.AsyncClient, publisher: RecordingPublisher
) -> None:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    publisher.available = False
    refused = await send(http, client, lease)
    assert (refused.status_code, refused.json()["code"]) == (503, "broker_unavailable")
    assert int(refused.headers["Retry-After"]) > 0
    assert (await world.execution(lease.task_id))["result_received_at"] is None
    publisher.available = True
    assert (await send(http, client, lease)).status_code == 202


async def test_a_success_without_the_raw_answer_is_refused(world: World, http: httpx.AsyncClient) -> None:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    assert (await send(http, client, lease, raw=None)).status_code == 422
    assert (await send(http, client, lease, outcome="failed", raw=None, error="no login")).status_code == 202


async def test_cancel_and_ack_answer_what_became_of_the_task(world: World, http: httpx.AsyncClient) -> None:
    client = await world.client()
    queued, victim = await world.leased(client), await world.leased(client, status="in_progress")
    await world.interrupt(victim.task_id, await world.request(client_id=client.id, generation=3), 3)
    cancelled = await call(http, client, queued, "cancel", reason="queue_full")
    stale = await call(http, client, victim, "interrupt-ack", interrupt_generation=2)
    acknowledged = await call(http, client, victim, "interrupt-ack", interrupt_generation=3, safe_point="before_open")
    settled = await call(http, client, victim, "interrupt-ack", interrupt_generation=3, lease_token=None)
    assert cancelled.json() == {"task_id": str(queued.task_id), "result": "requeued"}
    assert (stale.status_code, stale.json()["code"]) == (409, "stale_generation")
    assert acknowledged.json()["result"] == "preempted"
    assert settled.json()["result"] == "already_settled"


async def test_a_stale_stop_is_answered_with_the_current_order(world: World, http: httpx.AsyncClient) -> None:
    client = await world.client()
    victim, adopted = [await world.leased(client, status="in_progress", platform=name) for name in ("qwen", "kimi")]
    await world.interrupt(victim.task_id, await world.request(client_id=client.id, generation=8), 8)
    await world.set("desktop_tasks", adopted.task_id, interrupt_generation=9, source="collect_now")
    for action in ("cancel", "interrupt-ack"):
        answers = [
            await call(http, client, lease, action, reason="collect_now_preempt", interrupt_generation=7)
            for lease in (victim, adopted)
        ]
        assert [answer.status_code for answer in answers] == [409, 409]
        bodies = [answer.json() for answer in answers]
        assert [body["interrupt_requested"] for body in bodies] == [True, False]
        assert [body["interrupt_generation"] for body in bodies] == [8, 9]


@pytest.mark.parametrize("generation", [2**63 - 1, 2**63, 2**70, -1])
async def test_a_generation_of_the_future_is_followed_and_one_that_can_be_none_is_422(
    world: World, http: httpx.AsyncClient, generation: int
) -> None:
    """A restored database is behind its desktops: what they were told is not stale."""
    client = await world.client()
    victim = await world.leased(client, status="in_progress")
    await world.interrupt(victim.task_id, await world.request(client_id=client.id, generation=3), 3)
    answer = await call(http, client, victim, "interrupt-ack", interrupt_generation=generation)
    if 0 <= generation < 2**63:
        assert (answer.status_code, answer.json()["result"]) == (200, "preempted")
    else:
        assert (answer.status_code, answer.json()["errors"][0]["loc"]) == (422, ["body", "interrupt_generation"])
        assert (await world.execution(victim.task_id))["status"] == "in_progress"


@pytest.mark.parametrize("header", [None, "Bearer", "Bearer nobody", "Basic abc"])
async def test_without_a_device_token_every_call_is_401(
    world: World, http: httpx.AsyncClient, header: str | None
) -> None:
    lease = await world.leased(await world.client())
    headers = {} if header is None else {"Authorization": header}
    for action in ("start", "extend", "cancel", "interrupt-ack", "result"):
        answer = await http.post(f"/api/desktop/tasks/{lease.task_id}/{action}", json={}, headers=headers)
        assert answer.status_code == 401, action


async def test_a_token_in_the_url_is_no_token(world: World, http: httpx.AsyncClient) -> None:
    client = await world.client()
    lease = await world.leased(client)
    answer = await http.post(f"/api/desktop/tasks/{lease.task_id}/start?token={client.token}", json={})
    assert answer.status_code in (400, 401)
    assert (await world.execution(lease.task_id))["status"] == "queued"


async def test_a_revoked_device_is_401(world: World, http: httpx.AsyncClient) -> None:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    await revoke_client(world.pool, world.tenant_id, client.id)
    assert (await call(http, client, lease, "extend")).status_code == 401


async def test_another_tenants_task_is_404_in_every_call(world: World, http: httpx.AsyncClient) -> None:
    stranger = await (await World.create(world.pool, "Stranger")).client()
    lease = await world.leased(await world.client(), status="in_progress")
    answers = [
        await call(http, stranger, lease, "start"),
        await call(http, stranger, lease, "extend"),
        await call(http, stranger, lease, "cancel", reason="x"),
        await call(http, stranger, lease, "interrupt-ack", interrupt_generation=1),
        await call(http, stranger, lease, "interrupt-ack", interrupt_generation=1, lease_token=None),
        await send(http, stranger, lease),
    ]
    assert [answer.status_code for answer in answers] == [404] * 6


@pytest.mark.parametrize("task_id", ["l-12", "x", "01234567-89ab-7def-8123-456789abcdef", "%F0%9F%92%A9"])
async def test_an_id_that_is_no_task_is_404(world: World, http: httpx.AsyncClient, task_id: str) -> None:
    client = await world.client()
    answer = await http.post(
        f"/api/desktop/tasks/{task_id}/start",
        json={"lease_token": "x" * 43},
        headers={"Authorization": f"Bearer {client.token}"},
    )
    assert answer.status_code == 404


async def test_a_body_over_one_megabyte_is_413_announced_or_not(
    world: World, http: httpx.AsyncClient, publisher: RecordingPublisher
) -> None:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(MAX_BODY_BYTES // 65536 + 1):
            yield b"x" * 65536

    headers = {"Authorization": f"Bearer {client.token}", "Content-Type": "application/json"}
    url = f"/api/desktop/tasks/{lease.task_id}/result"
    announced = await send(http, client, lease, raw="x" * MAX_BODY_BYTES)
    unannounced = await http.post(url, content=chunks(), headers=headers)
    assert [announced.status_code, unannounced.status_code] == [413, 413]
    assert announced.json()["code"] == "payload_too_large"
    assert (await send(http, client, lease, raw="x" * (MAX_BODY_BYTES - 1000))).status_code == 202


@pytest.mark.parametrize("announced", [True, False], ids=["announced", "chunked"])
@pytest.mark.parametrize(("over", "status"), [(0, 202), (1, 413)], ids=["one-megabyte", "one-byte-more"])
async def test_a_result_has_one_megabyte_to_the_byte(
    world: World, http: httpx.AsyncClient, over: int, status: int, announced: bool
) -> None:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    known = {"lease_token": lease.token, "attempt_id": str(lease.attempt_id), "outcome": "succeeded", "raw": ""}
    filled = {**known, "raw": "x" * (MAX_BODY_BYTES + over - len(json.dumps(known)))}
    body = json.dumps(filled).encode()
    assert len(body) == MAX_BODY_BYTES + over

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 65536):
            yield body[start : start + 65536]

    answer = await http.post(
        f"/api/desktop/tasks/{lease.task_id}/result",
        content=body if announced else chunks(),
        headers={"Authorization": f"Bearer {client.token}", "Content-Type": "application/json"},
    )
    assert answer.status_code == status
    assert ((await world.execution(lease.task_id))["result_received_at"] is None) is (status == 413)


@pytest.mark.parametrize("media", ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonp"])
async def test_a_body_that_is_not_announced_as_json_is_415_and_changes_nothing(
    world: World, http: httpx.AsyncClient, publisher: RecordingPublisher, media: str
) -> None:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    known = {"lease_token": lease.token, "attempt_id": str(lease.attempt_id), "outcome": "succeeded", "raw": "{}"}
    answer = await http.post(
        f"/api/desktop/tasks/{lease.task_id}/result",
        content=json.dumps(known).encode(),
        headers={"Authorization": f"Bearer {client.token}", "Content-Type": media},
    )
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")
    assert publisher.published == []


DEEP = "[" * 1000 + "]" * 1000


@pytest.mark.parametrize(
    "fragment",
    [
        pytest.param('"phase_times": {"WAITING": NaN}', id="nan"),
        pytest.param('"phase_times": {"WAITING": Infinity}', id="infinity"),
        pytest.param('"phase_times": {"WAITING": 1e999}', id="overflow"),
        pytest.param('"phase_times": {"WAITING": -1}', id="negative"),
        pytest.param('"phase_times": {"DREAMING": 1}', id="no-phase"),
        pytest.param('"error": "a\\u0000b"', id="nul"),
        pytest.param('"error": "\\ud800"', id="surrogate"),
        pytest.param(f'"error": {DEEP}', id="deep"),
        pytest.param('"error": "', id="cut"),
        pytest.param('"surprise": 1', id="unknown-field"),
    ],
)
async def test_bad_bodies_are_4xx_and_change_nothing(
    world: World, http: httpx.AsyncClient, publisher: RecordingPublisher, fragment: str
) -> None:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    known = json.dumps({"lease_token": lease.token, "attempt_id": str(lease.attempt_id), "outcome": "failed"})
    answer = await http.post(
        f"/api/desktop/tasks/{lease.task_id}/result",
        content=f"{known[:-1]}, {fragment}}}",
        headers={"Authorization": f"Bearer {client.token}", "Content-Type": "application/json"},
    )
    assert 400 <= answer.status_code < 500
    assert publisher.published == []


async def test_the_old_event_stream_is_gone(http: httpx.AsyncClient) -> None:
    answer = await http.get("/api/desktop/events")
    assert (answer.status_code, answer.json()["code"]) == (410, "gone")
