"""Pause, resume and cancel of a ScheduledBatch by update, in every state it may be in (1-dispatch §1.6)."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import WorkflowExecutionStatus, WorkflowHandle, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from domain.ids import new_uuid
from domain.messages import BatchOrder, Preempted, SearchAttribute
from store import batch_starts, batches
from tests.workflows.clock import Clock
from tests.workflows.desk import Desk
from tests.workflows.stage import Stage, details, shows, until
from workflows.scheduled_batch import ScheduledBatch

HARD = 45


async def open_batch(stage: Stage, **given: Any) -> tuple[int, list[int], WorkflowHandle[Any, Any]]:
    """A batch whose tasks are there."""
    start = await stage.plan_batch(hard_timeout_ms=HARD * 1000, **given)
    handle = await stage.start_batch(start)
    await until(lambda: shows(handle, "**running**"))
    return start.batch_id, [task["id"] for task in await stage.tasks(batch_id=start.batch_id)], handle


async def tagged(handle: WorkflowHandle[Any, Any], status: str) -> bool:
    """Whether the run is listed with this status."""
    found = (await handle.describe()).search_attributes.get(SearchAttribute.STATUS)
    return found == [status]


async def refused(order: Any) -> str:
    """The code of an update that was not taken."""
    with pytest.raises(WorkflowUpdateFailedError) as failed:
        await order
    assert isinstance(failed.value.cause, ApplicationError)
    return str(failed.value.cause.type)


async def test_a_pause_holds_what_waits_until_the_resume(stage: Stage) -> None:
    desk = Desk(stage.pool, stage.world, await stage.world.client())
    batch_id, tasks, handle = await open_batch(stage)
    running = await desk.start(await desk.dispatch(tasks[:1], source="daily_schedule"))
    paused = await handle.execute_update(ScheduledBatch.pause, BatchOrder(actor="user 7"))
    assert (paused.status, paused.held, paused.running) == ("paused", 1, 1)
    assert "**paused**: 0 of 2" in await details(handle)
    assert "1 held until the batch is resumed" in await details(handle)
    await until(lambda: tagged(handle, "paused"))
    await desk.finish(running)
    await stage.deliver()
    await until(lambda: shows(handle, "1 of 2 tasks settled"))
    resumed = await handle.execute_update(ScheduledBatch.resume)
    assert (resumed.status, resumed.held) == ("running", 0)
    await until(lambda: tagged(handle, "running"))
    await desk.run_all(tasks[1:], source="daily_schedule")
    await stage.deliver()
    assert (await handle.result()).completed == 2
    audited = await stage.pool.fetch("select actor, action from audit_events where subject = $1", f"batch {batch_id}")
    assert [tuple(row) for row in audited] == [("user 7", "batch_paused"), ("temporal", "batch_resumed")]


async def test_an_order_given_twice_changes_nothing_more(stage: Stage) -> None:
    _, _, handle = await open_batch(stage)
    orders = [handle.execute_update(ScheduledBatch.pause) for _ in range(3)]
    assert {(counters.status, counters.held) for counters in await asyncio.gather(*orders)} == {("paused", 2)}
    for _ in range(2):
        assert (await handle.execute_update(ScheduledBatch.resume)).status == "running"
    await handle.terminate()


async def test_a_cancel_by_update_is_a_cancel(stage: Stage) -> None:
    desk = Desk(stage.pool, stage.world, await stage.world.client())
    batch_id, tasks, handle = await open_batch(stage)
    running = await desk.start(await desk.dispatch(tasks[:1], source="daily_schedule"))
    # As the Temporal UI sends it: by name, without an argument.
    await handle.execute_update("cancel")
    assert [task["status"] for task in await stage.tasks(batch_id=batch_id)] == ["pending", "skipped"]
    assert await refused(handle.execute_update(ScheduledBatch.pause)) == "batch_over"
    assert await refused(handle.execute_update(ScheduledBatch.cancel)) == "batch_over"
    await desk.finish(running)
    await stage.deliver()
    ended = await handle.result()
    assert (ended.status, ended.completed, ended.skipped) == ("cancelled", 1, 1)
    assert stage.recorder.names().count("cancel_batch") == 1
    assert await tagged(handle, "cancelled")


async def test_a_batch_cancelled_in_temporal_takes_no_orders(stage: Stage) -> None:
    desk = Desk(stage.pool, stage.world, await stage.world.client())
    _, tasks, handle = await open_batch(stage)
    await desk.start(await desk.dispatch(tasks[:1], source="daily_schedule"))
    await handle.cancel()
    await until(lambda: stage.called("cancel_batch"))
    assert await refused(handle.execute_update(ScheduledBatch.resume)) == "batch_over"
    await handle.terminate()


async def test_a_finished_batch_is_not_there_for_orders(stage: Stage) -> None:
    desk = Desk(stage.pool, stage.world, await stage.world.client())
    _, tasks, handle = await open_batch(stage)
    await desk.run_all(tasks, source="daily_schedule")
    await stage.deliver()
    await handle.result()
    with pytest.raises(RPCError) as failed:
        await handle.execute_update(ScheduledBatch.pause)
    assert failed.value.status is RPCStatusCode.NOT_FOUND


async def test_an_order_that_came_too_late_to_do_anything_is_refused_and_not_answered(stage: Stage) -> None:
    batch_id, _, handle = await open_batch(stage)
    # As between the commit of its end and the workflow's own.
    await stage.world.set("scheduled_batches", batch_id, status="completed")
    assert await refused(handle.execute_update(ScheduledBatch.pause)) == "batch_over"
    await handle.terminate()


async def test_a_batch_paused_before_its_first_step_has_its_tasks_held(stage: Stage) -> None:
    later = Stage(stage.client, stage.queue + "-later", stage.pool, stage.world)
    handle = await later.start_batch(await stage.plan_batch())
    pausing = asyncio.create_task(handle.execute_update(ScheduledBatch.pause))
    async with later.worker():
        await pausing
        await until(lambda: shows(handle, "2 held"))
        assert "**paused**: 0 of 2" in await details(handle)
        assert (await handle.execute_update(ScheduledBatch.resume)).held == 0
        await handle.terminate()


async def test_the_cut_off_ends_a_paused_batch_and_shows_its_backfill(stage: Stage, clock: Clock) -> None:
    batch_id, _, handle = await open_batch(stage, cut_off_in=timedelta(hours=1))
    await handle.execute_update(ScheduledBatch.pause)
    await clock.forward(handle, 3601)
    ended = await handle.result()
    assert (ended.status, ended.expired, ended.held) == ("completed", 2, 0)
    backfill = await stage.batch(ended.backfill_id)
    assert (backfill["backfill_of"], backfill["status"]) == (batch_id, "paused")
    assert f"is collected by batch {backfill['id']}" in await details(handle)


async def test_a_backfill_runs_like_a_batch_and_says_whose_it_is(stage: Stage) -> None:
    desk = Desk(stage.pool, stage.world, await stage.world.client())
    batch_id = (await stage.plan_batch()).batch_id
    await stage.pool.execute("update scheduled_batches set status = 'running' where id = $1", batch_id)
    tasks = [await stage.world.business_task(batch_id=batch_id) for _ in range(2)]
    await stage.pool.execute("update scheduled_batches set expected_count = 2 where id = $1", batch_id)
    await batches.expire_batch(stage.pool, stage.batch_ref(batch_id))
    await batches.finish_batch(stage.pool, stage.batch_ref(batch_id))
    [(start, _)] = await batch_starts.find_planned(stage.pool)
    handle = await stage.start_batch(start)
    await until(lambda: shows(handle, f"backfill of batch {batch_id}"))
    await desk.run_all(tasks, source="daily_schedule")
    await stage.deliver()
    ended = await handle.result()
    assert (ended.status, ended.completed, ended.backfill_of) == ("completed", 2, batch_id)


async def test_a_batch_taken_up_again_is_in_the_state_of_its_row(stage: Stage) -> None:
    desk = Desk(stage.pool, stage.world, await stage.world.client())
    start = await stage.plan_batch()
    handle = await stage.start_batch(start)
    await until(lambda: shows(handle, "**running**"))
    await handle.execute_update(ScheduledBatch.pause)
    await handle.terminate()
    handle = await stage.start_batch(start)
    await until(lambda: shows(handle, "**paused**: 0 of 2"))
    [task, _] = await stage.tasks(batch_id=start.batch_id)
    await handle.execute_update(ScheduledBatch.resume)
    running = await desk.start(await desk.dispatch([task["id"]], source="daily_schedule"))
    await handle.execute_update(ScheduledBatch.cancel)
    await handle.terminate()
    handle = await stage.start_batch(start)
    await until(lambda: shows(handle, "**cancelling**"))
    assert await refused(handle.execute_update(ScheduledBatch.pause)) == "batch_over"
    await desk.finish(running)
    await stage.deliver()
    assert (await handle.result()).status == "cancelled"


async def test_orders_and_yields_go_through_continue_as_new(stage: Stage, clock: Clock) -> None:
    _, tasks, handle = await open_batch(stage)
    first_run = (await handle.describe()).run_id
    client, generation, orders = new_uuid(), 0, 0
    await handle.signal(ScheduledBatch.preempted, yielded(client, 1))
    while (await handle.describe()).run_id == first_run:
        generation += 1
        await handle.signal(ScheduledBatch.preempted, yielded(new_uuid(), generation))
        if generation % 25 == 0:
            orders += 1
            order = ScheduledBatch.pause if orders % 2 else ScheduledBatch.resume
            await handle.execute_update(order)
    paused = await handle.execute_update(ScheduledBatch.pause)
    assert (paused.status, paused.held) == ("paused", 2)
    assert f"client `{client}` yields" in await details(handle)
    await clock.forward(handle, HARD + 1)
    assert client in {given.client_id for given in stage.recorder.arguments("rebalance_batch")}
    assert (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
    assert len(tasks) == 2
    await handle.terminate()


def yielded(client_id: Any, generation: int) -> Preempted:
    return Preempted(client_id=client_id, generation=generation, request_id=new_uuid(), count=1)
