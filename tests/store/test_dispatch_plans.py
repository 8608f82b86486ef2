"""The hot statements use their indexes, and a round costs the same whatever the backlog (1-dispatch §1.4)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from domain.dispatch_settings import Fuses
from domain.ids import new_uuid
from store import (
    accept,
    aging,
    binding,
    dispatch,
    dispatch_write,
    pauses,
    preemption,
    presence,
    promotion,
    quota,
    requests,
)
from store.database import Pool
from tests.support.backlog import Plan, add_backlog, add_history, explain
from tests.support.clicks import accepted
from tests.support.world import Desktop, World

FUSES = Fuses()
PLATFORMS = ["qwen", "doubao"]
SCHEDULED = ["normal_boosted", "normal", "retry"]
LARGE = {"monitoring_collect_tasks", "desktop_tasks", "dispatch_ledger"}


@dataclass(frozen=True, slots=True)
class Scene:
    """A tenant with 20,000 tasks, as many finished execution tasks, and one open request on one desktop."""

    world: World
    client: Desktop
    request_id: Any
    tasks: list[int]


@pytest.fixture
async def scene(pool: Pool) -> Scene:
    """Built once a test."""
    world = await World.create(pool)
    client = await world.client()
    await add_backlog(world, 20_000)
    await add_history(world, client.id)
    await pool.execute(
        "insert into dispatch_ledger (tenant_id, scheduled, high, at)"
        " select $1, 1, 0, now() - make_interval(secs => n) from generate_series(50, 20000) n",
        world.tenant_id,
    )
    await world.plan()
    answer = await accepted(world, question_ids=[(await world.question()).id])
    rows = await pool.fetch("select id from monitoring_collect_tasks where dispatch_lane = 'normal' limit 20")
    await pool.execute("vacuum analyze")
    return Scene(world, client, answer.request_id, [row["id"] for row in rows])


Arguments = Callable[[Scene], tuple[Any, ...]]

STATEMENTS: dict[str, tuple[str, Arguments]] = {
    "read_fleet": (dispatch.SQL["read_fleet"], lambda s: (0, 1)),
    "read_live": (dispatch.SQL["read_live"], lambda s: (0, 1)),
    "read_live_of_an_owner": (dispatch.SQL["read_live"], lambda s: (1, 2)),
    "read_bound": (
        dispatch.SQL["read_bound"],
        lambda s: ([s.client.id], [s.world.workspace_id], PLATFORMS, dispatch.HEADS, []),
    ),
    "find_waiting": (dispatch.SQL["find_waiting"], lambda s: ([s.world.tenant_id], SCHEDULED)),
    "read_heads": (
        dispatch.SQL["read_heads"],
        lambda s: (
            [s.world.tenant_id] * 6,
            [s.world.workspace_id] * 6,
            PLATFORMS * 3,
            [FUSES.platform_concurrency] * 6,
            SCHEDULED * 2,
            dispatch.FEWEST_HEADS,
            s.tasks[:2],
        ),
    ),
    "count_normal": (
        dispatch.SQL["count_normal"],
        lambda s: ([s.world.tenant_id], [s.world.workspace_id], PLATFORMS, 50, ["normal_boosted", "normal"]),
    ),
    "read_leaving": (dispatch.SQL["read_leaving"], lambda s: (None,)),
    "find_unbound_requests": (dispatch.SQL["find_unbound_requests"], lambda s: (0, 1)),
    "write_picks": (
        dispatch_write.SQL["write_picks"],
        lambda s: (
            s.tasks,
            [new_uuid() for _ in s.tasks],
            [s.client.id] * len(s.tasks),
            ["normal"] * len(s.tasks),
            [None] * len(s.tasks),
            [s.world.tenant_id],
            [1],
        ),
    ),
    "share_unchanged_tenants": (dispatch_write.SQL["share_unchanged_tenants"], lambda s: ([s.world.tenant_id], [1])),
    "count_offers": (dispatch_write.SQL["count_offers"], lambda s: (s.tasks,)),
    "prune_ledger": (dispatch_write.SQL["prune_ledger"], lambda s: ()),
    "count_aged": (aging.SQL["count_aged"], lambda s: (0, 1, 300.0, 500, ["normal", "retry"])),
    "promote": (aging.SQL["promote"], lambda s: ([s.world.tenant_id], [50], 300.0, ["normal", "retry"])),
    "raise_boosted": (aging.SQL["raise_boosted"], lambda s: (0, 1, 50)),
    "read_quota": (quota.SQL["read_quota"], lambda s: (0,)),
    "read_permits": (quota.SQL["read_permits"], lambda s: (0, 1)),
    "take_block": (quota.SQL["take_block"], lambda s: (0, 1, 10, 10, 3.0, True)),
    "spend": (quota.SQL["spend"], lambda s: (0, 1, 1, 1)),
    "find_queued_to_drain": (pauses.SQL["find_queued"], lambda s: (None, s.world.tenant_id, None, None, 500)),
    "find_offered_to_drain": (pauses.SQL["find_offered"], lambda s: (None, s.world.tenant_id, None, None, 500)),
    "find_by_key": (
        accept.SQL["find_by_key"],
        lambda s: (new_uuid(), s.world.tenant_id, 1, s.world.brand_id, "call", "key"),
    ),
    "find_same_scope": (accept.SQL["find_same_scope"], lambda s: (s.world.tenant_id, 1, s.world.brand_id, "hash")),
    "lock_business_tasks": (preemption.SQL["lock_business_tasks"], lambda s: (s.tasks, s.client.id)),
    "lock_execution_tasks": (preemption.SQL["lock_execution_tasks"], lambda s: (s.tasks, s.client.id)),
    "abort_queued": (preemption.SQL["abort_queued"], lambda s: (s.client.id, s.request_id)),
    "find_running": (preemption.SQL["find_running"], lambda s: (s.client.id, s.request_id, 9)),
    "adopt_running": (promotion.SQL["adopt_running"], lambda s: (s.tasks, s.request_id, 9)),
    "take_back_queued": (promotion.SQL["take_back_queued"], lambda s: (s.tasks,)),
    "move_to_high": (
        promotion.SQL["move_to_high"],
        lambda s: (s.tasks, s.request_id, 9, s.client.id, [], "desktop_tasks"),
    ),
    "move_from_older": (accept.SQL["move_from_older"], lambda s: (s.tasks, new_uuid())),
    "read_unbound": (binding.SQL["read_unbound"], lambda s: (s.request_id, s.world.tenant_id, PLATFORMS)),
    "queued_of_lost": (presence.SQL["queued_of_lost"], lambda s: (500, 5)),
    "never_ingested": (presence.SQL["never_ingested"], lambda s: (900, 500, None)),
    "request_locks": (requests.SQL["lock_execution_tasks"], lambda s: (s.request_id,)),
}


async def test_no_hot_statement_reads_a_large_table_whole(scene: Scene) -> None:
    plans = {
        name: await explain(scene.world.pool, statement, *arguments(scene))
        for name, (statement, arguments) in STATEMENTS.items()
    }
    # A whole index read with a filter is no better than a whole table.
    whole = {
        name: (plan.seq_scans, plan.discarded)
        for name, plan in plans.items()
        if plan.seq_scans & LARGE or plan.discarded > 1000
    }
    assert whole == {}
    assert "collect_tasks_claim" in plans["read_heads"].indexes
    # Either holds nothing but what is bound; with few rows the planner may like the smaller one.
    assert plans["read_bound"].indexes & {"collect_tasks_claim_bound", "collect_tasks_bound"}
    assert "collect_tasks_ready_age" in plans["find_waiting"].indexes
    for name in ("count_aged", "promote", "raise_boosted"):
        assert "collect_tasks_ready_age" in plans[name].indexes, name
    for name in ("read_fleet", "read_leaving", "read_quota", "prune_ledger"):
        assert "dispatch_ledger_at" in plans[name].indexes, name
    assert "collect_tasks_legacy_leases" in plans["read_live"].indexes


async def test_a_replay_is_found_by_indexes_among_many_requests(scene: Scene) -> None:
    await scene.world.pool.execute(
        "insert into monitoring_collect_requests (id, tenant_id, workspace_id, brand_id, requested_by_user_id,"
        " scope_hash, request_scope, business_date, status, interrupt_generation, ttl_expires_at, hard_deadline,"
        " created_at, idempotency_key) select gen_random_uuid(), $1, $2, $3, n % 50, md5(n::text), '{}',"
        " '2026-04-20', 'succeeded', 1, now(), now(), now() - make_interval(mins => n), n::text"
        " from generate_series(1, 20000) n",
        scene.world.tenant_id, scene.world.workspace_id, scene.world.brand_id,
    )  # fmt: skip
    await scene.world.pool.execute("vacuum analyze monitoring_collect_requests")
    for name in ("find_by_key", "find_same_scope", "find_unbound_requests"):
        statement, arguments = STATEMENTS[name]
        plan = await explain(scene.world.pool, statement, *arguments(scene))
        assert "monitoring_collect_requests" not in plan.seq_scans, name


ROUND = (
    "read_fleet",
    "read_live",
    "read_bound",
    "find_waiting",
    "read_heads",
    "count_normal",
    "write_picks",
    "count_aged",
)


async def cost_of_a_round(scene: Scene) -> int:
    plans: list[Plan] = []
    for name in ROUND:
        statement, arguments = STATEMENTS[name]
        plans.append(await explain(scene.world.pool, statement, *arguments(scene)))
    return sum(plan.pages for plan in plans)


async def test_a_round_touches_as_many_pages_whatever_the_backlog(scene: Scene) -> None:
    before = await cost_of_a_round(scene)
    await add_backlog(scene.world, 60_000)
    assert await cost_of_a_round(scene) <= 1.5 * before
