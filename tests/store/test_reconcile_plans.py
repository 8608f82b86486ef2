"""What reconcile asks every five minutes is answered by indexes, whatever waits and whatever is finished (§1.8)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from domain.lanes import Lane
from store import presence, reconcile
from store.database import Pool
from tests.support.backlog import add_backlog, add_history, explain
from tests.support.clicks import accepted
from tests.support.world import Lease, World

LARGE = {
    "monitoring_collect_tasks",
    "monitoring_collect_requests",
    "scheduled_batches",
    "desktop_tasks",
    "desktop_task_attempts",
    "outbox",
    "audit_events",
}


@dataclass(frozen=True, slots=True)
class Scene:
    """8,000 of everything wait or are over, and a little of each is open."""

    world: World
    request_id: UUID
    batch: int
    leases: list[Lease]
    tasks: list[int]

    @property
    def executions(self) -> list[UUID]:
        return [lease.task_id for lease in self.leases]


_PAST = """
insert into monitoring_collect_requests (id, tenant_id, workspace_id, brand_id, requested_by_user_id, scope_hash,
    request_scope, business_date, status, interrupt_generation, ttl_expires_at, hard_deadline, created_at)
select gen_random_uuid(), $1, $2, $3, 1, n::text, '{}', '2026-04-20', 'succeeded', 1, now(), now(),
    now() - interval '1 day'
from generate_series(1, 8000) n
"""
_ENDED = """
insert into desktop_task_attempts (id, tenant_id, task_id, monitor_task_id, client_id, attempt, token_hash, ended_at)
select gen_random_uuid(), tenant_id, id, monitor_task_id, target_client_id, 1, '', now() from desktop_tasks
"""
_DELIVERED = """
insert into outbox (channel, kind, key, payload, created_at, delivered_at)
select 'amqp', 'task_control', 'k', '{}', now() - interval '1 hour', now() from generate_series(1, 8000)
"""
_BATCHES = """
insert into scheduled_batches (tenant_id, brand_id, plan_id, business_date, slot, run_mode, collector_type, workflow_id,
    status, scheduled_for, cut_off_at)
select $1, $2, $3, '2026-04-20', 's' || n, 'api_standard', 'desktop', 'w' || n, 'completed', now(), now()
from generate_series(1, 5000) n
"""


@pytest.fixture
async def scene(pool: Pool) -> Scene:
    """Built once a test."""
    world = await World.create(pool)
    client = await world.client()
    await add_backlog(world, 8_000)
    await add_history(world, client.id)
    plan = await world.plan()
    await pool.execute(_PAST, world.tenant_id, world.workspace_id, world.brand_id)
    await pool.execute(_ENDED)
    await pool.execute(_DELIVERED)
    await pool.execute(_BATCHES, world.tenant_id, world.brand_id, plan)
    answer = await accepted(world, question_ids=[(await world.question()).id])
    batch = await world.batch(expected=20)
    leases = [await world.leased(client, status="in_progress", batch_id=batch) for _ in range(20)]
    strays = [await world.business_task(lane=Lane.HIGH) for _ in range(5)]
    await pool.execute("vacuum analyze")
    return Scene(world, answer.request_id, batch, leases, [*strays, *(lease.business_id for lease in leases)])


Arguments = Callable[[Scene], tuple[Any, ...]]

STATEMENTS: dict[str, Arguments] = {
    "find_held_by_nothing": lambda s: (60, 200),
    "lock_tasks": lambda s: (s.tasks,),
    "free_tasks": lambda s: (s.tasks,),
    "find_legacy_zombies": lambda s: (900, 200),
    "clear_zombies": lambda s: (s.tasks,),
    "find_blocked": lambda s: (60, 200),
    "read_blocked": lambda s: (s.executions,),
    "adopt_executions": lambda s: (s.executions,),
    "find_orphans": lambda s: (200,),
    "report_orphans": lambda s: (s.executions,),
    "find_strays": lambda s: (200,),
    "return_strays": lambda s: (s.tasks,),
    "count_returned": lambda s: ([s.request_id],),
    "find_stale_interrupts": lambda s: (200,),
    "find_miscounted_requests": lambda s: (None, 200),
    "lock_tasks_of_requests": lambda s: ([s.request_id],),
    "find_miscounted_batches": lambda s: (None, 200),
    "lock_batches": lambda s: ([s.batch],),
    "recount_batches": lambda s: ([s.batch],),
    "count_undelivered": lambda s: (60,),
    "record_fixes": lambda s: ("reconcile.x", [s.world.tenant_id], ["task 1"], [{}]),
    "find_open_requests": lambda s: (UUID(int=0), 200),
    "is_request_open": lambda s: (s.request_id,),
    "find_open_batches": lambda s: (0, 200),
    "is_batch_open": lambda s: (s.batch,),
}
ENDS: dict[str, Arguments] = {
    "resolvable_unknown": lambda s: (None, 200, 120),
    "never_ingested": lambda s: (900, 200, None),
    "expired_queued": lambda s: (200,),
    "expired_running": lambda s: (200,),
}


async def test_no_statement_of_reconcile_reads_a_large_table_whole(scene: Scene) -> None:
    """Nor a whole index with a filter, which is no better."""
    given = {name: (reconcile.SQL[name], arguments) for name, arguments in STATEMENTS.items()}
    given |= {name: (presence.SQL[name], arguments) for name, arguments in ENDS.items()}
    plans = {
        name: await explain(scene.world.pool, statement, *arguments(scene))
        for name, (statement, arguments) in given.items()
    }
    whole = {
        name: (plan.seq_scans & LARGE, plan.discarded)
        for name, plan in plans.items()
        if plan.seq_scans & LARGE or plan.discarded > 1000
    }
    assert whole == {}
    assert "collect_tasks_held" in plans["find_held_by_nothing"].indexes


def test_every_statement_of_reconcile_is_explained() -> None:
    assert set(STATEMENTS) == set(reconcile.SQL)
