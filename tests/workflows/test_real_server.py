"""The process on the real Temporal server and the real database: what an operator sees and does (1-dispatch §1.5)."""

from typing import Any

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.common import SearchAttributeKey
from temporalio.exceptions import CancelledError

from domain.ids import new_uuid
from domain.messages import AcceptOutcome, Preempted, SearchAttribute
from tests.workflows.desk import Desk
from tests.workflows.stage import Stage, details, shows, until
from workflows.scheduled_batch import ScheduledBatch

FIRST_WORKFLOW_TASK_FINISHED = 4


def attribute(description: Any, name: SearchAttribute) -> Any:
    """A search attribute of a described run."""
    number = name is SearchAttribute.GENERATION
    key = SearchAttributeKey.for_int(name) if number else SearchAttributeKey.for_keyword(name)
    return description.typed_search_attributes.get(key)


async def reset(client: Client, handle: WorkflowHandle[Any, Any]) -> WorkflowHandle[Any, Any]:
    """`temporal workflow reset --type FirstWorkflowTask`; returns the new run."""
    run_id = (await handle.describe()).run_id
    answer = await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=handle.id, run_id=run_id),
            reason="a test",
            workflow_task_finish_event_id=FIRST_WORKFLOW_TASK_FINISHED,
            request_id=str(new_uuid()),
        )
    )
    return client.get_workflow_handle(handle.id, run_id=answer.run_id)


async def state(stage: Stage) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Everything a repeated effect could change."""
    rows = await stage.tasks()
    for table in ("monitoring_collect_requests", "scheduled_batches", "tenants"):
        rows += [dict(row) for row in await stage.pool.fetch(f"select * from {table} order by id")]
    return await stage.counts(), [{name: row[name] for name in row if name != "updated_at"} for row in rows]


async def test_a_click_is_accepted_shown_and_found_by_its_search_attributes(real_stage: Stage) -> None:
    desktop = await real_stage.world.client()
    result, handle = await real_stage.accept(real_stage.command())
    assert result.outcome is AcceptOutcome.ACCEPTED
    shown = await details(handle)
    assert "**accepted**: 0 completed, 0 failed of 2 tasks" in shown
    assert f"client: `{desktop.id}`, generation 1" in shown
    description = await handle.describe()
    assert result.answer is not None
    seen = {name: attribute(description, name) for name in SearchAttribute}
    assert seen == {
        SearchAttribute.TENANT: str(real_stage.world.tenant_id),
        SearchAttribute.BRAND: str(real_stage.world.brand_id),
        SearchAttribute.CLIENT: str(desktop.id),
        SearchAttribute.BUSINESS_DATE: str(result.business_date),
        SearchAttribute.STATUS: "accepted",
        SearchAttribute.GENERATION: 1,
    }
    await handle.cancel()
    with pytest.raises(WorkflowFailureError):
        await handle.result()
    assert attribute(await handle.describe(), SearchAttribute.STATUS) == "failed"


async def test_the_status_is_found_from_the_first_dispatch_on(real_stage: Stage) -> None:
    desk = Desk(real_stage.pool, real_stage.world, await real_stage.world.client())
    command = real_stage.command()
    _, handle = await real_stage.accept(command)
    first, second = await real_stage.task_ids(command.request_id)
    seen = []
    [queued] = await desk.dispatch([first])
    await real_stage.deliver()
    await until(lambda: shows(handle, "**dispatching**"))
    seen.append(attribute(await handle.describe(), SearchAttribute.STATUS))
    await desk.finish(await desk.start([queued]))
    await real_stage.deliver()
    await until(lambda: shows(handle, "**running**"))
    seen.append(attribute(await handle.describe(), SearchAttribute.STATUS))
    await desk.run_all([second])
    await real_stage.deliver()
    await handle.result()
    seen.append(attribute(await handle.describe(), SearchAttribute.STATUS))
    assert seen == ["dispatching", "running", "succeeded"]


async def test_a_run_that_follows_nothing_is_found_by_what_became_of_it(real_stage: Stage) -> None:
    _, opened = await real_stage.accept(real_stage.command())
    _, duplicate = await real_stage.accept(real_stage.command())
    _, refused = await real_stage.accept(real_stage.command(target_client_id=new_uuid()))
    abandoned = await real_stage.start_without_accept(real_stage.command())
    for handle, status in ((duplicate, "duplicate"), (refused, "refused"), (abandoned, "abandoned")):
        await handle.result()
        description = await handle.describe()
        assert attribute(description, SearchAttribute.STATUS) == status
        assert attribute(description, SearchAttribute.TENANT) == str(real_stage.world.tenant_id)
    await opened.terminate()


async def test_a_batch_is_found_by_the_client_and_generation_it_gave_way_to(real_stage: Stage) -> None:
    handle = await real_stage.start_batch(await real_stage.plan_batch())
    await until(lambda: shows(handle, "**running**"))
    older, newer = new_uuid(), new_uuid()
    for client, generation in ((newer, 7), (older, 6)):
        given = Preempted(client_id=client, generation=generation, request_id=new_uuid(), count=1)
        await handle.signal(ScheduledBatch.preempted, given)
    await until(lambda: shows(handle, "2 gave way so far"))
    description = await handle.describe()
    assert attribute(description, SearchAttribute.CLIENT) == str(newer)
    assert attribute(description, SearchAttribute.GENERATION) == 7
    await handle.terminate()


async def test_cancel_in_temporal_withdraws_the_request(real_stage: Stage) -> None:
    desktop = await real_stage.world.client()
    victim = await real_stage.world.leased(desktop, status="in_progress")
    desk = Desk(real_stage.pool, real_stage.world, desktop)
    command = real_stage.command()
    _, handle = await real_stage.accept(command)
    runs, waits, *_ = await real_stage.task_ids(command.request_id)
    running = await desk.start(await desk.dispatch([runs]))
    await handle.cancel()
    await until(lambda: real_stage.called("cancel_request"))
    waiting = await real_stage.world.business(waits)
    assert (waiting["dispatch_lane"], waiting["target_client_id"], waiting["collect_request_id"]) == (
        "normal",
        None,
        None,
    )
    assert (await real_stage.world.execution(victim.task_id))["control_flags"] == {}
    await desk.finish(running)
    await real_stage.deliver()
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert isinstance(failed.value.cause, CancelledError)
    row = await real_stage.request(command.request_id)
    assert (row["status"], row["status_reason"], row["completed_task_count"]) == ("partial", "cancelled", 1)


async def test_cancel_in_temporal_cancels_the_batch(real_stage: Stage) -> None:
    start = await real_stage.plan_batch()
    handle = await real_stage.start_batch(start)
    await until(lambda: shows(handle, "**running**"))
    assert attribute(await handle.describe(), SearchAttribute.BUSINESS_DATE) == start.business_date.isoformat()
    await handle.cancel()
    with pytest.raises(WorkflowFailureError):
        await handle.result()
    description = await handle.describe()
    assert description.status is WorkflowExecutionStatus.CANCELED
    assert attribute(description, SearchAttribute.STATUS) == "cancelled"
    row = await real_stage.batch(start.batch_id)
    assert (row["status"], row["skipped_count"]) == ("cancelled", 2)


async def test_a_reset_of_a_finished_request_changes_nothing(real_stage: Stage, temporal: Client) -> None:
    desk = Desk(real_stage.pool, real_stage.world, await real_stage.world.client())
    command = real_stage.command()
    _, handle = await real_stage.accept(command)
    await desk.run_all(await real_stage.task_ids(command.request_id))
    await real_stage.deliver()
    first = await handle.result()
    before = await state(real_stage)
    again = await reset(temporal, handle)
    assert await again.result() == first.model_dump()
    assert await state(real_stage) == before


async def test_a_reset_of_an_open_request_goes_on_with_it_and_changes_nothing(
    real_stage: Stage, temporal: Client
) -> None:
    desktop = await real_stage.world.client()
    desk = Desk(real_stage.pool, real_stage.world, desktop)
    command = real_stage.command(seconds=0.5)
    _, handle = await real_stage.accept(command)
    done, left = await real_stage.task_ids(command.request_id)
    await desk.run_all([done])
    await real_stage.deliver()
    await until(lambda: shows(handle, "1 completed"))
    before = await state(real_stage)
    again = await reset(temporal, handle)
    await until(lambda: shows(again, "**running**: 1 completed, 0 failed of 2 tasks"))
    assert await state(real_stage) == before
    await desk.run_all([left])
    await real_stage.deliver()
    assert (await again.result())["status"] == "succeeded"


async def test_a_reset_of_a_batch_changes_nothing(real_stage: Stage, temporal: Client) -> None:
    desk = Desk(real_stage.pool, real_stage.world, await real_stage.world.client())
    start = await real_stage.plan_batch()
    handle = await real_stage.start_batch(start)
    await until(lambda: shows(handle, "**running**"))
    done, left = [task["id"] for task in await real_stage.tasks(batch_id=start.batch_id)]
    await desk.run_all([done], source="daily_schedule")
    await real_stage.deliver()
    await until(lambda: shows(handle, "1 of 2 tasks settled"))
    before = await state(real_stage)
    opened = await reset(temporal, handle)
    await until(lambda: shows(opened, "1 of 2 tasks settled"))
    assert await state(real_stage) == before
    await desk.run_all([left], source="daily_schedule")
    await real_stage.deliver()
    ended = await opened.result()
    before = await state(real_stage)
    finished = await reset(temporal, opened)
    assert (await finished.result())["completed"] == ended["completed"] == 2
    assert await state(real_stage) == before
