"""Why a task is where it is, from the reading that the coordinator itself decides on (1-dispatch §1.3).

Changes nothing and holds no lock: a round may go on meanwhile, so this is the answer of a moment.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Final
from uuid import UUID

import asyncpg

from domain.budgets import MINUTES, Refusal
from domain.dispatch_settings import DispatchSettings
from domain.errors import NotFound
from domain.explain import Explanation, explain
from domain.lanes import MONITOR_LANES, Lane
from domain.rounds import EVERYBODY, Candidate
from domain.task_state import BATCH_PAUSED, PAUSES, TaskFacts, TaskState, sentence_of, state_of
from store.catalog import Reach
from store.database import Connection, Pool
from store.dispatch import Reading, count_normal, read_round
from store.quota import promised_to_others
from store.statements import statements
from store.windows import frees_in

SQL = statements("explain")

# Positions are counted up to here; further back nobody needs the number.
MOST_POSITIONS: Final = 10_000
ATTEMPTS_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class HeldBy:
    """The desktop that has the task. `since`: when it was given to it; times by the database's clock."""

    client_id: UUID
    client_name: str
    execution_id: UUID | None
    since: datetime
    pushed_at: datetime | None
    lease_expires_at: datetime | None
    started_at: datetime | None
    phase: str | None
    # The collect-now it was asked to stop for.
    giving_way_to: UUID | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One lease of the task and how it ended."""

    attempt: int
    client_id: UUID
    leased_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    outcome: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class TaskExplanation:
    """A business task, where it is, and what would move it on.

    `reason`: a stable code: what keeps a waiting task (domain/explain.py), else the state. `waiting`: the planner's
    verdict on one that waits; its `position` stops counting at MOST_POSITIONS. `per_minute`: how many tasks the
    tenant's desktops ended on the platform lately, what the estimate is made from.
    """

    task_id: int
    tenant_id: int
    platform: str
    business_date: date
    lane: str
    priority: int
    path: str
    state: TaskState
    reason: str
    sentence: str
    enqueued_at: datetime
    waited_seconds: float
    dispatch_after: datetime | None
    collect_request_id: UUID | None
    batch_id: int | None
    attempts_counted: int
    attempts_allowed: int
    preemptions: int
    waiting: Explanation | None
    per_minute: float | None
    held: HeldBy | None
    finished_at: datetime | None
    last_error: str | None
    skip_reason: str | None
    attempts: Sequence[Attempt]


async def explain_task(pool: Pool, task_id: int, reach: Reach | None) -> TaskExplanation:
    """Explain one business task. NotFound for one that is missing or out of reach; `reach` None: an operator's."""
    async with pool.acquire() as connection, connection.transaction(readonly=True):
        tenant, workspaces = (None, None) if reach is None else (reach.tenant_id, list(reach.workspace_ids))
        row = await connection.fetchrow(SQL["read_task"], task_id, tenant, workspaces)
        if row is None:
            raise NotFound(f"no task {task_id}")
        facts = _facts(row)
        state = state_of(facts)
        verdict, rate = await _judge(connection, row) if state is TaskState.WAITING else (None, None)
        if verdict is not None and verdict.reason in PAUSES:
            state = TaskState.PAUSED
        attempts = await connection.fetch(SQL["read_attempts"], task_id, ATTEMPTS_SHOWN)
    return _explanation(row, facts, state, verdict, rate, attempts)


def _facts(row: asyncpg.Record) -> TaskFacts:
    legacy = row["status"] == "leased"
    return TaskFacts(
        status=row["status"],
        desktop=row["collector_type"] == "desktop",
        batch_paused=row["batch_paused"],
        held=row["active_task_id"] is not None,
        execution_status=row["execution_status"],
        result_received=row["result_received_at"] is not None,
        leased=bool(row["leased"]),
        interrupt_requested=row["interrupt_requested"] or (legacy and row["legacy_interrupt_request_id"] is not None),
        started=row["legacy_started_at"] is not None,
        offered=row["offered"],
        due=row["due"],
    )


async def _judge(connection: Connection, row: asyncpg.Record) -> tuple[Explanation, float | None]:
    """The planner's verdict on this task with its place, and the rate that the estimate is made from."""
    reading = await _as_its_owner(connection, await read_round(connection), row["tenant_id"])
    candidates = _with(reading, _candidate(row))
    state = replace(reading.state, normal_waiting=await _normal_waiting(connection, reading, row["tenant_id"]))
    position = await _position(connection, row)
    rate: float | None = await connection.fetchval(SQL["recent_rate"], row["tenant_id"], row["ai_platform_id"])
    verdict = explain(state, candidates, row["id"], position=position, per_minute=rate)
    settings = None if row["dispatch_lane"] == Lane.HIGH else reading.settings
    frees = await _frees_in(connection, row["tenant_id"], verdict, settings)
    if frees is not None:
        verdict = explain(state, candidates, row["id"], position=position, per_minute=rate, frees_in=frees)
    return verdict, rate


async def _as_its_owner(connection: Connection, reading: Reading, tenant_id: int) -> Reading:
    """Of several coordinators the tenant's may dispatch only what the window leaves beside the others' permits."""
    shards = reading.settings.coordinator_shards
    if shards == 1:
        return reading
    others = await promised_to_others(connection, tenant_id % shards)
    state = reading.state
    state = replace(
        state,
        cluster_minute=state.cluster_minute + others.total,
        scheduled_minute=state.scheduled_minute + others.scheduled,
    )
    return replace(reading, state=state)


def _candidate(row: asyncpg.Record) -> Candidate:
    lane, bound = Lane(row["dispatch_lane"]), row["target_client_id"]
    return Candidate(
        task_id=row["id"],
        tenant_id=row["tenant_id"],
        workspace_id=row["workspace_id"],
        platform=row["ai_platform_id"],
        lane=lane,
        priority=row["dispatch_priority"],
        enqueued_at=row["enqueued_at"],
        bound_to=bound,
        request_id=row["collect_request_id"],
        awaits_client=lane is Lane.HIGH and bound is None and row["request_open"],
        legacy=row["execution_owner"] == "legacy",
    )


def _with(reading: Reading, task: Candidate) -> list[Candidate]:
    """The round's own candidates and the task, which is seldom among the heads that a round reads."""
    return [*(each for each in reading.candidates if each.task_id != task.task_id), task]


async def _normal_waiting(connection: Connection, reading: Reading, tenant_id: int) -> dict[int, int]:
    """What the retry rule asks, of this tenant: a round counts it only where it matters to the round."""
    return {**reading.state.normal_waiting, **await count_normal(connection, reading, [tenant_id])}


async def _position(connection: Connection, row: asyncpg.Record) -> int:
    lane = Lane(row["dispatch_lane"])
    before: int = await connection.fetchval(
        SQL["count_before"],
        row["tenant_id"],
        row["workspace_id"],
        row["ai_platform_id"],
        row["id"],
        [each.value for each in MONITOR_LANES[: MONITOR_LANES.index(lane)]],
        lane.value,
        row["dispatch_priority"],
        row["enqueued_at"],
        MOST_POSITIONS,
        row["target_client_id"],
    )
    return before


async def _frees_in(
    connection: Connection, tenant_id: int, verdict: Explanation, settings: DispatchSettings | None
) -> float | None:
    """Seconds until the minute window that refuses has room; None when none does."""
    if verdict.binding is None or verdict.binding.limit is None or verdict.reason not in MINUTES:
        return None
    window = EVERYBODY if verdict.reason == Refusal.CLUSTER_MINUTE else tenant_id
    return await frees_in(connection, {window: verdict.binding.limit}, settings)


def _explanation(
    row: asyncpg.Record,
    facts: TaskFacts,
    state: TaskState,
    verdict: Explanation | None,
    rate: float | None,
    attempts: Sequence[asyncpg.Record],
) -> TaskExplanation:
    return TaskExplanation(
        task_id=row["id"],
        tenant_id=row["tenant_id"],
        platform=row["ai_platform_id"],
        business_date=row["business_date"],
        lane=row["dispatch_lane"],
        priority=row["dispatch_priority"],
        path=row["execution_owner"],
        state=state,
        reason=_reason(facts, state, verdict),
        sentence=sentence_of(state, facts) or (verdict.sentence if verdict else ""),
        enqueued_at=row["enqueued_at"],
        waited_seconds=row["waited_seconds"],
        dispatch_after=row["dispatch_after"],
        collect_request_id=row["collect_request_id"],
        batch_id=row["batch_id"],
        attempts_counted=row["dispatch_attempts"],
        attempts_allowed=row["max_attempts"],
        preemptions=row["preemptions"],
        waiting=verdict,
        per_minute=rate,
        held=_held(row),
        finished_at=row["finished_at"],
        last_error=row["last_error"],
        skip_reason=row["skip_reason"],
        attempts=[Attempt(**each) for each in attempts],
    )


def _reason(facts: TaskFacts, state: TaskState, verdict: Explanation | None) -> str:
    if verdict is not None:
        return verdict.reason
    return BATCH_PAUSED if facts.batch_paused else state.value


def _held(row: asyncpg.Record) -> HeldBy | None:
    """Who has it: by an execution task, or on the legacy path by a lease, a result on its way, or an offer."""
    if row["client_id"] is None:
        return None
    own = row["execution_id"] is not None
    asked = row["interrupt_requested"] if own else row["legacy_interrupt_request_id"] is not None
    preemptor = row["interrupt_request_id"] if own else row["legacy_interrupt_request_id"]
    return HeldBy(
        client_id=row["client_id"],
        client_name=row["client_name"],
        execution_id=row["execution_id"],
        since=row["execution_created_at"] or row["leased_at"] or row["legacy_offered_at"] or row["enqueued_at"],
        pushed_at=row["pushed_at"],
        lease_expires_at=row["execution_lease_expires_at"] or row["lease_expires_at"],
        started_at=row["started_at"] or row["legacy_started_at"],
        phase=row["phase"],
        giving_way_to=preemptor if asked else None,
    )
