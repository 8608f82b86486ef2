"""Open requests and batches without a workflow get one; cancelled ones are finished (1-dispatch §1.8)."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from temporalio.client import (
    ScheduleActionExecutionStartWorkflow,
    ScheduleHandle,
    ScheduleOverlapPolicy,
    WorkflowExecutionStatus,
    WorkflowHandle,
)
from temporalio.worker import Worker

from activities.batches import BatchActivities, PlanActivities
from activities.reconcile import ReconcileActivities
from activities.requests import RequestActivities
from api.processes import TemporalProcesses
from domain.ids import new_uuid
from domain.lanes import Lane
from domain.messages import (
    RECONCILE_SCHEDULE_ID,
    SCAN_SCHEDULE_ID,
    TUNE_SCHEDULE_ID,
    DatabaseFixes,
    ReconcileResult,
    ResidentStart,
    WorkflowFixes,
    collect_now_workflow_id,
    resident_workflow_id,
)
from store import requests
from store.accept import accept_collect_now
from tests.support.world import ago
from tests.workflows.desk import Desk
from tests.workflows.stage import WORKFLOWS, Stage, activities_of, details, history_length, shows, until
from worker import keep_schedules
from workflows.reconcile import Reconcile
from workflows.resident import Resident

SCHEDULES = (SCAN_SCHEDULE_ID, TUNE_SCHEDULE_ID, RECONCILE_SCHEDULE_ID)
NOTHING = ReconcileResult(database=DatabaseFixes(), workflows=WorkflowFixes())


@dataclass
class Mender:
    """A worker that reconciles, and runs what it starts."""

    stage: Stage
    queue: str
    residents: list[ResidentStart] = field(default_factory=list)
    counted: dict[str, int] = field(default_factory=dict)

    async def wanted(self) -> Sequence[ResidentStart]:
        return self.residents

    def worker(self) -> Worker:
        pool, client = self.stage.pool, self.stage.client
        reconcile = ReconcileActivities(pool, client, self.wanted, self.counted.__setitem__)
        owners = [RequestActivities(pool), BatchActivities(pool), PlanActivities(pool, client), reconcile]
        return Worker(
            client,
            task_queue=self.queue,
            workflows=[*WORKFLOWS, Reconcile, Resident],
            activities=[method for owner in owners for method in activities_of(owner)],
            graceful_shutdown_timeout=timedelta(seconds=1),
        )

    async def start(self) -> WorkflowHandle[Any, ReconcileResult]:
        return await self.stage.client.start_workflow(
            Reconcile.run, id=f"reconcile-{new_uuid()}", task_queue=self.queue
        )

    async def mends(self, **kinds: int) -> None:
        """One run mends exactly this, and a second one nothing."""
        assert await (await self.start()).result() == ReconcileResult(
            database=DatabaseFixes(), workflows=WorkflowFixes(**kinds)
        )
        assert await (await self.start()).result() == NOTHING
        rows = await self.stage.pool.fetch("select action, count(*) as n from audit_events group by 1")
        audited = {row["action"]: row["n"] for row in rows if row["action"].startswith("reconcile.")}
        assert audited == {f"reconcile.{kind}": count for kind, count in kinds.items() if kind != "residents"}
        assert self.counted == kinds

    def following(self, request_id: Any) -> WorkflowHandle[Any, Any]:
        """The request's newest run."""
        return self.stage.client.get_workflow_handle(collect_now_workflow_id(request_id))

    def of_batch(self, workflow_id: str) -> WorkflowHandle[Any, Any]:
        return self.stage.client.get_workflow_handle(workflow_id)


@pytest.fixture
async def mender(stage: Stage) -> AsyncIterator[Mender]:
    opened = Mender(stage, f"mender-{new_uuid()}")
    async with opened.worker():
        yield opened


async def run_of(handle: WorkflowHandle[Any, Any]) -> str | None:
    return (await handle.describe()).run_id


# --- requests ------------------------------------------------------------------------------------------------


async def test_an_open_request_whose_workflow_is_gone_is_followed_to_its_end(stage: Stage, mender: Mender) -> None:
    """As after the loss of Temporal's database: the accept is in the row, and no run has ever been there."""
    desk = Desk(stage.pool, stage.world, await stage.world.client())
    command = stage.command()
    await accept_collect_now(stage.pool, command)
    await mender.mends(request_workflows=1)
    handle = mender.following(command.request_id)
    await until(lambda: shows(handle, "**accepted**: 0 completed, 0 failed of 2 tasks"))
    await desk.run_all(await stage.task_ids(command.request_id))
    await stage.deliver()
    assert (await handle.result())["status"] == "succeeded"
    await reconciles_nothing(mender)


async def reconciles_nothing(mender: Mender) -> None:
    assert await (await mender.start()).result() == NOTHING


async def test_a_request_that_was_terminated_is_taken_up_with_what_it_has(stage: Stage, mender: Mender) -> None:
    desk = Desk(stage.pool, stage.world, await stage.world.client())
    command = stage.command()
    _, handle = await stage.accept(command)
    done, left = await stage.task_ids(command.request_id)
    await desk.run_all([done])
    await stage.deliver()
    first = await run_of(handle)
    await handle.terminate()
    await mender.mends(request_workflows=1)
    again = mender.following(command.request_id)
    assert await run_of(again) != first
    await until(lambda: shows(again, "**running**: 1 completed, 0 failed of 2 tasks"))
    await desk.run_all([left])
    await stage.deliver()
    assert (await again.result())["completed"] == 2


async def test_a_request_that_is_over_gets_no_workflow(stage: Stage, mender: Mender) -> None:
    command = stage.command()
    await accept_collect_now(stage.pool, command)
    await requests.end_request(stage.pool, stage.ref(command.request_id))
    await reconciles_nothing(mender)


async def test_a_request_whose_workflow_runs_is_left_alone(stage: Stage, mender: Mender) -> None:
    _, handle = await stage.accept(stage.command())
    await reconciles_nothing(mender)
    await handle.terminate()


async def test_a_cancel_that_lost_its_workflow_is_finished_and_not_followed(stage: Stage, mender: Mender) -> None:
    desk = Desk(stage.pool, stage.world, await stage.world.client())
    command = stage.command()
    await accept_collect_now(stage.pool, command)
    runs, _ = await stage.task_ids(command.request_id)
    [running] = await desk.start(await desk.dispatch([runs]))
    await requests.cancel_request(stage.pool, stage.ref(command.request_id))
    assert (await stage.request(command.request_id))["status"] == "running"
    await reconciles_nothing(mender)
    await stage.pool.execute("update monitoring_collect_requests set hard_deadline = now()")
    await mender.mends(cancelled_requests=1)
    row = await stage.request(command.request_id)
    assert (row["status"], row["status_reason"]) == ("failed", "cancelled")
    await desk.finish([running])


async def test_a_run_that_closed_as_cancelled_before_its_effect_is_finished_by_reconcile(
    stage: Stage, mender: Mender
) -> None:
    """The cancel reached the run before it had heard of its accept, which had committed."""
    command = stage.command()
    handle = await stage.start_without_accept(command)
    await handle.cancel()

    async def closed() -> bool:
        return (await handle.describe()).status is WorkflowExecutionStatus.CANCELED

    await until(closed)
    await accept_collect_now(stage.pool, command)
    await mender.mends(cancelled_requests=1)
    row = await stage.request(command.request_id)
    assert (row["status"], row["status_reason"]) == ("failed", "cancelled")
    assert {task["dispatch_lane"] for task in await stage.tasks()} == {"normal"}


# --- batches -------------------------------------------------------------------------------------------------


async def open_batch(stage: Stage, **columns: Any) -> dict[str, Any]:
    """A running batch over the brand's two questions, without a workflow."""
    batch = await stage.world.batch(expected=0, status="running")
    if columns:
        await stage.world.set("scheduled_batches", batch, **columns)
    return await stage.batch(batch)


async def test_an_open_batch_whose_workflow_is_gone_goes_on(stage: Stage, mender: Mender) -> None:
    desk = Desk(stage.pool, stage.world, await stage.world.client())
    batch = await open_batch(stage)
    await mender.mends(batch_workflows=1)
    handle = mender.of_batch(batch["workflow_id"])
    await until(lambda: shows(handle, "0 of 2 tasks settled"))
    tasks = [task["id"] for task in await stage.tasks(batch_id=batch["id"])]
    await desk.run_all(tasks, source="daily_schedule")
    await stage.deliver()
    assert (await handle.result())["completed"] == 2
    assert (await stage.batch(batch["id"]))["status"] == "completed"
    await reconciles_nothing(mender)


@pytest.mark.parametrize("status", ["planned", "paused"])
async def test_a_planned_batch_is_the_next_scans_until_it_had_its_chance(
    stage: Stage, mender: Mender, status: str
) -> None:
    """Also one that was planned paused, the backfill of a paused batch."""
    batch = await open_batch(stage, status=status, started_at=None)
    await reconciles_nothing(mender)
    await stage.world.set("scheduled_batches", batch["id"], created_at=ago(minutes=3))
    await mender.mends(batch_workflows=1)
    await mender.of_batch(batch["workflow_id"]).terminate()


async def test_a_cancelled_batch_without_a_workflow_is_finished(stage: Stage, mender: Mender) -> None:
    batch = await open_batch(stage, status="cancelling", expected_count=1)
    task = await stage.world.business_task(batch_id=batch["id"])
    await mender.mends(cancelled_batches=1)
    row = await stage.batch(batch["id"])
    assert (row["status"], row["skipped_count"]) == ("cancelled", 1)
    assert (await stage.world.business(task))["skip_reason"] == "batch_cancelled"


async def test_a_cancelled_batch_waits_for_what_runs(stage: Stage, mender: Mender) -> None:
    desktop = await stage.world.client()
    batch = await open_batch(stage, status="cancelling", expected_count=1)
    lease = await stage.world.leased(desktop, status="in_progress", batch_id=batch["id"])
    await reconciles_nothing(mender)
    assert (await stage.batch(batch["id"]))["status"] == "cancelling"
    assert (await stage.world.execution(lease.task_id))["status"] == "in_progress"


async def test_a_batch_that_is_over_gets_no_workflow(stage: Stage, mender: Mender) -> None:
    await open_batch(stage, status="completed")
    await open_batch(stage, status="cancelled")
    await reconciles_nothing(mender)


# --- residents, and the run itself ---------------------------------------------------------------------------


async def test_a_missing_resident_is_started(mender: Mender) -> None:
    start = ResidentStart(role=f"role-{new_uuid()}", shard=3)
    mender.residents = [start]
    await mender.mends(residents=1)
    handle = mender.stage.client.get_workflow_handle(resident_workflow_id(start.role, start.shard))
    assert (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
    await handle.terminate()


async def test_everything_is_taken_up_after_the_loss_of_temporals_database(stage: Stage, mender: Mender) -> None:
    """Open ones get new workflows; finished ones are untouched."""
    mender.residents = [ResidentStart(role=f"role-{new_uuid()}")]
    command = stage.command()
    await accept_collect_now(stage.pool, command)
    batch = await open_batch(stage)
    await open_batch(stage, status="completed")
    before = await stage.pool.fetch("select * from scheduled_batches where status = 'completed'")
    await mender.mends(request_workflows=1, batch_workflows=1, residents=1)
    assert await stage.pool.fetch("select * from scheduled_batches where status = 'completed'") == before
    for handle in (
        mender.following(command.request_id),
        mender.of_batch(batch["workflow_id"]),
        mender.stage.client.get_workflow_handle(resident_workflow_id(mender.residents[0].role, 0)),
    ):
        assert (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
        await handle.terminate()


@pytest.mark.xdist_group("schedules")
async def test_a_worker_that_outlives_temporals_database_brings_the_schedules_back(stage: Stage) -> None:
    for _ in range(2):
        async with schedules(stage) as handles:
            for handle in handles:
                assert (await handle.describe()).schedule.policy.overlap is ScheduleOverlapPolicy.SKIP


@pytest.mark.xdist_group("schedules")
async def test_a_scan_of_plans_that_is_asked_for_during_another_one_comes_after_it(stage: Stage) -> None:
    """The one under way may have looked before the plan was due."""
    async with schedules(stage) as [scans, *_]:
        await scans.pause(note="no regular one in between")
        # Nobody serves its queue, so the first one goes on until it is ended here.
        [running] = await running_of(scans)
        await TemporalProcesses(stage.client).scan_plans()
        # Asked after it, the schedule answers when it has looked at it.
        await scans.describe()
        await stage.client.get_workflow_handle(running).terminate()
        await until(partial(has_decided, scans))
        info = (await scans.describe()).info
        assert (info.num_actions, info.num_actions_skipped_overlap) == (2, 0)


@asynccontextmanager
async def schedules(stage: Stage) -> AsyncIterator[list[ScheduleHandle]]:
    """Those of a worker, which scan, tune and reconcile, each with its first run."""
    await keep_schedules(stage.client)
    handles = [stage.client.get_schedule_handle(name) for name in SCHEDULES]
    for handle in handles:
        await until(partial(running_of, handle))
    yield handles
    for handle in handles:
        # What goes on would keep its name from the next one of this second.
        for workflow_id in await running_of(handle):
            await stage.client.get_workflow_handle(workflow_id).terminate()
        await handle.delete()


async def running_of(schedule: ScheduleHandle) -> list[str]:
    """The workflows that it has started and that are not over, as far as it knows."""
    found = (await schedule.describe()).info.running_actions
    return [one.workflow_id for one in found if isinstance(one, ScheduleActionExecutionStartWorkflow)]


async def has_decided(schedule: ScheduleHandle) -> bool:
    """Whether its second run has begun, or never will."""
    info = (await schedule.describe()).info
    return info.num_actions + info.num_actions_skipped_overlap > 1


async def test_a_run_costs_at_most_20_events_and_shows_what_it_did(stage: Stage, mender: Mender) -> None:
    await stage.world.business_task(lane=Lane.HIGH)
    await stage.pool.execute(
        "insert into outbox (channel, kind, key, payload, created_at) values"
        " ('amqp', 'task_control', 'nowhere', '{}', now() - interval '2 minutes')"
    )
    handle = await mender.start()
    result = await handle.result()
    assert (result.database.stray_tasks, result.found.outbox_waiting) == (1, 1)
    assert await history_length(handle) <= 20
    shown = await details(handle)
    assert "**1 mended**" in shown
    assert "- stray_tasks: 1" in shown
    assert "- 1 effects wait for over a minute" in shown
