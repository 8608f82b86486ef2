"""What an operator looks at reads a page of the fleet, or the fleet once; never the history of its work."""

import re
from collections.abc import Iterable
from typing import Any

import pytest

from domain.dispatch_settings import DispatchSettings
from domain.ids import new_uuid
from store.database import Pool, transaction
from store.fleet import read_totals
from store.statements import statements
from tests.support.backlog import add_attempts, add_backlog, add_history, explain, load
from tests.support.world import World

DESKTOPS = 10_000
LARGE = {"monitoring_collect_tasks", "desktop_tasks", "desktop_task_attempts", "desktop_client_events"}

# Nine of ten in one tenant, a tenth of all revoked, half of the others online, each with an event or two.
_FLEET = """
with made as (
    insert into desktop_clients (id, tenant_id, workspace_id, user_id, name, token_hash, online, connection_epoch,
        last_heartbeat_at, revoked_at, version, hub, platform_sessions, event_count)
    select gen_random_uuid(), case when n % 10 = 0 then $2::bigint else $1::bigint end,
        case when n % 10 = 0 then $4::bigint else $3::bigint end, 1, 'desk ' || n, sha256(n::text::bytea), n % 2 = 0, 1,
        now() - make_interval(secs => case when n % 2 = 0 then 5 else n end), case when n % 11 = 0 then now() end,
        'v' || n % 60, 'hub-' || n % 3, '{"qwen": "healthy", "kimi": "login_required"}', 2
    from generate_series(1, $5) n
    returning id
)
insert into desktop_client_events (client_id, slot, number, kind, epoch)
select id, s, s, 'connected', 1 from made cross join generate_series(1, 2) s
"""

BEATS = 300
_RUNNING = """
with clients as (
    select id, row_number() over () as n from desktop_clients where online and revoked_at is null limit $1
), tasks as (
    select id, tenant_id, row_number() over () as n from monitoring_collect_tasks limit $1
)
insert into desktop_tasks (id, tenant_id, monitor_task_id, target_client_id, ai_platform_id, priority, lane, source,
    status, lease_token_hash, lease_expires_at, attempt, attempt_id)
select gen_random_uuid(), t.tenant_id, t.id, c.id, 'qwen', 100, 'normal', 'daily_schedule', 'in_progress', 'x',
    now() + interval '10 s', 1, gen_random_uuid()
from clients c join tasks t on t.n = c.n
returning id, target_client_id, attempt_id
"""


@pytest.fixture
async def world(pool: Pool) -> World:
    world, other = await World.create(pool), await World.create(pool, "Other")
    worker = await world.client()
    await load(
        pool, _FLEET, world.tenant_id, other.tenant_id, world.workspace_id, other.workspace_id, DESKTOPS
    )  # fmt: skip
    await add_backlog(world, 4_000)
    await add_history(world, worker.id)
    await add_attempts(world)
    await pool.execute("vacuum analyze")
    return world


async def test_ten_thousand_desktops_are_looked_at_by_index(world: World) -> None:
    """One scene for all: it takes longer to build than to look at."""
    await a_page_reads_its_own_desktops(world)
    await a_measure_and_the_totals_read_the_fleet_and_not_its_past(world)
    await one_desktop_is_found_by_its_id(world)
    await beats_are_folded_without_comparing_each_with_each(world)
    await room_is_counted_no_further_than_the_limit(world)
    await the_sweeps_read_what_they_change(world)


async def a_page_reads_its_own_desktops(world: World) -> None:
    for tenant in (None, world.tenant_id):
        # No revoked ones, and after a row in the middle: still by the index of the ids.
        arguments = (tenant, [world.workspace_id], new_uuid(), None, None, None, False, False, 51)
        plan = await explain(world.pool, statements("fleet")["list_newest"], *arguments)
        assert not plan.seq_scans & {*LARGE, "desktop_clients"}, plan
        assert plan.pages < 2_000, plan


async def a_measure_and_the_totals_read_the_fleet_and_not_its_past(world: World) -> None:
    for sort in ("abort_rate", "queue_depth", "silence"):
        arguments = (None, None, None, None, None, None, False, False, sort, None, 51)
        plan = await explain(world.pool, statements("fleet")["list_by"], *arguments)
        assert not plan.seq_scans & LARGE, (sort, plan)
    for name, given in (("count_fleet", (None, 2, 4)), ("read_abort_rates", ())):
        plan = await explain(world.pool, statements("fleet")[name], *given)
        assert not plan.seq_scans & LARGE, (name, plan)
    async with world.pool.acquire() as connection:
        found = await read_totals(connection, DispatchSettings(), None)
    assert sum(found.states.values()) == DESKTOPS + 1
    assert len(found.versions) == 21


async def one_desktop_is_found_by_its_id(world: World) -> None:
    client = await world.pool.fetchval("select id from desktop_clients where name = 'desk 8'")
    cases: list[tuple[str, str, tuple[Any, ...]]] = [
        ("fleet", "read_client", (client, world.tenant_id, [world.workspace_id])),
        ("fleet", "read_tasks", (client, 200)),
        ("fleet", "read_last_error", (client,)),
        ("client_history", "read_history", (client, 100)),
        ("clients", "lock_client", (client, world.tenant_id, None)),
        ("clients", "unended_of_client", (world.tenant_id, client)),
    ]
    for file, name, given in cases:
        plan = await explain(world.pool, statements(file)[name], *given)
        assert not plan.seq_scans & {*LARGE, "desktop_clients"}, (name, plan)
        assert plan.pages < 1_500, (name, plan)


async def beats_are_folded_without_comparing_each_with_each(world: World) -> None:
    """Also by the plan that the server keeps once it has seen the statement five times, knowing no numbers of rows."""
    rows = await world.pool.fetch(_RUNNING, BEATS)
    each = [_array(row[name] for row in rows) for name in ("target_client_id", "id", "attempt_id")]
    filled = [
        f"array_fill({value}, array[{BEATS}])" for value in ("1::bigint", "'{}'::jsonb", "true", "'WAITING'::text")
    ]
    given = [each[0], *filled[:3], *each, filled[3], "120", "'x'", *[f"array_fill(1, array[{BEATS}])"] * 2]
    types = "uuid[], bigint[], jsonb[], bool[], uuid[], uuid[], uuid[], text[], int, text, int[], int[]"
    async with transaction(world.pool) as connection:
        await connection.execute("set local plan_cache_mode = force_generic_plan")
        await connection.execute(f"prepare beats ({types}) as {statements('presence')['record_heartbeats']}")
        lines = await connection.fetch(f"explain (analyze, costs off) execute beats ({', '.join(given)})")
        extended = await connection.fetchval(
            "select count(*) from desktop_tasks where lease_expires_at > now() + interval '110 s'"
        )
    text = "\n".join(line[0] for line in lines)
    assert extended == BEATS
    assert max(int(found) for found in re.findall(r"Rows Removed by [A-Za-z ]+: (\d+)", text)) < BEATS * 10, text


def _array(values: Iterable[Any]) -> str:
    return "'{" + ",".join(map(str, values)) + "}'"


async def room_is_counted_no_further_than_the_limit(world: World) -> None:
    for tenant, limit in ((world.tenant_id, 100), (world.tenant_id + 1, 10_000)):
        plan = await explain(world.pool, statements("clients")["room_to_register"], tenant, limit, new_uuid())
        assert (plan.seq_scans & LARGE, plan.pages < 700) == (frozenset(), True), plan


async def the_sweeps_read_what_they_change(world: World) -> None:
    """Once the silent are marked, the next sweep finds the few that came since by their index."""
    await world.pool.execute(
        "update desktop_clients set lost_at = now() where last_heartbeat_at < now() - interval '30 s'"
    )
    await world.pool.execute("vacuum analyze desktop_clients, desktop_tasks")
    cases: list[tuple[str, tuple[Any, ...], str]] = [
        ("mark_lost", (30, 500), "desktop_clients_silent"),
        ("forget_histories", (500,), "desktop_clients_over"),
        ("resolvable_unknown", (None, 500, 120), "desktop_tasks_unknown"),
        ("unhinted", (10, 500), "desktop_tasks_unleased"),
    ]
    for name, given, index in cases:
        plan = await explain(world.pool, statements("presence")[name], *given)
        assert (index in plan.indexes, plan.discarded < 100) == (True, True), (name, plan)
