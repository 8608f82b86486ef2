"""Batches over REST: who may see and order what, and what an order answers (1-dispatch §1.6)."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.batches import BatchActivities
from api.auth import Role
from domain.ids import new_uuid
from domain.messages import BatchStart
from store import batches
from store.database import Pool
from tests.api.conftest import Caller, Login, problem_of
from tests.conftest import Servers
from tests.support.batches import planned, ref, with_tasks
from tests.support.world import World
from tests.workflows.stage import shows, until
from workflows.scheduled_batch import ScheduledBatch

BASE = "/api/tenant/monitoring/batches"


@pytest.fixture
async def temporal(servers: Servers) -> Client:
    """A client of the real server."""
    return await Client.connect(
        servers.temporal_address, namespace=servers.temporal_namespace, data_converter=pydantic_data_converter
    )


@pytest.fixture
async def queue(temporal: Client, pool: Pool) -> AsyncIterator[str]:
    """A worker for batches on a queue of its own."""
    effects, name = BatchActivities(pool), f"test-{new_uuid()}"
    methods = (effects.materialise, effects.read_batch, effects.pause_batch, effects.resume_batch)
    ends = (effects.expire_batch, effects.cancel_batch, effects.rebalance_batch, effects.finish_batch)
    async with Worker(
        temporal,
        task_queue=name,
        workflows=[ScheduledBatch],
        activities=[*methods, *ends],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        yield name


async def start(world: World, temporal: Client, queue: str, batch: int) -> WorkflowHandle[Any, Any]:
    """The batch's workflow, under an id that no other test has."""
    workflow_id = f"batch/test/{new_uuid()}"
    await world.set("scheduled_batches", batch, workflow_id=workflow_id)
    row = await world.row("scheduled_batches", batch)
    names = ("tenant_id", "brand_id", "plan_id", "business_date", "slot", "cut_off_at")
    given = BatchStart(batch_id=batch, **{name: row[name] for name in names})
    return await temporal.start_workflow(ScheduledBatch.run, given, id=workflow_id, task_queue=queue)


async def test_pause_resume_and_cancel_answer_the_batch_as_it_then_is(
    call: Caller, world: World, temporal: Client, queue: str, pool: Pool
) -> None:
    batch = await planned(world, 2, ("qwen",))
    handle = await start(world, temporal, queue, batch)
    paused = await call("POST", f"{BASE}/{batch}/pause")
    assert paused.status_code == 202, paused.text
    assert (paused.json()["status"], paused.json()["paused_at"] is not None) == ("paused", True)
    for _ in range(2):
        resumed = await call("POST", f"{BASE}/{batch}/resume")
        assert (resumed.status_code, resumed.json()["status"], resumed.json()["held_count"]) == (202, "running", 0)
    assert (await call("POST", f"{BASE}/{batch}/cancel")).status_code == 202
    with pytest.raises(WorkflowFailureError):
        await handle.result()
    over = (await call("GET", f"{BASE}/{batch}")).json()
    assert (over["status"], over["skipped_count"], over["running_count"]) == ("cancelled", 2, 0)
    for order in ("pause", "resume", "cancel"):
        assert problem_of(await call("POST", f"{BASE}/{batch}/{order}"), 409)["code"] == "batch_over"
    audited = await pool.fetch("select actor, action from audit_events where action like 'batch_%' order by id")
    assert {(row["actor"], row["action"]) for row in audited} == {
        ("user 7", "batch_paused"),
        ("user 7", "batch_resumed"),
        ("user 7", "batch_cancel_requested"),
        ("temporal", "batch_cancelled"),
    }


async def test_a_batch_that_is_being_cancelled_refuses_orders(
    call: Caller, world: World, temporal: Client, queue: str
) -> None:
    batch = await with_tasks(world, 2)
    # A live request's task is left to it: the batch waits for that one.
    await world.business_task(request_id=await world.request(), batch_id=batch)
    handle = await start(world, temporal, queue, batch)
    # By then it counts that task too: an earlier cancel would find everything settled.
    await until(lambda: shows(handle, "**running**"))
    assert (await handle.execute_update(ScheduledBatch.cancel)).status == "cancelling"
    for order in ("pause", "resume"):
        assert problem_of(await call("POST", f"{BASE}/{batch}/{order}"), 409)["code"] == "batch_over"
    await handle.terminate()


async def test_without_a_workflow_an_order_is_for_later(call: Caller, world: World) -> None:
    batch = await world.batch()
    await world.set("scheduled_batches", batch, workflow_id=f"batch/test/{new_uuid()}")
    for order in ("pause", "resume", "cancel"):
        problem = problem_of(await call("POST", f"{BASE}/{batch}/{order}"), 503)
        assert (problem["code"], problem["retry_after"] > 0) == ("dispatch_unavailable", True)


async def test_viewers_see_and_operators_order(login: Login, world: World) -> None:
    batch = await world.batch()
    viewer = login(world, Role.VIEWER)
    assert (await viewer("GET", f"{BASE}/{batch}")).json()["id"] == batch
    for order in ("pause", "resume", "cancel"):
        assert problem_of(await viewer("POST", f"{BASE}/{batch}/{order}"), 403)["code"] == "forbidden"


async def test_another_workspaces_batch_is_missing(login: Login, world: World) -> None:
    batch = await world.batch()
    outside = login(world, workspaces=[world.workspace_id + 1])
    problem_of(await outside("GET", f"{BASE}/{batch}"), 404)
    for order in ("pause", "resume", "cancel"):
        problem_of(await outside("POST", f"{BASE}/{batch}/{order}"), 404)
    assert (await outside("GET", BASE)).json()["items"] == []


async def test_the_list_goes_from_newest_to_oldest_by_status_and_page(call: Caller, world: World) -> None:
    made = [await world.batch(status=status) for status in ("paused", "running", "paused", "completed", "paused")]
    seen, cursor = [], None
    while True:
        query = {"limit": 2, "status": "paused"} | ({"cursor": cursor} if cursor else {})
        page = (await call("GET", BASE, params=query)).json()
        seen += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == [made[4], made[2], made[0]]
    assert problem_of(await call("GET", BASE, params={"status": "asleep"}), 422)["code"] == "invalid_input"


async def test_a_batch_says_what_it_stands_for_and_who_collects_its_rest(call: Caller, world: World) -> None:
    batch = await with_tasks(world, 2)
    await world.set("scheduled_batches", batch, skipped_slots=3)
    await batches.expire_batch(world.pool, ref(world, batch))
    await batches.finish_batch(world.pool, ref(world, batch))
    shown = (await call("GET", f"{BASE}/{batch}")).json()
    rest = (await call("GET", f"{BASE}/{shown['backfill_id']}")).json()
    assert (shown["skipped_slots"], shown["expired_count"], shown["status"]) == (3, 2, "completed")
    assert (rest["backfill_of"], rest["slot"]) == (batch, f"{shown['slot']}-backfill")
    listed = {item["id"]: item for item in (await call("GET", BASE)).json()["items"]}
    assert listed[batch]["backfill_id"] == rest["id"]
