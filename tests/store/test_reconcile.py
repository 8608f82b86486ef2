"""Counters, effects that wait, and whole runs of reconcile (1-dispatch §1.8)."""

import asyncpg
import pytest

from domain.lanes import Lane
from domain.messages import DatabaseFixes
from store import reconcile
from store.database import Pool
from store.reconcile import reconcile_database
from tests.support.reconciling import NOTHING, age, in_request, mended, over, unknown, unwanted
from tests.support.world import Desktop, World, ago


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


@pytest.fixture
async def client(world: World) -> Desktop:
    return await world.client(max_concurrent=4)


# --- counters ---------------------------------------------------------------------------------------------------------


async def test_counters_of_an_open_request_that_differ_are_recounted(world: World) -> None:
    request = await world.request(tasks=7)
    done = await world.business_task(request_id=request, lane=Lane.HIGH)
    await world.business_task(request_id=request, lane=Lane.HIGH)
    await world.set("monitoring_collect_tasks", done, status="failed")
    await mended(world, request_counters=1)
    row = await world.row("monitoring_collect_requests", request)
    assert (row["requested_task_count"], row["failed_task_count"], row["status"]) == (2, 1, "running")


async def test_an_open_request_with_nothing_left_to_do_ends(world: World) -> None:
    request = await world.request(tasks=1)
    task = await world.business_task(request_id=request)
    await world.set("monitoring_collect_tasks", task, status="failed")
    await world.set("monitoring_collect_requests", request, failed_task_count=1)
    await mended(world, request_counters=1)
    assert (await world.row("monitoring_collect_requests", request))["status"] == "failed"
    [told] = await world.outbox("tasks_terminal")
    assert told["key"] == f"collect-now/{request}"


@pytest.mark.parametrize("status", ["running", "paused", "cancelling"])
async def test_counters_of_an_open_batch_that_differ_are_recounted_and_its_workflow_told(
    world: World, status: str
) -> None:
    batch = await world.batch(expected=9, status=status)
    await world.set("monitoring_collect_tasks", await world.business_task(batch_id=batch), status="expired")
    await world.set("monitoring_collect_tasks", await world.business_task(batch_id=batch), status="skipped")
    await mended(world, batch_counters=1)
    row = await world.row("scheduled_batches", batch)
    assert (row["expected_count"], row["expired_count"], row["skipped_count"]) == (2, 1, 1)
    [told] = await world.outbox("progress")
    assert told["payload"] == {"settled": 2, "dispatched": 0, "expected": 2}


async def test_a_finished_request_and_a_finished_batch_are_history(world: World) -> None:
    request, batch = await world.request(tasks=3, status="succeeded"), await world.batch(status="completed")
    assert await reconcile_database(world.pool) == NOTHING
    assert (await world.row("monitoring_collect_requests", request))["requested_task_count"] == 3
    assert (await world.row("scheduled_batches", batch))["expected_count"] == 10


# --- the whole run ----------------------------------------------------------------------------------------------------


async def test_effects_that_no_pump_took_are_counted_and_the_pumps_woken(world: World, pool: Pool) -> None:
    await pool.execute(
        "insert into outbox (channel, kind, key, payload, created_at, delivered_at) values"
        " ('amqp', 'x', 'y', '{}', now() - interval '2 minutes', null),"
        " ('amqp', 'x', 'y', '{}', now() - interval '2 minutes', now()), ('signal', 'x', 'y', '{}', now(), null)"
    )
    heard: list[str] = []
    async with pool.acquire() as listening:
        for channel in ("giveway_outbox_amqp", "giveway_outbox_signal"):
            await listening.add_listener(channel, lambda *told: heard.append(told[2]))
        assert (await reconcile_database(pool)).found.outbox_waiting == 1
        await listening.execute("select 1")
        assert sorted(heard) == ["giveway_outbox_amqp", "giveway_outbox_signal"]
        await listening.reset()


async def test_all_kinds_at_once_are_mended_by_one_run(world: World, client: Desktop) -> None:
    _, held = await in_request(world, client)
    await over(world, held)
    blocked = await world.leased(client)
    await world.set("monitoring_collect_tasks", blocked.business_id, active_task_id=None)
    await unwanted(world, client, status="queued")
    lost = await world.leased(client, status="in_progress")
    await world.set("desktop_tasks", lost.task_id, result_received_at=ago(seconds=901))
    victim = await world.leased(client, status="in_progress")
    await world.interrupt(victim.task_id, await world.request(generation=9, status="failed", tasks=0), 9)
    await world.business_task(lane=Lane.HIGH)
    request = await world.request(tasks=3)
    await world.business_task(request_id=request, lane=Lane.HIGH)
    batch = await world.batch(expected=5)
    await world.business_task(batch_id=batch)
    await age(world)
    await unknown(world, client)
    await mended(
        world,
        freed_tasks=1,
        blocked_tasks=1,
        orphans=1,
        unknown=1,
        never_ingested=1,
        interrupts=1,
        stray_tasks=1,
        request_counters=1,
        batch_counters=1,
    )


async def test_damage_beyond_one_transaction_is_mended_in_several(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile, "STEP_LIMIT", 2)
    for _ in range(5):
        await world.business_task(lane=Lane.HIGH)
    beats = 0

    def beat() -> None:
        nonlocal beats
        beats += 1

    assert (await reconcile_database(world.pool, beat=beat)).fixed.stray_tasks == 5
    assert beats >= 4


async def test_a_kind_that_meets_an_error_does_not_stop_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_pool: Pool, _limit: int) -> int:
        raise asyncpg.DivisionByZeroError("a test")

    steps = [(kind, broken if kind == "unknown" else step) for kind, step in reconcile.STEPS]
    monkeypatch.setattr(reconcile, "STEPS", steps)
    await world.business_task(lane=Lane.HIGH)
    done = await reconcile_database(world.pool)
    assert (done.found.failed, done.fixed.stray_tasks) == (("unknown",), 1)


async def test_another_tenants_tasks_are_mended_for_that_tenant(world: World) -> None:
    other = await World.create(world.pool, "Other")
    await world.business_task(lane=Lane.HIGH)
    task = await other.business_task(lane=Lane.HIGH)
    await reconcile_database(world.pool)
    rows = await world.pool.fetch("select tenant_id, subject from audit_events order by id")
    assert (other.tenant_id, f"task {task}") in [tuple(row) for row in rows]
    assert {row["tenant_id"] for row in rows} == {world.tenant_id, other.tenant_id}


def test_a_kind_has_one_name_in_steps_and_answer() -> None:
    assert {kind for kind, _ in reconcile.STEPS} == set(DatabaseFixes.model_fields)
