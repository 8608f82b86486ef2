"""Scheduled batches as tests need them, through the real store: planned, with tasks, applied to twice."""

from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

from domain.messages import BatchCounters, BatchRef, MaterialiseChunk
from store import batch_tasks
from store.database import Pool
from tests.support.clicks import whole
from tests.support.world import World

Effect = Callable[[Pool, BatchRef], Awaitable[BatchCounters]]


def ref(world: World, batch: int, **more: Any) -> BatchRef:
    """The batch, as its effects name it."""
    return BatchRef(batch_id=batch, tenant_id=world.tenant_id, **more)


async def planned(world: World, questions: int = 5, platforms: tuple[str, ...] = ("qwen", "doubao")) -> int:
    """A planned batch of today over new questions; returns it."""
    for _ in range(questions):
        await world.question()
    plan = await world.plan(platforms=platforms)
    batch: int = await world.pool.fetchval(
        "insert into scheduled_batches (tenant_id, brand_id, plan_id, business_date, slot, run_mode, collector_type,"
        " workflow_id, scheduled_for, cut_off_at) select $1, $2, $3, (now() at time zone 'Asia/Shanghai')::date,"
        " 's' || $3::bigint,"
        " 'api_standard', 'desktop', 'batch/' || $3::bigint, now(), now() + interval '6 hours' returning id",
        world.tenant_id, world.brand_id, plan,
    )  # fmt: skip
    return batch


async def materialise(world: World, batch: int, size: int = 4) -> list[int]:
    """Every chunk; returns how many each created."""
    created, done = [], False
    chunk = MaterialiseChunk(batch_id=batch, tenant_id=world.tenant_id, size=size)
    while not done:
        answer = await batch_tasks.materialise(world.pool, chunk)
        created.append(answer.created)
        chunk = chunk.model_copy(update={"offset": answer.next_offset, "after": answer.after})
        done = answer.done
    return created


async def with_tasks(world: World, questions: int, platforms: tuple[str, ...] = ("qwen",)) -> int:
    """A running batch with its tasks."""
    batch = await planned(world, questions, platforms)
    await materialise(world, batch)
    return batch


async def tasks_of(world: World, batch: int) -> list[asyncpg.Record]:
    """The batch's business tasks by id, each with `held`: it waits for the end of a pause."""
    return await world.pool.fetch(
        "select *, active_task_id is not distinct from batch_hold(batch_id) as held from monitoring_collect_tasks"
        " where batch_id = $1 order by id",
        batch,
    )


async def rows_of(world: World) -> list[list[asyncpg.Record]]:
    """Every row that an effect on a batch may write."""
    tables = (
        "scheduled_batches",
        "monitoring_collect_tasks",
        "desktop_tasks",
        "outbox",
        "projection_rebuild_queue",
        "audit_events",
    )
    return [await world.pool.fetch(f"select * from {table} order by 1") for table in tables]


async def twice(world: World, effect: Effect, given: BatchRef) -> BatchCounters:
    """Apply the effect; the second time must change nothing."""
    first = await effect(world.pool, given)
    before = await rows_of(world)
    again = await effect(world.pool, given)
    assert again.touched == 0
    assert await rows_of(world) == before
    assert await whole(world)
    return first
