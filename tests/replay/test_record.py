"""Records the histories anew from real runs: `python -m pytest tests/replay/test_record.py --record-histories`.

For a deliberate change of a workflow. While runs of the old code may be open, its histories must stay replayable: look
at the difference before committing it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.worker import Worker

from activities.reconcile import ReconcileActivities
from activities.resident import ResidentActivities
from activities.tuning import TuningActivities
from domain.ids import new_uuid
from domain.messages import RESIDENT_QUEUE, ClientBound, ClientLost, Preempted, ResidentStart, Resumed
from store.accept import accept_collect_now
from tests.replay.histories import write
from tests.support.world import ago
from tests.workflows.clock import Clock
from tests.workflows.desk import Desk, Running
from tests.workflows.stage import Stage, shows, until
from workflows.collect_now import CollectNow
from workflows.reconcile import Reconcile
from workflows.resident import Resident
from workflows.scan_plans import ScanPlans
from workflows.scheduled_batch import ScheduledBatch
from workflows.tune_timeouts import TuneTimeouts


@pytest.fixture(autouse=True)
def _only_when_asked(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--record-histories", default=False):
        pytest.skip("records only with --record-histories")


async def impatient(stage: Stage) -> None:
    await stage.pool.execute(
        "insert into platform_settings (platform_id, interrupt_soft_timeout_ms, interrupt_hard_timeout_ms)"
        " values ('qwen', 300, 600)"
    )


async def ended(handle: WorkflowHandle[Any, Any]) -> None:
    with suppress(WorkflowFailureError):
        await handle.result()


async def test_collect_now_finished(stage: Stage) -> None:
    desk = Desk(stage.pool, stage.world, await stage.world.client())
    command = stage.command()
    _, handle = await stage.accept(command)
    for task in await stage.task_ids(command.request_id):
        await desk.run_all([task])
        await stage.deliver()
    await ended(handle)
    await write("collect_now_finished", handle)


async def test_collect_now_gave_way_late(stage: Stage) -> None:
    """Soft and hard timeout, a binding to another client, that one's loss, and the end."""
    await impatient(stage)
    desktop, other = await stage.world.client(), await stage.world.client()
    await stage.world.leased(desktop, status="in_progress")
    command = stage.command(target_client_id=desktop.id)
    _, handle = await stage.accept(command)
    await until(lambda: stage.called("force_release"))
    bound = ClientBound(outbox_id=10**9, client_id=other.id, generation=2)
    await handle.signal(CollectNow.client_bound, bound)
    await handle.signal(CollectNow.client_lost, ClientLost(outbox_id=10**9 + 1, client_id=other.id, epoch=1))
    await until(lambda: stage.called("release_client"))
    tasks = await stage.task_ids(command.request_id)
    await stage.pool.execute("update monitoring_collect_tasks set target_client_id = $1", desktop.id)
    await Desk(stage.pool, stage.world, desktop).run_all(tasks)
    await stage.deliver()
    await ended(handle)
    await write("collect_now_gave_way_late", handle)


async def test_collect_now_victim_stopped_in_time(stage: Stage) -> None:
    desktop = await stage.world.client()
    desk = Desk(stage.pool, stage.world, desktop)
    victim = await stage.world.leased(desktop, status="in_progress")
    command = stage.command()
    _, handle = await stage.accept(command)
    await desk.give_way(Running(victim.task_id, victim.business_id, victim.attempt_id))
    await stage.deliver()
    await desk.run_all(await stage.task_ids(command.request_id))
    await stage.deliver()
    await ended(handle)
    await write("collect_now_victim_stopped_in_time", handle)


async def test_collect_now_victims_on_two_platforms(stage: Stage) -> None:
    """Judged one after the other; then another request inherits what is left when the first is cancelled."""
    await impatient(stage)
    await stage.pool.execute(
        "insert into platform_settings (platform_id, interrupt_soft_timeout_ms, interrupt_hard_timeout_ms)"
        " values ('kimi', 600, 1500), ('zhipu', 600, 3000)"
    )
    desktop = await stage.world.client(max_concurrent=4)
    for platform in ("qwen", "kimi", "zhipu"):
        await stage.world.leased(desktop, status="in_progress", platform=platform)
    command = stage.command()
    _, handle = await stage.accept(command)
    question = (await stage.world.question()).id
    _, heir = await stage.accept(stage.command(question_ids=(question,), user_id=2))
    await until(lambda: _revoked(stage, 2))
    await handle.cancel()
    await until(lambda: stage.called("cancel_request"))
    await stage.deliver()
    await until(lambda: _revoked(stage, 3))
    await heir.cancel()
    await ended(handle)
    await ended(heir)
    await write("collect_now_victims_on_two_platforms", handle)
    await write("collect_now_inherited_a_victim", heir)


async def _revoked(stage: Stage, victims: int) -> bool:
    found = await stage.pool.fetchval("select count(*) from desktop_tasks where status = 'unknown'")
    return bool(found >= victims)


async def test_collect_now_cancelled(stage: Stage) -> None:
    desk = Desk(stage.pool, stage.world, await stage.world.client())
    command = stage.command()
    _, handle = await stage.accept(command)
    running = await desk.start(await desk.dispatch((await stage.task_ids(command.request_id))[:1]))
    await stage.deliver()
    await handle.cancel()
    await until(lambda: stage.called("cancel_request"))
    await desk.finish(running)
    await stage.deliver()
    await ended(handle)
    await write("collect_now_cancelled", handle)


async def test_collect_now_superseded_by_another(stage: Stage) -> None:
    _, handle = await stage.accept(stage.command())
    _, newer = await stage.accept(stage.command(user_id=2))
    _, duplicate = await stage.accept(stage.command(user_id=2))
    await stage.deliver()
    await ended(handle)
    await write("collect_now_superseded", handle)
    await ended(duplicate)
    await write("collect_now_duplicate", duplicate)
    await newer.terminate()


async def test_collect_now_without_an_accept(stage: Stage) -> None:
    command = stage.command()
    abandoned = await stage.start_without_accept(stage.command())
    found = await stage.start_without_accept(command)
    await accept_collect_now(stage.pool, command)
    await Desk(stage.pool, stage.world, await stage.world.client()).run_all(await stage.task_ids(command.request_id))
    await ended(abandoned)
    await write("collect_now_abandoned", abandoned)
    await ended(found)
    await write("collect_now_found_its_accept", found)


async def test_scheduled_batch_finished(stage: Stage) -> None:
    """Yields that end by themselves and by a rebalance, a cut-off, and the last result."""
    desk = Desk(stage.pool, stage.world, await stage.world.client())
    start = await stage.plan_batch(cut_off_in=timedelta(seconds=2), hard_timeout_ms=300)
    handle = await stage.start_batch(start)
    await until(lambda: shows(handle, "**running**"))
    tasks = [task["id"] for task in await stage.tasks(batch_id=start.batch_id)]
    client, resuming = new_uuid(), new_uuid()
    for outbox_id, each in enumerate((client, resuming), start=10**9):
        given = Preempted(outbox_id=outbox_id, client_id=each, generation=1, request_id=new_uuid(), count=1)
        await handle.signal(ScheduledBatch.preempted, given)
    await handle.signal(ScheduledBatch.resumed, Resumed(outbox_id=10**9 + 2, client_id=resuming, generation=1))
    await until(lambda: stage.called("rebalance_batch"))
    running = await desk.start(await desk.dispatch(tasks[:1], source="daily_schedule"))
    await until(lambda: stage.called("expire_batch"))
    await desk.finish(running)
    await stage.deliver()
    await ended(handle)
    await write("scheduled_batch_finished", handle)


async def test_scheduled_batch_cancelled(stage: Stage) -> None:
    desk = Desk(stage.pool, stage.world, await stage.world.client())
    start = await stage.plan_batch()
    handle = await stage.start_batch(start)
    await until(lambda: shows(handle, "**running**"))
    tasks = [task["id"] for task in await stage.tasks(batch_id=start.batch_id)]
    running = await desk.start(await desk.dispatch(tasks[:1], source="daily_schedule"))
    await handle.cancel()
    await until(lambda: stage.called("cancel_batch"))
    await desk.finish(running)
    await stage.deliver()
    await ended(handle)
    await write("scheduled_batch_cancelled", handle)


async def test_scheduled_batch_paused(stage: Stage) -> None:
    """Paused while its tasks are made, resumed, paused again, and cancelled by an update."""
    desk = Desk(stage.pool, stage.world, await stage.world.client())
    start = await stage.plan_batch()
    handle = await stage.start_batch(start)
    await handle.execute_update(ScheduledBatch.pause)
    await until(lambda: shows(handle, "**paused**: 0 of 2"))
    await handle.execute_update(ScheduledBatch.resume)
    tasks = [task["id"] for task in await stage.tasks(batch_id=start.batch_id)]
    running = await desk.start(await desk.dispatch(tasks[:1], source="daily_schedule"))
    await handle.execute_update(ScheduledBatch.pause)
    await handle.execute_update(ScheduledBatch.cancel)
    await desk.finish(running)
    await stage.deliver()
    await ended(handle)
    await write("scheduled_batch_paused", handle)


async def test_scheduled_batch_continued_as_new(stage: Stage) -> None:
    handle = await stage.start_batch(await stage.plan_batch())
    await until(lambda: shows(handle, "**running**"))
    first = stage.client.get_workflow_handle(handle.id, run_id=(await handle.describe()).run_id)
    client, generation = new_uuid(), 0
    while (await first.describe()).status is WorkflowExecutionStatus.RUNNING:
        generation += 1
        given = Preempted(client_id=client, generation=generation, request_id=new_uuid(), count=1)
        await handle.signal(ScheduledBatch.preempted, given)
    await until(lambda: shows(handle, f"{generation} gave way so far"))
    await handle.cancel()
    await ended(handle)
    await write("scheduled_batch_before_continue_as_new", first)
    await write("scheduled_batch_after_continue_as_new", handle)


async def test_scan_plans(stage: Stage) -> None:
    await stage.world.plan(next_run_at=ago(seconds=30))
    handle = await stage.client.start_workflow(ScanPlans.run, id=f"scan-{new_uuid()}", task_queue=stage.queue)
    await ended(handle)
    await write("scan_plans", handle)


async def test_tune_timeouts(stage: Stage) -> None:
    queue = f"test-{new_uuid()}"
    effects = TuningActivities(stage.pool)
    async with Worker(stage.client, task_queue=queue, workflows=[TuneTimeouts], activities=[effects.tune_timeouts]):
        handle = await stage.client.start_workflow(TuneTimeouts.run, id="tune-timeouts", task_queue=queue)
        await ended(handle)
    await write("tune_timeouts", handle)


async def test_reconcile(stage: Stage) -> None:
    async def nobody() -> list[ResidentStart]:
        return []

    mending = ReconcileActivities(stage.pool, stage.client, nobody)
    queue = f"test-{new_uuid()}"
    activities = [mending.reconcile_database, mending.reconcile_workflows]
    async with Worker(stage.client, task_queue=queue, workflows=[Reconcile], activities=activities):
        handle = await stage.client.start_workflow(Reconcile.run, id="reconcile", task_queue=queue)
        await ended(handle)
    await write("reconcile", handle)


@asynccontextmanager
async def serving_residents(clock: Clock, stage: Stage, queue: str) -> AsyncIterator[list[int]]:
    epochs: list[int] = []

    async def loop(_name: str, epoch: int, _shard: int) -> None:
        epochs.append(epoch)

    residents = ResidentActivities(stage.pool, {"coordinator": loop})
    process = Worker(clock.client, task_queue=queue, workflows=[Resident])
    async with process, Worker(clock.client, task_queue=RESIDENT_QUEUE, activities=[residents.run_resident]):
        yield epochs


async def test_resident_cancelled(stage: Stage, clock: Clock) -> None:
    queue = f"test-{new_uuid()}"
    async with serving_residents(clock, stage, queue) as epochs:
        handle = await clock.client.start_workflow(
            Resident.run, ResidentStart(role="coordinator"), id="resident/coordinator/0", task_queue=queue
        )
        await until(lambda: _ran_twice(epochs))
        await handle.cancel()
        await ended(handle)
    await write("resident_cancelled", handle)


async def _ran_twice(epochs: list[int]) -> bool:
    return len(epochs) > 1
