"""Reading a request: counters, reasons of failures, and the stream of its changes (1-dispatch §1.5, dispatch §13.5)."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import httpx
import pytest

from api.app import create_app
from api.auth import issue_development_token
from api.state import AppState
from domain.errors import NotFound
from domain.messages import RequestRef
from settings import Settings
from store import requests
from store.database import Pool, open_pool
from store.listen import REQUESTS
from tests.api.conftest import AcceptInProcess, Caller, Login, problem_of, serving
from tests.support.clicks import Hands, rounds
from tests.support.world import World

BASE = "/api/tenant/monitoring"


@pytest.fixture
async def ready(world: World) -> World:
    """A brand with three questions on a platform that takes three tasks at once."""
    await world.plan()
    await world.pool.execute("insert into dispatch_fuses (key, value) values ('platform_concurrency', 3)")
    await world.platform_limit("qwen", 3)
    for _ in range(3):
        await world.question()
    return world


async def click(call: Caller, world: World, **body: Any) -> str:
    response = await call("POST", f"{BASE}/brands/{world.brand_id}/collect-now", json=body)
    assert response.status_code == 202, response.text
    return str(response.json()["request_id"])


async def read(call: Caller, request: str) -> dict[str, Any]:
    found: dict[str, Any] = (await call("GET", f"{BASE}/collect-requests/{request}")).json()
    return found


def events_of(response: httpx.Response) -> list[dict[str, Any]]:
    """The data of the events `request`, in order."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    blocks = [block for block in response.text.split("\n\n") if block.startswith("event: request\n")]
    return [json.loads(block.removeprefix("event: request\ndata: ")) for block in blocks]


async def test_a_request_says_why_tasks_failed_the_most_frequent_reason_first(call: Caller, ready: World) -> None:
    request = await click(call, ready)
    tasks = await ready.pool.fetch("select id from monitoring_collect_tasks order by id")
    for row, error in zip(tasks, ("login_required", "timeout", "timeout"), strict=True):
        await ready.set("monitoring_collect_tasks", row["id"], status="failed", last_error=error)
    await ready.pool.execute("update monitoring_collect_requests set failed_task_count = 3, status = 'failed'")
    found = await read(call, request)
    assert found["failures"] == [{"reason": "timeout", "tasks": 2}, {"reason": "login_required", "tasks": 1}]


async def test_the_reasons_are_bounded_in_number_and_length(call: Caller, ready: World) -> None:
    for _ in range(12):
        await ready.question()
    request = await click(call, ready)
    await ready.pool.execute(
        "update monitoring_collect_tasks set status = 'failed', last_error = repeat('x', 500) || id"
    )
    await ready.pool.execute("update monitoring_collect_tasks set last_error = id || repeat('x', 500)")
    await ready.pool.execute("update monitoring_collect_requests set failed_task_count = 15")
    failures = (await read(call, request))["failures"]
    assert (len(failures), {len(each["reason"]) for each in failures}) == (10, {200})


async def test_what_was_returned_and_withdrawn_is_shown(call: Caller, ready: World) -> None:
    await ready.leased(await ready.client(), status="in_progress", platform="doubao")
    request = await click(call, ready)
    row = await ready.pool.fetchrow("select id from monitoring_collect_requests")
    assert row is not None
    await requests.cancel_request(ready.pool, RequestRef(request_id=row["id"], tenant_id=ready.tenant_id))
    found = await read(call, request)
    assert (found["status"], found["requested_task_count"], found["returned_task_count"]) == ("failed", 4, 4)
    assert found["interrupts"] == {"requested": 1, "settled": 0, "timed_out": 0, "withdrawn": 1}


async def test_the_stream_shows_each_change_and_ends_with_the_request(call: Caller, ready: World) -> None:
    client = await ready.client(max_concurrent=3)
    request = await click(call, ready)
    reading = asyncio.create_task(call("GET", f"{BASE}/collect-requests/{request}/events"))
    await rounds(ready.pool)
    for frame in await Hands(ready, client).take():
        await Hands(ready, client).run(frame)
    seen = events_of(await reading)
    assert (seen[-1]["status"], seen[-1]["completed_task_count"], seen[-1]["failures"]) == ("succeeded", 3, [])
    assert [each["status"] for each in seen] == sorted(
        (each["status"] for each in seen), key=["accepted", "dispatching", "running", "succeeded"].index
    )
    assert len({json.dumps(each, sort_keys=True) for each in seen}) == len(seen), "nothing is said twice"


async def test_the_stream_of_a_request_that_is_over_is_its_last_state(call: Caller, ready: World) -> None:
    request = await ready.request(status="succeeded")
    [last] = events_of(await call("GET", f"{BASE}/collect-requests/{request}/events"))
    assert (last["request_id"], last["status"]) == (str(request), "succeeded")


async def test_a_process_that_stops_ends_its_streams(settings: Settings, state: AppState, ready: World) -> None:
    app = create_app(settings, state)
    app.state.stopping = asyncio.Event()
    token = issue_development_token(settings, ready.tenant_id, [ready.workspace_id])
    async with serving(app) as http:
        call = Caller(http, {"Authorization": f"Bearer {token}"})
        request = await click(call, ready)
        reading = asyncio.create_task(call("GET", f"{BASE}/collect-requests/{request}/events"))
        while not state.listener._waiters[REQUESTS]:
            await asyncio.sleep(0.01)
        app.state.stopping.set()
        assert [each["status"] for each in events_of(await reading)] == ["accepted"]
    assert not state.listener._waiters[REQUESTS], "nothing is left behind"


async def test_another_tenants_stream_and_one_out_of_reach_are_missing(
    login: Login, call: Caller, ready: World
) -> None:
    request = await click(call, ready)
    stranger = await World.create(ready.pool, "Other")
    for caller in (login(stranger), login(ready, workspaces=[ready.workspace_id + 1])):
        problem = problem_of(await caller("GET", f"{BASE}/collect-requests/{request}/events"), 404)
        assert problem["code"] == NotFound.code


async def test_who_waits_for_the_first_dispatch_holds_no_database_connection(
    settings: Settings, state: AppState, ready: World, pool: Pool
) -> None:
    """One connection in all: were it held, nobody else could be served meanwhile."""
    single = await open_pool(settings.database_url, size=1, name="single")
    alone = replace(state, pool=single, accept=AcceptInProcess(single))
    token = issue_development_token(settings, ready.tenant_id, [ready.workspace_id])
    async with serving(create_app(settings, alone)) as http:
        call = Caller(http, {"Authorization": f"Bearer {token}"})
        waiting = asyncio.create_task(
            call("POST", f"{BASE}/brands/{ready.brand_id}/collect-now", json={"wait_for_first_dispatch": True})
        )
        while not state.listener._waiters[REQUESTS]:
            await asyncio.sleep(0.01)
        assert (await call("GET", f"{BASE}/collect-requests")).status_code == 200
        assert not waiting.done()
        await pool.execute("update monitoring_collect_requests set first_dispatched_at = now()")
        await pool.execute("select pg_notify('giveway_requests', '')")
        assert (await waiting).status_code == 202
    single.terminate()
