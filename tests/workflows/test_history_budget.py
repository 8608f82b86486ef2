"""What Temporal costs: history events of whole runs on the real server (README, Parts and what each is for)."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle

from domain.messages import ClientBound
from store.database import Pool
from tests.workflows.desk import CHUNK, Desk, Running
from tests.workflows.stage import Stage, history_length, on_stage, shows, until
from workflows.collect_now import CollectNow
from workflows.scheduled_batch import ScheduledBatch

HAPPY, ANY_PATH = 60, 150


@pytest.fixture
async def brand_of_200(temporal: Client, pool: Pool) -> AsyncIterator[Stage]:
    async with on_stage(temporal, pool, questions=200) as opened:
        yield opened


@pytest.fixture
async def brand_of_500(temporal: Client, pool: Pool) -> AsyncIterator[Stage]:
    async with on_stage(temporal, pool, questions=500) as opened:
        yield opened


async def run_in_chunks(stage: Stage, desk: Desk, tasks: list[int], source: str) -> None:
    """Every chunk's signals are sent before the next chunk: nothing is coalesced."""
    for first in range(0, len(tasks), CHUNK):
        await desk.run_all(tasks[first : first + CHUNK], source=source)
        await stage.deliver()


async def impatient(stage: Stage) -> None:
    await stage.pool.execute(
        "insert into platform_settings (platform_id, interrupt_soft_timeout_ms, interrupt_hard_timeout_ms)"
        " values ('qwen', 100, 200)"
    )


async def test_a_request_of_200_tasks_when_all_goes_well(brand_of_200: Stage, record_property: Any) -> None:
    desk = Desk(brand_of_200.pool, brand_of_200.world, await brand_of_200.world.client())
    command = brand_of_200.command()
    _, handle = await brand_of_200.accept(command)
    await run_in_chunks(brand_of_200, desk, await brand_of_200.task_ids(command.request_id), "collect_now")
    assert (await handle.result()).completed == 200
    assert await spent(handle, record_property) <= HAPPY


async def test_a_request_whose_victims_stop_one_by_one(brand_of_200: Stage, record_property: Any) -> None:
    stage, desktop = brand_of_200, await brand_of_200.world.client()
    desk = Desk(stage.pool, stage.world, desktop)
    victims = [await stage.world.leased(desktop, status="in_progress") for _ in range(20)]
    command = stage.command()
    _, handle = await stage.accept(command)
    for victim in victims:
        await desk.give_way(Running(victim.task_id, victim.business_id, victim.attempt_id))
        await stage.deliver()
    await run_in_chunks(stage, desk, await stage.task_ids(command.request_id), "collect_now")
    assert (await handle.result()).completed >= 200
    assert await spent(handle, record_property) <= ANY_PATH


async def test_a_request_on_four_clients_whose_victims_never_stop(brand_of_200: Stage, record_property: Any) -> None:
    stage = brand_of_200
    await impatient(stage)
    desktop = await stage.world.client()
    await stage.world.leased(desktop, status="in_progress")
    command = stage.command()
    _, handle = await stage.accept(command)
    await until(lambda: stage.called("force_release"))
    for generation in range(2, 5):
        bound = ClientBound(
            outbox_id=10**9 + generation, client_id=(await stage.world.client()).id, generation=generation, interrupts=1
        )
        await handle.signal(CollectNow.client_bound, bound)
        await until(partial(_released, stage, generation))
    tasks = await stage.task_ids(command.request_id)
    for task in tasks:
        await stage.world.set("monitoring_collect_tasks", task, target_client_id=desktop.id)
    await run_in_chunks(stage, Desk(stage.pool, stage.world, desktop), tasks, "collect_now")
    assert (await handle.result()).completed >= 200
    assert await spent(handle, record_property) <= ANY_PATH


async def test_a_request_that_is_cancelled_while_half_of_it_runs(brand_of_200: Stage, record_property: Any) -> None:
    desk = Desk(brand_of_200.pool, brand_of_200.world, await brand_of_200.world.client())
    command = brand_of_200.command()
    _, handle = await brand_of_200.accept(command)
    tasks = await brand_of_200.task_ids(command.request_id)
    running = await desk.start(await desk.dispatch(tasks[:100]))
    await brand_of_200.deliver()
    await handle.cancel()
    await until(lambda: brand_of_200.called("cancel_request"))
    for first in range(0, len(running), CHUNK):
        await desk.finish(running[first : first + CHUNK])
        await brand_of_200.deliver()
    with pytest.raises(WorkflowFailureError):
        await handle.result()
    assert await spent(handle, record_property) <= ANY_PATH


async def test_a_batch_of_500_tasks_that_is_paused_twice(brand_of_500: Stage, record_property: Any) -> None:
    desk = Desk(brand_of_500.pool, brand_of_500.world, await brand_of_500.world.client())
    start = await brand_of_500.plan_batch()
    handle = await brand_of_500.start_batch(start)
    await until(lambda: shows(handle, "0 of 500 tasks settled"))
    tasks = [task["id"] for task in await brand_of_500.tasks(batch_id=start.batch_id)]
    for first in (0, 250):
        await run_in_chunks(brand_of_500, desk, tasks[first : first + 200], "daily_schedule")
        assert (await handle.execute_update(ScheduledBatch.pause)).held == 300 - first
        await handle.execute_update(ScheduledBatch.resume)
        await run_in_chunks(brand_of_500, desk, tasks[first + 200 : first + 250], "daily_schedule")
    assert (await handle.result()).completed == 500
    assert await spent(handle, record_property) <= 60 + 500 // 10


async def spent(handle: WorkflowHandle[Any, Any], record_property: Any) -> int:
    """Events of the run; noted in the report."""
    events = await history_length(handle)
    record_property("history_events", events)
    return events


async def _released(stage: Stage, times: int) -> bool:
    return stage.recorder.names().count("force_release") >= times
