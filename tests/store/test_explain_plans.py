"""Explaining, listing and measuring read ranges of an index, whatever the backlog (1-dispatch §1.4, 6-operations)."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from store.database import Pool
from store.statements import statements
from tests.support.backlog import add_backlog, add_history, explain
from tests.support.world import World

LARGE = {"monitoring_collect_tasks", "desktop_tasks", "desktop_task_attempts"}


@dataclass(frozen=True, slots=True)
class Scene:
    """A tenant with 10,000 tasks, a fifth of them waiting; `task`: the eighth of its platform."""

    world: World
    task: dict[str, Any]
    client: UUID

    def before(self, above: list[str], lane: str, client: UUID | None = None) -> tuple[Any, ...]:
        """Arguments of count_before."""
        task = self.task
        place = (task["tenant_id"], task["workspace_id"], task["ai_platform_id"], task["id"])
        return (*place, above, lane, task["dispatch_priority"], task["enqueued_at"], 500, client)


@pytest.fixture
async def scene(pool: Pool) -> Scene:
    world = await World.create(pool)
    client = await world.client()
    await add_backlog(world, 10_000)
    await add_history(world, client.id)
    await pool.execute(
        "insert into desktop_task_attempts (id, tenant_id, task_id, monitor_task_id, client_id, attempt, token_hash,"
        " ended_at, outcome) select gen_random_uuid(), tenant_id, id, monitor_task_id, target_client_id, 1, 'x',"
        " now() - interval '1 day', 'succeeded' from desktop_tasks"
    )
    await pool.execute("update monitoring_collect_tasks set status = 'completed' where id % 5 <> 0")
    task = await pool.fetchrow(
        "select * from monitoring_collect_tasks where ai_platform_id = 'qwen' and status = 'pending'"
        " order by enqueued_at, id offset 7 limit 1"
    )
    assert task is not None
    await pool.execute("vacuum analyze")
    return Scene(world, dict(task), client.id)


async def test_explaining_listing_and_measuring_read_by_index(scene: Scene) -> None:
    await every_statement_by_index(scene)
    await position_from_the_head(scene)


async def every_statement_by_index(scene: Scene) -> None:
    cases: list[tuple[str, str, tuple[Any, ...]]] = [
        ("explain", "read_task", (scene.task["id"], scene.world.tenant_id, [scene.world.workspace_id])),
        ("explain", "read_attempts", (scene.task["id"], 5)),
        ("explain", "count_before", scene.before([], "high", scene.client)),
        ("explain", "recent_rate", (scene.world.tenant_id, "qwen")),
        ("gauges", "read_waiting", ()),
        ("gauges", "read_normal_age", (200,)),
        ("gauges", "read_high", ()),
        ("gauges", "read_lags", ()),
        ("gauges", "read_owners", ()),
        ("gauges", "read_fleet", ()),
        ("gauges", "read_safe_points", ()),
        ("fleet", "list_newest", (None, None, None, None, None, None, True, False, 51)),
    ]
    for file, name, arguments in cases:
        plan = await explain(scene.world.pool, statements(file)[name], *arguments)
        assert not plan.seq_scans & LARGE, (name, plan)


async def position_from_the_head(scene: Scene) -> None:
    """Counted from the head of the lane, and no further than the limit."""
    statement, arguments = statements("explain")["count_before"], scene.before(["high", "normal_boosted"], "normal")
    assert await scene.world.pool.fetchval(statement, *arguments) == 7
    plan = await explain(scene.world.pool, statement, *arguments)
    assert not plan.seq_scans & LARGE
    assert (plan.discarded <= 20, plan.pages < 100) == (True, True), plan
    boosted = scene.before(["high", "normal_boosted", "normal"], "retry")
    assert await scene.world.pool.fetchval(statement, *boosted) == 500
