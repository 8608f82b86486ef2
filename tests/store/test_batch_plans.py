"""The statements of a batch read its own tasks by indexes, whatever else there is (1-dispatch §1.6)."""

from typing import Any

import pytest

from store import batch_starts, batch_tasks, batches, settlement
from store.database import Pool
from tests.support.backlog import add_backlog, add_history, explain
from tests.support.batches import tasks_of, with_tasks
from tests.support.clicks import rounds
from tests.support.world import World

LARGE = {"monitoring_collect_tasks", "desktop_tasks"}


@pytest.fixture
async def scene(pool: Pool) -> tuple[World, int]:
    """A batch of 300 among 10,000 other tasks and as many finished execution tasks; some of it waits on a desktop."""
    world = await World.create(pool)
    client = await world.client()
    batch = await with_tasks(world, 300)
    await rounds(pool)
    # Other days' and so other batches' work.
    await add_backlog(world, 10_000)
    await add_history(world, client.id)
    await pool.execute(
        "insert into scheduled_batches (tenant_id, brand_id, plan_id, business_date, slot, run_mode, collector_type,"
        " workflow_id, status, scheduled_for, cut_off_at) select tenant_id, brand_id, plan_id, '2026-04-20',"
        " 'other' || n, run_mode, collector_type, 'other' || n, 'running', now(), now()"
        " from scheduled_batches, generate_series(1, 10) n"
    )
    await pool.execute(
        "update monitoring_collect_tasks t set batch_id = b.id from scheduled_batches b"
        " where t.batch_id is null and b.slot = 'other' || (1 + t.id % 10)"
    )
    await pool.execute("vacuum analyze")
    return world, batch


async def test_no_statement_of_a_batch_reads_a_large_table_whole(scene: tuple[World, int]) -> None:
    world, batch = scene
    client = await world.pool.fetchval("select id from desktop_clients")
    rows = await tasks_of(world, batch)
    ids, questions = [row["id"] for row in rows[:50]], [row["question_id"] for row in rows]
    slice_of = (batch, questions[:50], ["qwen"] * 50)
    statements: dict[str, tuple[str, tuple[Any, ...]]] = {
        "read_counters": (batches.SQL["read_counters"], (batch,)),
        "unfinished": (batches.SQL["unfinished"], (batch, ["running"])),
        "lock_tasks": (batches.SQL["lock_tasks"], (ids,)),
        "lock_queued": (batches.SQL["lock_queued"], (ids, None)),
        "hold_waiting": (batches.SQL["hold_waiting"], (batch, ids)),
        "let_go": (batches.SQL["let_go"], (batch, ids)),
        "settle_waiting": (batches.SQL["settle_waiting"], (batch, ids, "expired", None)),
        "waiting_on_client": (batches.SQL["waiting_on_client"], (batch, client)),
        "unbind_client": (batches.SQL["unbind_client"], (client, ids)),
        "finish_batch": (batches.SQL["finish_batch"], (batch,)),
        "read_slice": (batch_tasks.SQL["read_slice"], (batch, questions[99], "qwen", 0, 100)),
        "lock_takeable": (batch_tasks.SQL["lock_takeable"], slice_of),
        "lock_expired": (batch_tasks.SQL["lock_expired"], (batch, 100)),
        "take_unowned": (batch_tasks.SQL["take_unowned"], (batch, ids)),
        "take_over": (batch_tasks.SQL["take_over"], (batch, ids, "normal", 100, "desktop_tasks")),
        "materialise": (batch_tasks.SQL["materialise"], (*slice_of, "shard", "desktop_tasks")),
        "recount_batches": (batch_tasks.SQL["recount_batches"], ([batch], batch)),
        "find_planned": (batch_starts.SQL["find_planned"], (0, 200)),
        "skip_cancelled": (settlement.SQL["skip_cancelled"], (ids,)),
    }
    plans = {name: await explain(world.pool, sql, *arguments) for name, (sql, arguments) in statements.items()}
    whole = {
        name: (plan.seq_scans & LARGE, plan.discarded)
        for name, plan in plans.items()
        if plan.seq_scans & LARGE or plan.discarded > 1000
    }
    assert whole == {}

    first, late = (
        plans["read_slice"],
        await explain(world.pool, batch_tasks.SQL["read_slice"], batch, questions[-101], "qwen", 0, 100),
    )
    assert late.pages <= 2 * first.pages
