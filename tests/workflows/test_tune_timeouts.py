"""The weekly retuning as a workflow: what the schedule starts, and what operators see (1-dispatch §1.5)."""

from collections.abc import AsyncIterator

import pytest
from temporalio.worker import Worker

from activities.tuning import TuningActivities
from domain.ids import new_uuid
from domain.messages import TuneOrder, TuneResult
from tests.support.world import World
from tests.workflows.stage import Stage, details, history_length
from workflows.tune_timeouts import TuneTimeouts


@pytest.fixture
async def queue(stage: Stage) -> AsyncIterator[str]:
    """A worker that knows the retuning, and 60 intervals measured on one platform."""
    await measured(stage.world)
    queue = f"test-{new_uuid()}"
    effects = TuningActivities(stage.pool)
    async with Worker(stage.client, task_queue=queue, workflows=[TuneTimeouts], activities=[effects.tune_timeouts]):
        yield queue


async def measured(world: World) -> None:
    task, client = await world.business_task(), await world.client(online=False)
    await world.pool.execute(
        "insert into desktop_task_attempts (id, tenant_id, monitor_task_id, client_id, attempt, token_hash, ended_at,"
        " safe_point_interval_ms)"
        " select gen_random_uuid(), $1, $2, $3, 1, '', now(), 40000 from generate_series(1, 60)",
        world.tenant_id, task, client.id,
    )  # fmt: skip


async def timeouts(stage: Stage) -> list[tuple[int, int]]:
    rows = await stage.pool.fetch("select * from platform_settings where platform_id = 'qwen'")
    return [(row["interrupt_soft_timeout_ms"], row["interrupt_hard_timeout_ms"]) for row in rows]


async def test_it_sets_the_timeouts_and_shows_them(stage: Stage, queue: str) -> None:
    handle = await stage.client.start_workflow("TuneTimeouts", id=f"tune-{new_uuid()}", task_queue=queue)
    result = TuneResult.model_validate(await handle.result())
    assert [each.platform for each in result.platforms if each.outcome == "tuned"] == ["qwen"]
    assert await timeouts(stage) == [(60_000, 180_000)]
    assert "qwen: tuned, soft/hard None/None → 60000/180000 ms, P95 40000 ms of 60" in await details(handle)
    assert await history_length(handle) <= 12


async def test_a_dry_run_changes_nothing(stage: Stage, queue: str) -> None:
    result = await stage.client.execute_workflow(
        TuneTimeouts.run, TuneOrder(dry_run=True), id=f"tune-{new_uuid()}", task_queue=queue
    )
    assert result.dry_run
    assert await timeouts(stage) == []
