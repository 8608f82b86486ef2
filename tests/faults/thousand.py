"""A thousand results of every kind, and everything that they leave in the database in a form that runs can compare."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from domain.ids import shard_key
from store.database import Pool
from tests.support.results import chat_answer, encode, failure, result
from tests.support.world import BUSINESS_DATE, Desktop, Lease, World

PLATFORMS = ("qwen", "kimi")

SEED = """
with made as (
    insert into questions (tenant_id, brand_id, text)
    select $1, $2, format('question %s of %s', lpad(n::text, 4, '0'), $3::text) from generate_series(1, $4) n
    returning id, text
), versions as (
    insert into question_versions (tenant_id, question_id, text, text_hash) select $1, id, text, md5(text) from made
    returning id, question_id
), tasks as (
    insert into monitoring_collect_tasks (tenant_id, workspace_id, brand_id, question_id, question_version_id,
        ai_platform_id, collector_type, run_mode, business_date, trigger_source, ingest_shard_key, batch_id,
        active_task_id)
    select $1, $5, $2, v.question_id, v.id, p, 'desktop', 'api_standard', $6, 'automatic', $7, $8, gen_random_uuid()
    from versions v cross join unnest($9::text[]) p
    returning *
), executions as (
    insert into desktop_tasks (id, tenant_id, monitor_task_id, target_client_id, ai_platform_id, priority, lane, source,
        scheduler_group_key, enqueued_at, attempt, attempt_id, lease_token_hash, pushed_at, status, lease_expires_at,
        started_at, phase)
    select active_task_id, tenant_id, id, $10, ai_platform_id, 100, 'normal', 'daily_schedule', 'qid:' || question_id,
        now(), 2, gen_random_uuid(), '', now(), 'in_progress', now() + interval '1 hour', now(), 'PREPARING'
    from tasks
    returning id, tenant_id, monitor_task_id, attempt_id
)
insert into desktop_task_attempts (id, tenant_id, task_id, monitor_task_id, client_id, attempt, token_hash, started_at,
    leased_at, ended_at, outcome)
select attempt_id, tenant_id, id, monitor_task_id, $10, 2, ''::bytea, now(), now(), null::timestamptz, null
from executions
union all
select gen_random_uuid(), tenant_id, id, monitor_task_id, $10, 1, ''::bytea, now() - interval '1 hour',
    now() - interval '1 hour', now() - interval '30 minutes', 'revoked'
from executions where monitor_task_id % 20 = 0
"""

ATTEMPTS = """
select a.id, a.task_id, a.monitor_task_id, count(*) over (partition by t.id) as attempts, q.text,
    t.ai_platform_id, t.ingest_shard_key
from desktop_task_attempts a
join monitoring_collect_tasks t on t.id = a.monitor_task_id
join questions q on q.id = t.question_id
where t.tenant_id = $1
order by q.text, t.ai_platform_id, a.attempt
"""

# Columns whose values are of one run alone: keys, times, and what hangs on them.
OWN = frozenset({
    "id", "tenant_id", "workspace_id", "token_hash", "lease_token_hash", "raw_answer_key", "scheduler_group_key",
    "ingest_shard_key", "workflow_id", "slot", "scope_hash",
})  # fmt: skip
# Tables of effects on their way, and of how work was paced: not results.
PASSING = frozenset({"outbox", "audit_events", "projection_rebuild_queue", "projection_rebuilds", "desktop_clients"})


# What an id stands for, by column and value.
Labels = dict[tuple[str, Any], str]


@dataclass(frozen=True, slots=True)
class Sent:
    """One message on its way to its shard."""

    attempt_id: str
    shard_key: str
    body: bytes


async def make_world(pool: Pool, name: str, *, questions: int = 250) -> tuple[World, Desktop]:
    """A tenant with two brands, `questions` of each asked on two platforms, all under way; some a second time."""
    world = await World.create(pool, name)
    client = await world.client()
    batch = await world.batch(expected=questions * 2 * len(PLATFORMS))
    second: int = await pool.fetchval(
        "insert into brands (tenant_id, workspace_id, name) values ($1, $2, 'Globex') returning id",
        world.tenant_id, world.workspace_id,
    )  # fmt: skip
    for brand, label in ((world.brand_id, "first"), (second, "second")):
        await pool.execute(
            SEED, world.tenant_id, brand, label, questions, world.workspace_id, BUSINESS_DATE,
            shard_key(world.tenant_id, brand, BUSINESS_DATE), batch, list(PLATFORMS), client.id,
        )  # fmt: skip
    await pool.execute(
        "update questions q set current_version_id = v.id from question_versions v where v.question_id = q.id"
    )
    return world, client


async def make_results(world: World, client: Desktop, rng: random.Random) -> list[Sent]:
    """One result an attempt, in the order of the questions; some twice."""
    rows = await world.pool.fetch(ATTEMPTS, world.tenant_id)
    sent = []
    for number, row in enumerate(rows):
        lease = Lease(row["task_id"], row["monitor_task_id"], row["id"], "")
        # A failure beside a success of another attempt is no news, and leaves no trace to wait for.
        kind = 1.0 if row["attempts"] > 1 else rng.random()
        message = _message(world, client, lease, number, kind, rng)
        sent += [Sent(message.attempt_id, row["ingest_shard_key"], encode(message))] * rng.choice((1, 1, 1, 2))
    return sent


def _message(world: World, client: Desktop, lease: Lease, number: int, kind: float, rng: random.Random) -> Any:
    if kind < 0.06:
        return failure(world, lease, client, f"page {number} did not load")
    if kind < 0.1:
        return result(world, lease, client, raw='{"error": {"code": "rate_limit_exceeded", "message": "slow down"}}')
    if kind < 0.13:
        return result(world, lease, client, raw=f"\ufffd{number} is not an answer {{")
    urls = [f"https://example.com/{number}/{each}" for each in range(rng.randrange(5))]
    text = rng.choice(
        ("Acme leads, 用Globex的人也多.", "Globex first, then Acme.", "Nobody knows.", "1. Globex\n2. Acme")
    )
    return result(world, lease, client, raw=chat_answer(f"{text} ({number})", urls=urls))


async def picture(pool: Pool, tenant_id: int) -> dict[str, list[str]]:
    """Every row of the tenant in every table, without what is of one run alone; ids as what they stand for."""
    labels = await _labels(pool, tenant_id)
    tables = await pool.fetch(
        "select c.table_name as name,"
        " array_agg(c.column_name::text) filter (where c.data_type like 'timestamp%') as times"
        " from information_schema.columns c join information_schema.tables t using (table_schema, table_name)"
        " where c.table_schema = 'public' and t.table_type = 'BASE TABLE' group by 1"
        " having bool_or(c.column_name = 'tenant_id')"
    )
    seen = {}
    for table in tables:
        if table["name"] not in PASSING:
            hidden = OWN | set(table["times"] or ())
            rows = await pool.fetch(f"select * from {table['name']} where tenant_id = $1", tenant_id)
            seen[table["name"]] = sorted(str(_plain(dict(row), hidden, labels)) for row in rows)
    return seen


def _plain(row: dict[str, Any], hidden: frozenset[str], labels: Labels) -> dict[str, Any]:
    return {name: _label(name, value, labels) for name, value in row.items() if name not in hidden}


def _label(column: str, value: Any, labels: Labels) -> Any:
    if isinstance(value, UUID | int):
        return labels.get((column, value), "some id" if isinstance(value, UUID) else value)
    return value


async def _labels(pool: Pool, tenant_id: int) -> Labels:
    """What an id stands for, by column and value."""
    labels: Labels = {}
    for columns, query in (
        (("brand_id",), "select id, name from brands where tenant_id = $1"),
        (("question_id",), "select id, text from questions where tenant_id = $1"),
        (("question_version_id", "current_version_id"), "select id, text from question_versions where tenant_id = $1"),
        (("batch_id", "plan_id"), "select id, 'the batch' from scheduled_batches where tenant_id = $1"),
        (("plan_id",), "select id, 'the plan' from monitoring_plans where tenant_id = $1"),
        (("monitor_task_id",), "select t.id, q.text || t.ai_platform_id from monitoring_collect_tasks t"
            " join questions q on q.id = t.question_id where t.tenant_id = $1"),
        (("run_id",), "select r.id, q.text || r.ai_platform_id from question_monitor_runs r"
            " join questions q on q.id = r.question_id where r.tenant_id = $1"),
        (("attempt_id",), "select a.id, q.text || t.ai_platform_id || a.attempt from desktop_task_attempts a"
            " join monitoring_collect_tasks t on t.id = a.monitor_task_id join questions q on q.id = t.question_id"
            " where a.tenant_id = $1"),
    ):  # fmt: skip
        for row in await pool.fetch(query, tenant_id):
            labels |= {(column, row[0]): row[1] for column in columns}
    return labels


def differences(one: dict[str, list[str]], other: dict[str, list[str]]) -> dict[str, Sequence[str]]:
    """Rows that only one of the two has, by table: a few of each."""
    return {
        table: sorted(set(one[table]).symmetric_difference(other[table]))[:6] or ["another number of equal rows"]
        for table in one
        if one[table] != other[table]
    }
