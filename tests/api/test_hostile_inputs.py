"""Bad inputs over every route: a 4xx problem, never a 500 (faults.md)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from api.app import create_app
from api.auth import Role
from api.body_guard import MAX_BODY_BYTES, MAX_DEPTH
from api.state import AppState
from settings import Settings
from tests.api.conftest import Caller, Login, problem_of
from tests.api.routes import Operation, operations, sound_body
from tests.support.world import World

JSON = {"Content-Type": "application/json"}

HOSTILE_BODIES = {
    "NaN": b'{"name": NaN}',
    "Infinity": b'{"name": Infinity}',
    "minus Infinity": b'{"name": -Infinity}',
    "1e999": b'{"workspace_id": 1e999}',
    "digits": b'{"workspace_id": ' + b"9" * 5000 + b"}",
    "NUL": b'{"name": "a\\u0000b"}',
    "NUL as key": b'{"\\u0000": 1}',
    "raw NUL": b'{"name": "a\x00b"}',
    "lone high surrogate": b'{"name": "\\ud800"}',
    "lone low surrogate": b'{"name": "\\udc00x"}',
    "not UTF-8": b'{"name": "\xff\xfe"}',
    "UTF-16": '{"name": "x"}'.encode("utf-16"),
    "byte order mark": b'\xef\xbb\xbf{"name": "x"}',
    "nested lists": b"[" * 1000 + b"]" * 1000,
    "nested too deep for any parser": b"[" * 100_000 + b"]" * 100_000,
    "nested objects": b'{"a":' * 1000 + b"1" + b"}" * 1000,
    "just over the depth": b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1),
    "cut off": b'{"name": "x"',
    "two values": b"{} {}",
    "comment": b'{} // {"name": 1}',
    "single quotes": b"{'name': 'x'}",
    "list": b"[]",
    "text": b'"x"',
    "number": b"1",
    "null": b"null",
    "10 MB": b'{"name": "' + b"x" * 10_000_000 + b'"}',
}

# JSON that only the routes can refuse.
WELL_FORMED = {"list", "text", "number", "null"}

ODD_VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    2**63,
    2**64,
    10**30,
    1.5,
    1e308,
    "",
    " ",
    "x" * 100_000,
    "\u202e\ufffe",
    "%_\\'\";--",
    [],
    [None],
    [[[]]],
    ["x"] * 20_000,
    [2**63],
    {},
    {"x": {"x": 1}},
]

ODD_IDS = ["0", "-1", str(2**63), str(10**30), "abc", "1e3", "1.5", "%00", "%EF%BF%BE", "'", "%2e%2e", "١", "NaN"]


@pytest.fixture
def call(login: Login, world: World) -> Caller:
    """Somebody who may call everything, and says which version he changes."""
    caller = login(world, Role.OPS)
    caller.headers["If-Match"] = '"0"'
    return caller


@pytest.fixture
def every(app: FastAPI) -> list[Operation]:
    return operations(app)


def ids_of(world: World) -> dict[str, Any]:
    missing = 2**62
    return {
        "brand_id": world.brand_id,
        "competitor_id": missing,
        "question_id": missing,
        "plan_id": missing,
        "batch_id": missing,
        "badcase_id": missing,
        "request_id": uuid4(),
        "client_id": uuid4(),
        "task_id": uuid4(),
        "call_id": uuid4(),
        "tenant_id": missing,
        "key": "retry_low_water",
        "platform": "qwen",
        "kind": "lane",
    }


DEVICE_PATHS = ("/api/desktop/tasks/", "/api/desktop/proxy/")
# They take nothing, and ask a Temporal that has no schedules here.
BODILESS = ("reconcile_now", "tune_now")


@pytest.mark.parametrize("name", HOSTILE_BODIES)
async def test_a_hostile_body_is_a_4xx_problem_on_every_route(
    call: Caller, world: World, every: list[Operation], name: str
) -> None:
    for operation in every:
        if operation.method not in ("POST", "PATCH") or operation.id in BODILESS:
            continue
        path = operation.filled(ids_of(world))
        response = await call(operation.method, path, content=HOSTILE_BODIES[name], headers=JSON)
        assert 400 <= response.status_code < 500, (operation, response.text)
        problem = problem_of(response, response.status_code)
        if name not in WELL_FORMED:
            assert problem["code"] == ("payload_too_large" if name == "10 MB" else "malformed_json"), operation


async def test_an_odd_value_in_any_field_is_never_a_500(call: Caller, world: World, every: list[Operation]) -> None:
    tried = 0
    for operation in every:
        sound = sound_body(operation, world)
        for field in sound or ():
            for value in ODD_VALUES:
                path = operation.filled(ids_of(world))
                response = await call(operation.method, path, json={**(sound or {}), field: value})
                assert response.status_code < 500, (operation, field, value, response.text)
                tried += 1
    assert tried > 800


async def test_an_odd_id_in_any_path_is_422_or_404(call: Caller, world: World, every: list[Operation]) -> None:
    for operation in every:
        for name in ids_of(world):
            if f"{{{name}}}" not in operation.path:
                continue
            for odd in ODD_IDS:
                path = operation.filled({**ids_of(world), name: odd})
                response = await call(operation.method, path, json=sound_body(operation, world))
                allowed = (401, 422) if operation.path.startswith(DEVICE_PATHS) else (404, 405, 422)
                assert response.status_code in allowed, (operation, odd, response.text)
                problem_of(response, response.status_code)


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("brands", "limit=0"),
        ("brands", "limit=101"),
        ("brands", "limit=1e999"),
        ("brands", "limit=" + "9" * 400),
        ("brands", "cursor=%00"),
        ("brands", "cursor=\x00"),
        ("plans", f"brand_id={2**63}"),
        ("batches", "brand_id=NaN"),
        ("collect-requests", "brand_id=-1"),
        ("collect-requests", "cursor=WyIyMDI2LTAxLTAxIiwieCJd"),
        ("brands/{brand_id}/overview", "days=0"),
        ("brands/{brand_id}/overview", f"days={10**30}"),
        ("brands/{brand_id}/overview", "scope=ui_sample"),
        ("brands/{brand_id}/platform-stats", "days=366"),
    ],
)
async def test_an_odd_query_is_422(call: Caller, world: World, path: str, query: str) -> None:
    url = f"/api/tenant/monitoring/{path.format(brand_id=world.brand_id)}"
    problem_of(await call("GET", url, params=query), 422)


async def test_a_body_over_the_bound_is_413_whether_announced_or_streamed(call: Caller) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"x" * 65_536

    path = "/api/tenant/monitoring/brands"
    problem_of(await call("POST", path, content=b"x" * (MAX_BODY_BYTES + 1), headers=JSON), 413)
    problem_of(await call("POST", path, content=endless(), headers=JSON), 413)
    lying = {**JSON, "Content-Length": "9" * 30}
    problem_of(await call("POST", path, content=b"{}", headers=lying), 413)


async def test_a_client_on_a_socket_gets_the_413_and_not_a_reset(settings: Settings, state: AppState) -> None:
    server = uvicorn.Server(uvicorn.Config(create_app(settings, state), port=0, access_log=False, log_level="error"))
    serving = asyncio.create_task(server.serve())
    try:
        while not server.started:
            assert not serving.done()
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
            url = "/api/tenant/monitoring/brands"
            problem_of(await http.post(url, content=HOSTILE_BODIES["10 MB"], headers=JSON), 413)
    finally:
        server.should_exit = True
        await serving


async def test_a_body_that_is_not_declared_json_is_415(call: Caller, world: World) -> None:
    for media in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        response = await call(
            "POST", "/api/tenant/monitoring/brands", content=b'{"name": "x"}', headers={"Content-Type": media}
        )
        assert problem_of(response, 415)["code"] == "unsupported_media_type"


async def test_a_refused_value_is_not_repeated_in_the_answer(call: Caller, world: World) -> None:
    body = {"workspace_id": "hunter2-secret", "name": {"password": "hunter2-secret"}}
    response = await call("POST", "/api/tenant/monitoring/brands", json=body)
    assert {tuple(error["loc"]) for error in problem_of(response, 422)["errors"]} == {
        ("body", "workspace_id"),
        ("body", "name"),
    }
    assert "hunter2" not in response.text
