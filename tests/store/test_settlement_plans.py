"""Settling reads requests and tasks by their keys, however many requests there ever were (1-dispatch §1.5)."""

import pytest

from domain.ids import new_uuid
from store import interrupts, settlement
from store.database import Pool
from tests.support.backlog import add_backlog, add_history, explain
from tests.support.world import World

LARGE = {"monitoring_collect_requests", "monitoring_collect_tasks", "desktop_tasks"}

_OLD_REQUESTS = """
insert into monitoring_collect_requests (id, tenant_id, workspace_id, brand_id, requested_by_user_id, scope_hash,
    request_scope, business_date, status, requested_task_count, interrupt_generation, ttl_expires_at, hard_deadline)
select gen_random_uuid(), $1, $2, $3, 1, md5(n::text), '{}', '2026-04-20', 'succeeded', 1, 1, now(), now()
from generate_series(1, 20000) n
"""


@pytest.fixture
async def world(pool: Pool) -> World:
    """20,000 finished requests, tasks and execution tasks."""
    world = await World.create(pool)
    await add_backlog(world, 20_000)
    await add_history(world, (await world.client()).id)
    await pool.execute(_OLD_REQUESTS, world.tenant_id, world.workspace_id, world.brand_id)
    await pool.execute("vacuum analyze")
    return world


async def test_settling_reads_no_table_whole(world: World) -> None:
    requests, executions = [new_uuid() for _ in range(3)], [new_uuid() for _ in range(100)]
    plans = {
        "lock_concerned_requests": (interrupts.SQL["lock_concerned_requests"], (requests, executions)),
        "lock_requests": (settlement.SQL["lock_requests"], (executions,)),
        "skip_cancelled": (settlement.SQL["skip_cancelled"], (list(range(100)),)),
    }
    for name, (statement, arguments) in plans.items():
        plan = await explain(world.pool, statement, *arguments)
        assert not plan.seq_scans & LARGE, name
        assert plan.discarded <= 1000, name
