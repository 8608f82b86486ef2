"""`giveway batch` and `giveway plan` against a real installation's database and Temporal."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import orjson
import pytest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import UnsandboxedWorkflowRunner, Worker
from typer.testing import CliRunner

import cli
from activities.batches import BatchActivities
from domain.errors import BatchOver, DispatchUnavailable, NotFound
from domain.ids import new_uuid
from domain.messages import BatchStart
from settings import load_settings
from store.batch_starts import claim_due_plans, find_planned
from store.database import Pool
from tests.conftest import Servers
from tests.support.batches import materialise, planned
from tests.support.world import World, ago
from workflows.scheduled_batch import ScheduledBatch

Giveway = Callable[..., Awaitable[Any]]


@pytest.fixture
def giveway(servers: Servers, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Giveway]:
    """Runs the program with these words; its JSON, or the error that it ended with."""
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("TEMPORAL_ADDRESS", servers.temporal_address)
    monkeypatch.setenv("TEMPORAL_NAMESPACE", servers.temporal_namespace)
    # A process reads its settings once; this one is many commands.
    load_settings.cache_clear()

    async def run(*words: str, json: bool = True) -> Any:
        done = await asyncio.to_thread(CliRunner().invoke, cli.app, [*words, *(["--json"] if json else [])])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return orjson.loads(done.stdout.splitlines()[-1]) if json else done

    yield run
    load_settings.cache_clear()


@pytest.fixture
async def world(pool: Pool) -> World:
    """A tenant without plans."""
    return await World.create(pool)


@pytest.fixture
async def running(servers: Servers, world: World) -> AsyncIterator[int]:
    """A batch of two tasks with its workflow."""
    client = await Client.connect(
        servers.temporal_address, namespace=servers.temporal_namespace, data_converter=pydantic_data_converter
    )
    batch, name, effects = await planned(world, 2, ("qwen",)), f"test-{new_uuid()}", BatchActivities(world.pool)
    await world.set("scheduled_batches", batch, workflow_id=name)
    row = await world.row("scheduled_batches", batch)
    fields = ("tenant_id", "brand_id", "plan_id", "business_date", "slot", "cut_off_at")
    start = BatchStart(batch_id=batch, **{field: row[field] for field in fields})
    methods = (effects.materialise, effects.read_batch, effects.pause_batch, effects.resume_batch)
    ends = (effects.cancel_batch, effects.finish_batch)
    runner = UnsandboxedWorkflowRunner()
    async with Worker(
        client, task_queue=name, workflows=[ScheduledBatch], activities=[*methods, *ends], workflow_runner=runner
    ):
        await client.start_workflow(ScheduledBatch.run, start, id=name, task_queue=name)
        yield batch


async def test_orders_are_given_and_shown(giveway: Giveway, running: int, pool: Pool) -> None:
    number = str(running)
    assert (await giveway("batch", "pause", number))["status"] == "paused"
    listed = (await giveway("batch", "list", "--status", "paused"))["batches"]
    assert [batch["id"] for batch in listed] == [running]
    assert (await giveway("batch", "resume", number))["held_count"] == 0
    cancelled = await giveway("batch", "cancel", number)
    assert (cancelled["status"] in ("cancelling", "cancelled"), cancelled["skipped_count"]) == (True, 2)
    shown = await giveway("batch", "show", number, json=False)
    assert "skipped_count" in shown.stdout
    actors = await pool.fetch("select distinct actor from audit_events where action like 'batch_%'")
    assert [row["actor"] for row in actors] == ["giveway batch"]


async def test_what_cannot_be_ordered_says_why(giveway: Giveway, world: World) -> None:
    over, lost = await world.batch(status="completed"), await world.batch()
    await world.set("scheduled_batches", lost, workflow_id=f"nobody-{new_uuid()}")
    with pytest.raises(BatchOver):
        await giveway("batch", "pause", str(over))
    with pytest.raises(DispatchUnavailable):
        await giveway("batch", "pause", str(lost))
    with pytest.raises(NotFound):
        await giveway("batch", "cancel", "999")
    assert (await giveway("batch", "list", "--status", "asleep", json=False)).exit_code == 2


async def test_plans_are_listed_and_run_and_the_batch_is_waited_for(giveway: Giveway, world: World) -> None:
    plan = await world.plan(next_run_at=ago(days=-1))
    assert [each["id"] for each in (await giveway("plan", "list"))["plans"]] == [plan]
    with pytest.raises(DispatchUnavailable):
        # Nobody scans this database.
        await giveway("batch", "run", str(plan), "--wait", "0")
    assert await world.pool.fetchval("select next_run_at <= now() from monitoring_plans where id = $1", plan)
    await world.set("monitoring_plans", plan, next_run_at=ago(days=-1))
    running = asyncio.create_task(giveway("batch", "run", str(plan)))
    while not await claim_due_plans(world.pool):
        await asyncio.sleep(0.02)
    [(start, _)] = await find_planned(world.pool)
    await materialise(world, start.batch_id)
    assert (await running)["id"] == start.batch_id
    assert (await giveway("plan", "run", str(plan)))["plan_id"] == plan
    with pytest.raises(NotFound):
        await giveway("plan", "run", "999")
