"""Large answers of a desktop's page over HTTP: 2-desktop §2.1; ADR 0054."""

from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from fastapi import FastAPI

from api.body_guard import MAX_BODY_BYTES, BodyGuard
from api.desktop import desktop_router
from api.problems import install_problem_handlers
from domain.hub_port import ClientIdentity
from store import proxy_calls
from store.database import Pool, transaction
from tests.api.conftest import problem_of
from tests.hub.memory_backend import a_request
from tests.support.world import Desktop, World, ago


@pytest.fixture
async def http(pool: Pool) -> Any:
    app = FastAPI()
    app.include_router(desktop_router(lambda _: pool, lambda _: None))  # type: ignore[arg-type,return-value]
    app.add_middleware(BodyGuard)
    install_problem_handlers(app)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://desktop") as client:
        yield client


@pytest.fixture
async def desktop(world: World) -> Desktop:
    return await world.client()


@pytest.fixture
async def call_id(world: World, desktop: Desktop) -> UUID:
    made = uuid4()
    async with transaction(world.pool) as connection:
        await proxy_calls.open_call(connection, ClientIdentity(desktop.id, world.tenant_id), a_request(made))
    return made


async def post(http: httpx.AsyncClient, desktop: Desktop, call_id: object, **body: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {desktop.token}"}
    return await http.post(f"/api/desktop/proxy/{call_id}", json=body, headers=headers)


async def test_an_answer_too_large_for_a_frame_is_kept_once(
    world: World, http: httpx.AsyncClient, desktop: Desktop, call_id: UUID
) -> None:
    body = "ü" * 300_000
    first = await post(http, desktop, call_id, status=200, headers={"content-type": "text/plain"}, body=body)
    assert (first.status_code, first.json()) == (200, {"call_id": str(call_id), "duplicate": False})
    again = await post(http, desktop, call_id, status=500)
    assert again.json()["duplicate"]
    row = await world.row("desktop_proxy_calls", call_id)
    assert (row["answer"]["status"], row["answer"]["body"]) == (200, body)


async def test_over_a_megabyte_is_413_and_the_call_still_waits(
    world: World, http: httpx.AsyncClient, desktop: Desktop, call_id: UUID
) -> None:
    problem_of(await post(http, desktop, call_id, status=200, body="x" * MAX_BODY_BYTES), 413)
    assert (await world.row("desktop_proxy_calls", call_id))["state"] == "waiting"
    assert (await post(http, desktop, call_id, error="body_too_large")).status_code == 200


async def test_an_answer_after_the_deadline_is_over(
    world: World, http: httpx.AsyncClient, desktop: Desktop, call_id: UUID
) -> None:
    await world.set("desktop_proxy_calls", call_id, deadline=ago(seconds=1))
    assert problem_of(await post(http, desktop, call_id, status=200), 409)["code"] == "proxy_over"


async def test_another_clients_call_is_missing(world: World, http: httpx.AsyncClient, call_id: UUID) -> None:
    stranger = await World.create(world.pool, "Stranger")
    for other in (await world.client(), await stranger.client()):
        assert problem_of(await post(http, other, call_id, status=200), 404)["code"] == "not_found"
    nobody = Desktop(uuid4(), "device-token-of-nobody")
    assert problem_of(await post(http, nobody, call_id, status=200), 401)["code"] == "unauthorized"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"status": 200, "error": "timeout"},
        {"error": ""},
        {"error": "timeout", "body": "x"},
        {"status": 99},
        {"status": 200, "headers": {"a": "b" * 8193}},
        {"status": 200, "headers": {str(number): "" for number in range(101)}},
        {"status": 200, "body": "a\0b"},
        {"error": "timeout", "message": "m" * 501},
        {"status": 200, "surprise": 1},
    ],
    ids=str,
)
async def test_an_answer_out_of_form_is_refused(
    world: World, http: httpx.AsyncClient, desktop: Desktop, call_id: UUID, body: dict[str, Any]
) -> None:
    assert (await post(http, desktop, call_id, **body)).status_code == 422
    assert (await world.row("desktop_proxy_calls", call_id))["state"] == "waiting"
