"""ScheduledBatch from its tasks' creation to the last settled one, against virtual time (1-dispatch §1.6)."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import CancelledError

from domain.ids import new_uuid
from domain.messages import Preempted, Progress, Resumed
from tests.support.world import BUSINESS_DATE
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


def preempted(client_id: UUID, generation: int, outbox_id: int = 0, count: int = 1) -> Preempted:
    return Preempted(
        outbox_id=outbox_id, client_id=client_id, generation=generation, request_id=new_uuid(), count=count
    )


async def test_tasks_are_created_in_chunks(stage: Stage) -> None:
    await stage.pool.execute(
        "with q as (insert into questions (tenant_id, brand_id, text) select $1, $2, 'question ' || n"
        " from generate_series(1, 2100) n returning id, text), v as (insert into question_versions"
        " (tenant_id, question_id, text, text_hash) select $1, id, text, text from q returning id, question_id)"
        " select count(*) from v",
        stage.world.tenant_id,
        stage.world.brand_id,
    )
    await stage.pool.execute(
        "update questions q set current_version_id = v.id from question_versions v where v.question_id = q.id"
    )
    batch_id, tasks, handle = await open_batch(stage)
    assert (len(tasks), (await stage.batch(batch_id))["expected_count"]) == (2102, 2102)
    cursors = [chunk.after for chunk in stage.recorder.arguments("materialise")]
    assert cursors == [None, (cursors[1][0], "qwen")]
    await handle.terminate()


async def test_a_batch_without_tasks_is_completed_at_once(stage: Stage) -> None:
    await stage.pool.execute("update questions set active = false")
    handle = await stage.start_batch(await stage.plan_batch())
    ended = await handle.result()
    assert (ended.status, ended.expected) == ("completed", 0)


async def test_a_batch_deleted_with_its_brand_ends(stage: Stage, clock: Clock) -> None:
    _, _, handle = await open_batch(stage, cut_off_in=timedelta(hours=1))
    await stage.pool.execute("delete from brands")
    await clock.forward(handle, 3601)
    assert (await handle.result()).status == "cancelled"


async def test_a_batch_ends_with_its_last_settled_task(stage: Stage) -> None:
    desk = Desk(stage.pool, stage.world, await stage.world.client())
    batch_id, tasks, handle = await open_batch(stage)
    await desk.run_all(tasks[:1], source="daily_schedule")
    await stage.deliver()
    await until(lambda: shows(handle, "1 of 2 tasks settled, 1 dispatched"))
    await stage.pool.execute("update monitoring_collect_tasks set max_attempts = 1 where id = $1", tasks[1])
    running = await desk.start(await desk.dispatch(tasks[1:], source="daily_schedule"))
    await desk.finish(running, succeeded=False)
    await stage.deliver()
    ended = await handle.result()
    assert (ended.status, ended.expected, ended.completed, ended.failed) == ("completed", 2, 1, 1)
    assert (await stage.batch(batch_id))["finished_at"] is not None


async def test_a_client_yields_until_it_resumes_at_that_generation_or_a_newer_one(stage: Stage) -> None:
    _, _, handle = await open_batch(stage)
    client = new_uuid()
    await handle.signal(ScheduledBatch.preempted, preempted(client, 3, outbox_id=1, count=2))
    await handle.signal(ScheduledBatch.preempted, preempted(client, 2, outbox_id=2, count=5))
    await handle.signal(ScheduledBatch.resumed, Resumed(outbox_id=3, client_id=client, generation=2))
    assert f"client `{client}` yields" in await details(handle)
    assert "2 gave way so far" in await details(handle)
    await handle.signal(ScheduledBatch.resumed, Resumed(outbox_id=4, client_id=client, generation=3))
    assert str(client) not in await details(handle)
    await handle.terminate()


async def test_a_yield_that_comes_after_its_end_does_not_open_again(stage: Stage, clock: Clock) -> None:
    _, _, handle = await open_batch(stage)
    client = new_uuid()
    await handle.signal(ScheduledBatch.resumed, Resumed(outbox_id=1, client_id=client, generation=3))
    await handle.signal(ScheduledBatch.preempted, preempted(client, 3, outbox_id=2))
    assert str(client) not in await details(handle)
    await clock.forward(handle, HARD + 1)
    assert "rebalance_batch" not in stage.recorder.names()
    await handle.terminate()


async def test_a_client_that_does_not_resume_in_time_loses_its_waiting_tasks(stage: Stage, clock: Clock) -> None:
    desktop = await stage.world.client()
    _, tasks, handle = await open_batch(stage)
    for task in tasks:
        await stage.world.set("monitoring_collect_tasks", task, target_client_id=desktop.id)
    await Desk(stage.pool, stage.world, desktop).dispatch(tasks[:1], source="daily_schedule")
    await handle.signal(ScheduledBatch.preempted, preempted(desktop.id, 1, outbox_id=1))
    await clock.forward(handle, HARD - 1)
    assert "rebalance_batch" not in stage.recorder.names()
    await clock.forward(handle, 2)
    rows = [await stage.world.business(task) for task in tasks]
    assert {(row["target_client_id"], row["active_task_id"]) for row in rows} == {(None, None)}
    await clock.forward(handle, 3 * HARD)
    assert stage.recorder.names().count("rebalance_batch") == 1
    await handle.terminate()


async def test_a_client_that_gives_way_again_during_the_rebalance_keeps_its_new_yield(
    stage: Stage, clock: Clock
) -> None:
    _, _, handle = await open_batch(stage)
    client = new_uuid()
    entered, go = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        entered.set()
        await go.wait()

    stage.recorder.before["rebalance_batch"] = hold
    await handle.signal(ScheduledBatch.preempted, preempted(client, 1, outbox_id=1))
    moving = asyncio.create_task(clock.forward(handle, HARD + 1))
    await entered.wait()
    await handle.signal(ScheduledBatch.preempted, preempted(client, 2, outbox_id=2))
    go.set()
    await moving
    await until(lambda: shows(handle, "2 gave way so far"))
    assert f"client `{client}` yields" in await details(handle)
    await handle.terminate()


async def test_the_cut_off_expires_what_waits_and_lets_what_runs_finish(stage: Stage, clock: Clock) -> None:
    desk = Desk(stage.pool, stage.world, await stage.world.client())
    batch_id, tasks, handle = await open_batch(stage, cut_off_in=timedelta(hours=1))
    running = await desk.start(await desk.dispatch(tasks[:1], source="daily_schedule"))
    await clock.forward(handle, 3601)
    assert [task["status"] for task in await stage.tasks(batch_id=batch_id)] == ["pending", "expired"]
    await desk.finish(running)
    await stage.deliver()
    ended = await handle.result()
    assert (ended.status, ended.completed, ended.expired) == ("completed", 1, 1)


async def test_the_cut_off_spares_a_live_requests_tasks_and_looks_again(stage: Stage, clock: Clock) -> None:
    batch_id, tasks, handle = await open_batch(stage, cut_off_in=timedelta(hours=1))
    request = await stage.world.request()
    await stage.world.set("monitoring_collect_tasks", tasks[0], collect_request_id=request)
    await clock.forward(handle, 3601)
    assert [task["status"] for task in await stage.tasks(batch_id=batch_id)] == ["pending", "expired"]
    await stage.world.set("monitoring_collect_requests", request, status="timed_out")
    await clock.forward(handle, 601)
    assert (await handle.result()).expired == 2


async def test_a_task_that_is_reopened_before_the_end_keeps_the_batch_open(stage: Stage) -> None:
    desk = Desk(stage.pool, stage.world, await stage.world.client())
    batch_id, tasks, handle = await open_batch(stage)
    await desk.run_all(tasks, source="daily_schedule")
    await stage.world.set("scheduled_batches", batch_id, completed_count=1)
    await stage.world.set("monitoring_collect_tasks", tasks[0], status="pending")
    await stage.deliver()
    await until(lambda: stage.called("finish_batch"))
    assert "1 of 2 tasks settled" in await details(handle)
    await desk.run_all(tasks[:1])
    await stage.deliver()
    assert (await handle.result()).completed == 2


async def test_a_cancel_skips_what_waits_and_lets_what_runs_finish(stage: Stage) -> None:
    desk = Desk(stage.pool, stage.world, await stage.world.client())
    batch_id, tasks, handle = await open_batch(stage)
    running = await desk.start(await desk.dispatch(tasks[:1], source="daily_schedule"))
    await handle.cancel()
    await until(lambda: stage.called("cancel_batch"))
    assert [task["status"] for task in await stage.tasks(batch_id=batch_id)] == ["pending", "skipped"]
    assert (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
    await desk.finish(running)
    await stage.deliver()
    await ends_cancelled(handle)
    row = await stage.batch(batch_id)
    assert (row["status"], row["completed_count"], row["skipped_count"]) == ("cancelled", 1, 1)


async def test_a_cancelled_batch_ends_although_what_ran_comes_back_undone(stage: Stage) -> None:
    desk = Desk(stage.pool, stage.world, await stage.world.client())
    batch_id, tasks, handle = await open_batch(stage)
    running = await desk.start(await desk.dispatch(tasks[:1], source="daily_schedule"))
    await handle.cancel()
    await until(lambda: stage.called("cancel_batch"))
    await desk.finish(running, succeeded=False)
    await stage.deliver()
    await ends_cancelled(handle)
    row = await stage.batch(batch_id)
    assert (row["status"], row["skipped_count"], row["failed_count"]) == ("cancelled", 2, 0)


async def test_a_cancel_before_the_first_step_leaves_no_planned_batch(stage: Stage) -> None:
    later = Stage(stage.client, stage.queue + "-later", stage.pool, stage.world)
    start = await stage.plan_batch()
    handle = await later.start_batch(start)
    await handle.cancel()
    async with later.worker():
        await ends_cancelled(handle)
    assert (await stage.batch(start.batch_id))["status"] == "cancelled"


async def test_a_cancelled_batch_waits_quietly_for_what_runs(stage: Stage, clock: Clock) -> None:
    desk = Desk(stage.pool, stage.world, await stage.world.client())
    _, tasks, handle = await open_batch(stage)
    running = await desk.start(await desk.dispatch(tasks, source="daily_schedule"))
    await handle.signal(ScheduledBatch.preempted, preempted(desk.desktop.id, 1, outbox_id=1))
    await handle.cancel()
    await clock.forward(handle, 3000)
    assert stage.recorder.names().count("cancel_batch") <= 6
    await desk.finish(running)
    await stage.deliver()
    await ends_cancelled(handle)


async def test_continue_as_new_carries_everything_and_loses_no_signal(stage: Stage) -> None:
    batch_id, _, handle = await open_batch(stage)
    first_run = (await handle.describe()).run_id
    steady, yielding = new_uuid(), new_uuid()
    await handle.signal(ScheduledBatch.preempted, preempted(yielding, 1, outbox_id=1, count=1000))
    sent = 0
    while (await handle.describe()).run_id == first_run or sent % 20:
        sent += 1
        again = preempted(steady, sent, outbox_id=10 + sent)
        await handle.signal(ScheduledBatch.preempted, again)
        await handle.signal(ScheduledBatch.preempted, again)
    await until(lambda: shows(handle, f"{1000 + sent} gave way so far"))
    shown = await details(handle)
    assert f"client `{yielding}` yields" in shown
    assert "0 of 2 tasks settled" in shown
    await handle.signal(ScheduledBatch.preempted, preempted(yielding, 1, outbox_id=1, count=1000))
    assert f"{1000 + sent} gave way so far" in await details(handle)
    assert stage.recorder.names().count("materialise") == 1
    assert (await stage.batch(batch_id))["expected_count"] == 2
    await handle.terminate()


async def test_cut_off_and_handled_signals_stay_done_after_continue_as_new(stage: Stage, clock: Clock) -> None:
    batch_id, tasks, handle = await open_batch(stage, cut_off_in=timedelta(hours=1))
    request = await stage.world.request()
    await stage.world.set("monitoring_collect_tasks", tasks[0], collect_request_id=request)
    await clock.forward(handle, 3601)
    first_run = (await handle.describe()).run_id
    sent = 0
    while (await handle.describe()).run_id == first_run:
        sent += 1
        await handle.signal(ScheduledBatch.progress, Progress(outbox_id=sent, settled=1))
    await until(lambda: shows(handle, "1 of 2 tasks settled"))
    await handle.signal(ScheduledBatch.progress, Progress(outbox_id=1, settled=0))
    assert "1 of 2 tasks settled" in await details(handle)
    assert stage.recorder.names().count("expire_batch") == 1
    assert (await stage.tasks(batch_id=batch_id))[1]["business_date"] == BUSINESS_DATE
    await handle.terminate()


async def ends_cancelled(handle: WorkflowHandle[Any, Any]) -> None:
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert isinstance(failed.value.cause, CancelledError)
