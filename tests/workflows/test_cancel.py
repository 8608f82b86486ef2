"""A CollectNow workflow that is cancelled withdraws its request first (1-dispatch §1.5)."""

import asyncio
from typing import Any

import pytest
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import CancelledError

from domain.messages import ClientLost
from tests.workflows.clock import Clock
from tests.workflows.desk import Desk
from tests.workflows.stage import Stage, details, until
from workflows.collect_now import CollectNow


async def ends_cancelled(handle: WorkflowHandle[Any, Any]) -> None:
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert isinstance(failed.value.cause, CancelledError)
    assert (await handle.describe()).status is WorkflowExecutionStatus.CANCELED


async def test_a_cancel_with_nothing_running_fails_the_request_at_once(stage: Stage) -> None:
    command = stage.command()
    _, handle = await stage.accept(command)
    await handle.cancel()
    await ends_cancelled(handle)
    row = await stage.request(command.request_id)
    assert (row["status"], row["status_reason"]) == ("failed", "cancelled")
    assert {task["dispatch_lane"] for task in await stage.tasks()} == {"normal"}


async def test_a_cancel_returns_what_waits_and_lets_what_runs_finish_and_count(stage: Stage) -> None:
    desk = Desk(stage.pool, stage.world, await stage.world.client())
    command = stage.command()
    _, handle = await stage.accept(command)
    runs, waits = await stage.task_ids(command.request_id)
    running = await desk.start(await desk.dispatch([runs]))
    await handle.cancel()
    await until(lambda: stage.called("cancel_request"))
    assert (await stage.world.business(waits))["collect_request_id"] is None
    assert (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
    await desk.finish(running)
    await stage.deliver()
    await ends_cancelled(handle)
    row = await stage.request(command.request_id)
    assert (row["status"], row["requested_task_count"], row["completed_task_count"]) == ("partial", 2, 1)


async def test_a_cancel_withdraws_the_interrupts_with_a_newer_generation(stage: Stage) -> None:
    desktop = await stage.world.client()
    victim = await stage.world.leased(desktop, status="in_progress", batch_id=await stage.world.batch())
    result, handle = await stage.accept(stage.command())
    assert result.answer is not None
    await handle.cancel()
    await ends_cancelled(handle)
    row = await stage.world.execution(victim.task_id)
    assert (row["status"], row["control_flags"], row["interrupt_request_id"]) == ("in_progress", {}, None)
    assert row["interrupt_generation"] == result.answer.interrupt_generation + 1
    controls = [event["payload"]["control"] for event in await stage.world.outbox("task_control")]
    assert controls == ["interrupt_requested", "interrupt_withdrawn"]
    assert [event["payload"]["client_id"] for event in await stage.world.outbox("resumed")] == [str(desktop.id)]


async def test_a_cancel_that_interrupts_an_effect_withdraws_all_the_same(stage: Stage) -> None:
    desktop = await stage.world.client()
    command = stage.command()
    _, handle = await stage.accept(command)
    entered = asyncio.Event()

    async def hold() -> None:
        entered.set()
        await asyncio.Event().wait()

    stage.recorder.before["release_client"] = hold
    await handle.signal(CollectNow.client_lost, ClientLost(outbox_id=1, client_id=desktop.id, epoch=1))
    await entered.wait()
    await handle.cancel()
    await ends_cancelled(handle)
    assert (await stage.request(command.request_id))["status_reason"] == "cancelled"


async def test_a_cancel_during_the_accept_withdraws_what_it_accepts(stage: Stage) -> None:
    command = stage.command()
    entered, go = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        entered.set()
        await go.wait()

    stage.recorder.before["accept_request"] = hold
    accepting = asyncio.create_task(stage.accept(command))
    await entered.wait()
    handle = stage.client.get_workflow_handle(f"collect-now/{command.request_id}")
    await handle.cancel()
    go.set()
    result, _ = await accepting
    assert result.outcome == "accepted"
    await ends_cancelled(handle)
    assert (await stage.request(command.request_id))["status_reason"] == "cancelled"


async def test_a_cancel_before_any_accept_leaves_nothing(stage: Stage) -> None:
    handle = await stage.start_without_accept(stage.command())
    await handle.cancel()
    await ends_cancelled(handle)
    assert (await stage.counts())["monitoring_collect_requests"] == 0
    assert "cancel_request" not in stage.recorder.names()


async def test_after_a_cancel_an_attempt_that_fails_does_not_keep_the_request_open(stage: Stage, clock: Clock) -> None:
    desk = Desk(stage.pool, stage.world, await stage.world.client())
    command = stage.command()
    _, handle = await stage.accept(command)
    runs, _ = await stage.task_ids(command.request_id)
    running = await desk.start(await desk.dispatch([runs]))
    await handle.cancel()
    await until(lambda: stage.called("cancel_request"))
    await desk.finish(running, succeeded=False)
    await clock.forward(handle, 31)
    await ends_cancelled(handle)
    assert (await stage.request(command.request_id))["status"] == "failed"
    assert (await stage.world.business(runs))["collect_request_id"] is None


async def test_a_cancelled_request_ends_as_cancelled_even_at_its_hard_end(stage: Stage, clock: Clock) -> None:
    """And waits for it quietly, though it never hears of the interrupts that it took back."""
    desk = Desk(stage.pool, stage.world, await stage.world.client())
    await stage.world.leased(desk.desktop, status="in_progress")
    command = stage.command()
    _, handle = await stage.accept(command)
    await desk.start(await desk.dispatch(await stage.task_ids(command.request_id)))
    await handle.cancel()
    await clock.forward(handle, 1801)
    await ends_cancelled(handle)
    row = await stage.request(command.request_id)
    assert (row["status"], row["status_reason"]) == ("failed", "cancelled")
    assert "**failed**" in await details(handle)
    assert (await handle.describe()).history_length <= 150
