"""The click through HTTP: replay, limits, refusals, 503 without a worker, state and cancel."""

import asyncio
from dataclasses import replace
from typing import Any
from uuid import uuid4

import httpx
import pytest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from api.app import create_app
from api.auth import issue_development_token
from api.collect_now import CollectNowGateway
from api.state import AppState
from domain.ids import new_uuid
from domain.messages import AcceptCommand, CollectNowScope, collect_now_workflow_id
from settings import Settings
from store.database import Pool
from tests.api.conftest import AcceptInProcess, Caller, Login, problem_of, serving
from tests.support.world import World

BASE = "/api/tenant/monitoring"

ANSWER_FIELDS = {
    "request_id",
    "collection_mode",
    "target_client_id",
    "affected_task_count",
    "promoted_task_count",
    "aborted_queued_count",
    "interrupt_requested_count",
    "interrupt_generation",
    "ttl_expires_at",
    "message",
}


@pytest.fixture
async def ready(world: World) -> World:
    """A brand with two questions on two platforms and a plan."""
    await world.plan(platforms=("qwen", "kimi"))
    await world.question()
    await world.question()
    return world


async def click(call: Caller, world: World, body: dict[str, Any] | None = None, **headers: str) -> httpx.Response:
    return await call("POST", f"{BASE}/brands/{world.brand_id}/collect-now", json=body or {}, headers=headers)


async def test_a_click_is_accepted_with_exactly_the_specified_fields(call: Caller, ready: World) -> None:
    response = await click(call, ready)
    assert response.status_code == 202, response.text
    assert response.json().keys() == ANSWER_FIELDS
    assert response.json()["affected_task_count"] == 4
    assert "idempotent-replay" not in response.headers


async def test_the_same_click_again_is_the_first_request_and_starts_nothing(
    call: Caller, ready: World, state: AppState
) -> None:
    first = await click(call, ready, {"platforms": ["qwen", "kimi"]})
    again = await click(call, ready, {"platforms": ["kimi", "qwen", "kimi"]})
    assert (first.status_code, again.status_code) == (202, 200)
    assert again.headers["idempotent-replay"] == "true"
    assert again.json() == first.json()
    assert isinstance(state.accept, AcceptInProcess)
    assert len(state.accept.commands) == 1


async def test_two_clicks_at_once_make_one_request(call: Caller, ready: World, pool: Pool) -> None:
    both = await asyncio.gather(click(call, ready), click(call, ready))
    assert {response.status_code for response in both} <= {200, 202}
    assert both[0].json() == both[1].json()
    assert await pool.fetchval("select count(*) from monitoring_collect_requests") == 1


async def test_an_idempotency_key_answers_again_and_refuses_another_scope(call: Caller, ready: World) -> None:
    first = await click(call, ready, {"platforms": ["qwen"]}, **{"Idempotency-Key": "k-1"})
    again = await click(call, ready, {"platforms": ["qwen"]}, **{"Idempotency-Key": "k-1"})
    other = await click(call, ready, {"platforms": ["kimi"]}, **{"Idempotency-Key": "k-1"})
    assert (first.status_code, again.status_code) == (202, 200)
    assert problem_of(other, 409)["code"] == "conflict"


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 201, "\x7f"])
async def test_an_unusable_idempotency_key_is_refused(call: Caller, ready: World, key: str) -> None:
    problem_of(await click(call, ready, {}, **{"Idempotency-Key": key}), 422)


async def test_the_limit_of_active_requests_answers_429_with_retry_after(call: Caller, ready: World) -> None:
    questions = [(await ready.question()).id for _ in range(3)]
    answers = [await click(call, ready, {"question_ids": [question]}) for question in questions]
    assert [answer.status_code for answer in answers[:2]] == [202, 202]
    assert problem_of(answers[2], 429)["retry_after"] > 0


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"question_ids": []}, 422, "empty_scope"),
        ({"platforms": []}, 422, "empty_scope"),
        ({"platforms": ["nobody"]}, 422, "invalid_input"),
        ({"question_ids": [2**62]}, 404, "not_found"),
        ({"keyword_id": 2**62}, 404, "not_found"),
        ({"target_client_id": str(uuid4())}, 404, "not_found"),
        ({"question_ids": list(range(1, 502))}, 422, "invalid_input"),
        ({"question_ids": [2**63]}, 422, "invalid_input"),
        ({"question_ids": [0]}, 422, "invalid_input"),
        ({"question_ids": [True]}, 422, "invalid_input"),
        ({"question_ids": ["1"]}, 422, "invalid_input"),
        ({"keyword_id": 1.5}, 422, "invalid_input"),
        ({"platforms": ["Qwen"]}, 422, "invalid_input"),
        ({"platforms": ["qwen\n"]}, 422, "invalid_input"),
        ({"preempt": "yes"}, 422, "invalid_input"),
        ({"target_client_id": "me"}, 422, "invalid_input"),
        ({"surprise": 1}, 422, "invalid_input"),
    ],
)
async def test_a_scope_that_cannot_be_followed_is_refused(
    call: Caller, ready: World, body: dict[str, Any], status: int, code: str
) -> None:
    assert problem_of(await click(call, ready, body), status)["code"] == code


async def test_a_brand_without_a_desktop_plan_is_refused(call: Caller, world: World) -> None:
    await world.question()
    assert problem_of(await click(call, world), 422)["code"] == "no_desktop_plan"


async def test_a_click_on_a_brand_of_another_workspace_is_missing(login: Login, ready: World) -> None:
    problem_of(await click(login(ready, workspaces=[ready.workspace_id + 1]), ready), 404)


async def test_waiting_holds_the_answer_until_the_first_dispatch(call: Caller, ready: World, pool: Pool) -> None:
    waiting = asyncio.create_task(click(call, ready, {"wait_for_first_dispatch": True}))
    while not await pool.fetchval("select count(*) from monitoring_collect_requests"):
        assert not waiting.done()
        await asyncio.sleep(0.01)
    assert not waiting.done()
    await pool.execute("update monitoring_collect_requests set first_dispatched_at = now()")
    await pool.execute("select pg_notify('giveway_requests', '')")
    assert (await waiting).status_code == 202


async def test_a_request_tells_its_state_and_lists_newest_first(call: Caller, ready: World, pool: Pool) -> None:
    older = await ready.request(status="succeeded")
    request = (await click(call, ready)).json()["request_id"]
    found = (await call("GET", f"{BASE}/collect-requests/{request}")).json()
    assert (found["status"], found["requested_task_count"], found["completed_task_count"]) == ("accepted", 4, 0)
    assert found["interrupts"] == {"requested": 0, "settled": 0, "timed_out": 0, "withdrawn": 0}
    assert 0 < found["ttl_left_seconds"] <= 300
    await pool.execute("update monitoring_collect_requests set first_dispatched_at = now()")
    assert (await call("GET", f"{BASE}/collect-requests/{request}")).json()["ttl_left_seconds"] is None
    first = (await call("GET", f"{BASE}/collect-requests", params={"limit": 1})).json()
    second = (await call("GET", f"{BASE}/collect-requests", params={"limit": 1, "cursor": first["next_cursor"]})).json()
    ids = [page["items"][0]["request_id"] for page in (first, second)]
    assert (ids, second["next_cursor"]) == ([request, str(older)], None)


# --- with Temporal -------------------------------------------------------------------------------------------


@pytest.fixture
async def temporal(settings: Settings) -> Client:
    return await Client.connect(
        settings.temporal_address,
        namespace=settings.temporal_namespace,
        data_converter=pydantic_data_converter,
    )


async def clicked_through(
    settings: Settings, state: AppState, gateway: CollectNowGateway, world: World
) -> httpx.Response:
    async with serving(create_app(settings, replace(state, accept=gateway))) as http:
        token = issue_development_token(settings, world.tenant_id, [world.workspace_id])
        return await click(Caller(http, {"Authorization": f"Bearer {token}"}), world)


async def test_without_a_worker_the_click_is_503_and_leaves_no_request(
    settings: Settings, state: AppState, ready: World, temporal: Client, pool: Pool
) -> None:
    gateway = CollectNowGateway(temporal, task_queue=f"nobody-{uuid4()}", seconds=1.0)
    problem = problem_of(await clicked_through(settings, state, gateway, ready), 503)
    assert (problem["code"], problem["retry_after"]) == ("dispatch_unavailable", 2)
    assert await pool.fetchval("select count(*) from monitoring_collect_requests") == 0


async def test_without_temporal_the_click_is_503(settings: Settings, state: AppState, ready: World) -> None:
    away = await Client.connect("127.0.0.1:1", lazy=True, data_converter=pydantic_data_converter)
    problem = problem_of(await clicked_through(settings, state, CollectNowGateway(away), ready), 503)
    assert problem["code"] == "dispatch_unavailable"


async def test_cancel_reaches_the_requests_workflow(call: Caller, ready: World, temporal: Client) -> None:
    request = await ready.request()
    handle = await temporal.start_workflow(
        "CollectNow", id=collect_now_workflow_id(request), task_queue=f"nobody-{request}"
    )
    try:
        response = await call("POST", f"{BASE}/collect-requests/{request}/cancel")
        assert response.status_code == 202, response.text
        events = [event async for event in handle.fetch_history_events()]
        assert any(event.HasField("workflow_execution_cancel_requested_event_attributes") for event in events)
    finally:
        await handle.terminate()


async def test_cancel_reaches_the_batchs_workflow(call: Caller, ready: World, temporal: Client, pool: Pool) -> None:
    batch = await ready.batch()
    workflow_id = f"batch/test/{uuid4()}"
    await pool.execute("update scheduled_batches set workflow_id = $2 where id = $1", batch, workflow_id)
    handle = await temporal.start_workflow("ScheduledBatch", id=workflow_id, task_queue=f"nobody-{batch}")
    try:
        assert (await call("POST", f"{BASE}/batches/{batch}/cancel")).status_code == 202
        events = [event async for event in handle.fetch_history_events()]
        assert any(event.HasField("workflow_execution_cancel_requested_event_attributes") for event in events)
    finally:
        await handle.terminate()


async def test_what_is_over_or_unknown_to_temporal_cannot_be_cancelled(call: Caller, ready: World) -> None:
    over = await ready.request(status="succeeded")
    assert problem_of(await call("POST", f"{BASE}/collect-requests/{over}/cancel"), 409)["code"] == "conflict"
    unknown = await ready.request()
    response = await call("POST", f"{BASE}/collect-requests/{unknown}/cancel")
    assert problem_of(response, 503)["code"] == "dispatch_unavailable"
    batch = await ready.batch(status="completed")
    problem_of(await call("POST", f"{BASE}/batches/{batch}/cancel"), 409)


async def test_the_gateway_returns_what_the_workflow_answers_to_a_repeated_accept(
    temporal: Client, ready: World, pool: Pool
) -> None:
    """The real workflow and transaction, twice with one request id: one row, the same answer."""
    from temporalio.worker import UnsandboxedWorkflowRunner, Worker

    from activities.requests import RequestActivities
    from workflows.collect_now import CollectNow

    queue = f"process-{uuid4()}"
    activities = RequestActivities(pool)
    command = AcceptCommand(
        request_id=new_uuid(),
        tenant_id=ready.tenant_id,
        workspace_ids=(ready.workspace_id,),
        user_id=1,
        brand_id=ready.brand_id,
        scope=CollectNowScope(),
        valid_seconds=30,
    )
    gateway = CollectNowGateway(temporal, task_queue=queue, seconds=30)
    worker = Worker(
        temporal,
        task_queue=queue,
        workflows=[CollectNow],
        activities=[activities.accept_request, activities.cancel_request, activities.read_request],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )
    async with worker:
        first = await gateway.accept(command)
        second = await gateway.accept(command)
        await temporal.get_workflow_handle(collect_now_workflow_id(command.request_id)).terminate()
    assert first.answer is not None
    assert second == first
    assert await pool.fetchval("select count(*) from monitoring_collect_requests") == 1
