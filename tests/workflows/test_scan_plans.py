"""ScanPlans turns due plans into batches, each once (1-dispatch §1.6)."""

from functools import partial
from typing import Any

import pytest
from temporalio.client import WorkflowHandle

from domain.ids import new_uuid
from domain.messages import ScanResult
from store.batch_starts import claim_due_plans, find_planned
from tests.support.world import ago
from tests.workflows.stage import Stage, details, shows, until
from workflows.scan_plans import ScanPlans


async def scan(stage: Stage) -> ScanResult:
    """One tick of the schedule."""
    result: ScanResult = await stage.client.execute_workflow(
        ScanPlans.run, id=f"scan-{new_uuid()}", task_queue=stage.queue
    )
    return result


async def the_batch(stage: Stage) -> WorkflowHandle[Any, Any]:
    workflow_id = await stage.pool.fetchval("select workflow_id from scheduled_batches")
    return stage.client.get_workflow_handle(workflow_id)


async def test_a_due_plan_becomes_one_running_batch_and_moves_on(stage: Stage) -> None:
    plan = await stage.world.plan(next_run_at=ago(seconds=30))
    assert await scan(stage) == ScanResult(due=1, started=1, skipped_slots=0)
    handle = await the_batch(stage)
    await until(lambda: shows(handle, "**running**"))
    assert len(await stage.tasks()) == 2
    assert await stage.pool.fetchval("select next_run_at > now() from monitoring_plans where id = $1", plan)
    assert await scan(stage) == ScanResult(due=0, started=0, skipped_slots=0)
    await handle.terminate()


async def test_a_missed_schedule_catches_up_once_and_says_what_it_skipped(stage: Stage) -> None:
    plan = await stage.world.plan(next_run_at=ago(minutes=10, seconds=5))
    await stage.world.set("monitoring_plans", plan, cadence="* * * * *")
    result = await scan(stage)
    assert (result.due, result.started) == (1, 1)
    assert result.skipped_slots in (9, 10)
    handle = await the_batch(stage)
    await until(lambda: shows(handle, f"stands for {result.skipped_slots} missed slots besides its own"))
    assert (await stage.counts())["scheduled_batches"] == 1
    await handle.terminate()


async def test_a_batch_claimed_before_a_crash_is_started_by_the_next_scan(stage: Stage) -> None:
    await stage.world.plan(next_run_at=ago(seconds=30))
    assert await claim_due_plans(stage.pool) == 1
    assert await scan(stage) == ScanResult(due=0, started=1, skipped_slots=0)
    handle = await the_batch(stage)
    await until(lambda: shows(handle, "**running**"))
    assert "0 of 2 tasks settled" in await details(handle)
    await handle.terminate()


async def test_a_batch_whose_workflow_exists_is_not_started_again(stage: Stage) -> None:
    await stage.world.plan(next_run_at=ago(seconds=30))
    await scan(stage)
    handle = await the_batch(stage)
    await until(lambda: shows(handle, "**running**"))
    await handle.terminate()
    await stage.pool.execute("update scheduled_batches set status = 'planned'")
    assert await scan(stage) == ScanResult(due=0, started=0, skipped_slots=0)


async def test_batches_that_stay_planned_do_not_hide_the_newer_ones(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.batch_starts.find_planned", partial(find_planned, limit=2))
    for _ in range(5):
        await stage.world.batch(status="planned")
    assert (await scan(stage)).started == 5
    for row in await stage.pool.fetch("select workflow_id from scheduled_batches"):
        await stage.client.get_workflow_handle(row["workflow_id"]).terminate()
    await stage.pool.execute("update scheduled_batches set status = 'planned'")
    await stage.world.plan(next_run_at=ago(seconds=30))
    assert (await scan(stage)).started == 1
    newest = await stage.pool.fetchval("select workflow_id from scheduled_batches order by id desc limit 1")
    await stage.client.get_workflow_handle(newest).terminate()


async def test_a_plan_with_an_unreadable_cadence_does_not_stop_the_others(stage: Stage) -> None:
    broken = await stage.world.plan(next_run_at=ago(seconds=60))
    await stage.world.set("monitoring_plans", broken, cadence="every day")
    await stage.world.plan(next_run_at=ago(seconds=30))
    assert await scan(stage) == ScanResult(due=2, started=1, skipped_slots=0)
    assert (await stage.world.row("monitoring_plans", broken))["next_run_at"] is None
    await (await the_batch(stage)).terminate()
