"""A large backlog in a few statements, and what a statement's plan reads."""

import json
from dataclasses import dataclass
from typing import Any, Final

from store.database import Pool, transaction
from tests.support.world import World

_QUESTIONS = """
with made as (
    insert into questions (tenant_id, brand_id, text)
    select $1, $2, 'backlog ' || $3 || ' ' || n from generate_series(1, $4) n returning id, text
), versions as (
    insert into question_versions (tenant_id, question_id, text, text_hash)
    select $1, id, text, text from made returning id, question_id
)
insert into monitoring_collect_tasks (tenant_id, workspace_id, brand_id, question_id, question_version_id,
    ai_platform_id, collector_type, run_mode, business_date, trigger_source, ingest_shard_key, enqueued_at)
select $1, $5, $2, v.question_id, v.id, p, 'desktop', 'api_standard', '2026-04-20', 'automatic', 'shard',
    now() - make_interval(secs => v.id)
from versions v cross join unnest($6::text[]) p
"""

_HISTORY = """
insert into desktop_tasks (id, tenant_id, monitor_task_id, target_client_id, ai_platform_id, priority, lane, source,
    status, created_at, finished_at)
select gen_random_uuid(), t.tenant_id, t.id, $2, t.ai_platform_id, 100, 'normal', 'daily_schedule', 'succeeded',
    now() - interval '1 day', now() - interval '1 day'
from monitoring_collect_tasks t where t.tenant_id = $1
"""


async def load(pool: Pool, statement: str, *arguments: Any) -> None:
    """Run a large statement for as long as a busy machine needs; the pool's own are cut off after half a minute."""
    async with pool.acquire() as connection:
        await connection.execute("set statement_timeout = 0")
        await connection.execute(statement, *arguments, timeout=600)


async def add_backlog(world: World, tasks: int, platforms: tuple[str, ...] = ("qwen", "doubao")) -> None:
    """`tasks` pending normal tasks, spread over the platforms; statistics are fresh afterwards."""
    label = await world.pool.fetchval("select count(*)::text from monitoring_collect_tasks")
    each = tasks // len(platforms)
    await load(
        world.pool, _QUESTIONS, world.tenant_id, world.brand_id, label, each, world.workspace_id, list(platforms)
    )
    await load(
        world.pool,
        "update questions q set current_version_id = v.id from question_versions v"
        " where v.question_id = q.id and q.current_version_id is null",
    )
    await load(world.pool, "vacuum analyze monitoring_collect_tasks")


async def add_history(world: World, client_id: Any) -> None:
    """A finished execution task for every business task."""
    await load(world.pool, _HISTORY, world.tenant_id, client_id)
    await load(world.pool, "vacuum analyze desktop_tasks")


async def add_attempts(world: World) -> None:
    """The attempt of every finished execution task."""
    await load(
        world.pool,
        "insert into desktop_task_attempts (id, tenant_id, task_id, monitor_task_id, client_id, attempt, token_hash,"
        " leased_at, ended_at, outcome)"
        " select gen_random_uuid(), tenant_id, id, monitor_task_id, target_client_id, 1, '', created_at, created_at,"
        " 'succeeded' from desktop_tasks where status = 'succeeded'",
    )
    await load(world.pool, "vacuum analyze desktop_task_attempts")


async def add_requests(world: World, requests: int) -> None:
    """So many finished requests of 50 users, one a minute, the newest now."""
    await load(
        world.pool,
        "insert into monitoring_collect_requests (id, tenant_id, workspace_id, brand_id, requested_by_user_id,"
        " scope_hash, request_scope, business_date, status, interrupt_generation, ttl_expires_at, hard_deadline,"
        " created_at, idempotency_key) select gen_random_uuid(), $1, $2, $3, n % 50, md5(n::text), '{}',"
        " '2026-04-20', 'succeeded', 1, now(), now(), now() - make_interval(mins => n), n::text"
        " from generate_series(1, $4) n",
        world.tenant_id, world.workspace_id, world.brand_id, requests,
    )  # fmt: skip
    await load(world.pool, "vacuum analyze monitoring_collect_requests")


REMOVED: Final = ("Rows Removed by Filter", "Rows Removed by Join Filter")


@dataclass(frozen=True, slots=True)
class Plan:
    """What EXPLAIN ANALYZE said: tables read whole, indexes used, rows read in vain, pages touched."""

    seq_scans: frozenset[str]
    indexes: frozenset[str]
    discarded: int
    pages: int


async def explain(pool: Pool, statement: str, *arguments: Any, run: bool = True) -> Plan:
    """Run the statement and roll it back; without `run` it is only planned, and nothing is counted."""
    options = "analyze, buffers, format json" if run else "format json"
    try:
        async with transaction(pool) as connection:
            found = await connection.fetchval(f"explain ({options}) {statement}", *arguments)
            raise _RollBack
    except _RollBack:
        [top] = json.loads(found) if isinstance(found, str) else found
    nodes = list(_nodes(top["Plan"]))
    return Plan(
        seq_scans=frozenset(node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"),
        indexes=frozenset(node["Index Name"] for node in nodes if "Index Name" in node),
        discarded=sum(node.get(kind, 0) * node["Actual Loops"] for node in nodes for kind in REMOVED) if run else 0,
        pages=top["Plan"]["Shared Hit Blocks"] + top["Plan"]["Shared Read Blocks"] if run else 0,
    )


class _RollBack(Exception):
    """Ends the transaction without keeping what it did."""


def _nodes(node: dict[str, Any]) -> Any:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)
