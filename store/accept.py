"""The accept transaction of a collect-now: all of §1.5 steps 1–8 in one short transaction, or nothing.

Lock order: the tenant (advisory lock and row), the client, business tasks by id, execution tasks by id, requests.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from math import ceil
from uuid import UUID

import asyncpg

from domain.client_choice import ClientState
from domain.dispatch_settings import DispatchSettings
from domain.errors import Conflict, GivewayError, NotFound, TooManyRequests
from domain.legacy import execution_owner
from domain.messages import (
    AcceptCommand,
    AcceptOutcome,
    AcceptResult,
    CollectNowAnswer,
    SignalName,
    collect_now_workflow_id,
)
from domain.scope import call_hash, scope_hash
from store.accept_scope import BrandPlans, Facts, read_brand_plans, resolve_scope
from store.client_choice import choose_request_client, open_to_high
from store.database import Connection, Pool, transaction
from store.listen import DISPATCH, wake
from store.outbox import signal, write_outbox
from store.preemption import Preemptor, RoomMade, lock_tasks, make_room
from store.progress import refresh_requests
from store.promotion import Promoted, promote
from store.settings import PlatformLimits, read_dispatch_settings, read_platform_limits
from store.statements import statements
from telemetry import metrics
from telemetry.effects import count

SQL, LOCKS = statements("accept"), statements("locks")


async def accept_collect_now(pool: Pool, command: AcceptCommand) -> AcceptResult:
    """Run the transaction. A refusal is a result (nothing stays behind); running it twice changes nothing more."""
    try:
        async with transaction(pool) as connection:
            return await _accept(connection, command)
    except GivewayError as refusal:
        return AcceptResult(
            outcome=AcceptOutcome.REFUSED,
            error_code=refusal.code,
            error_status=refusal.http_status,
            error_message=refusal.message,
            retry_after=refusal.retry_after,
        )


async def _accept(connection: Connection, command: AcceptCommand) -> AcceptResult:
    await connection.execute(LOCKS["lock_tenant_requests"], command.tenant_id)
    settings = await read_dispatch_settings(connection)
    limits = await read_platform_limits(connection, settings)
    earlier = await find_earlier(connection, command)
    if isinstance(earlier, NewCall):
        return await _create(connection, command, Facts(settings, limits, earlier.plans, earlier.hash))
    return await _result(connection, earlier, settings, limits, _outcome_of(earlier, command))


async def _create(connection: Connection, command: AcceptCommand, facts: Facts) -> AcceptResult:
    await _check_hourly_limit(connection, command, facts.settings)
    scope = await resolve_scope(connection, command, facts.plans)
    generation = await connection.fetchval(LOCKS["next_generation"], command.tenant_id)
    client = await choose_request_client(connection, command, facts, scope.platforms)
    await _create_request(connection, command, facts, client, generation)
    path = execution_owner(command.tenant_id, facts.settings.rollout_percent)
    task_ids = await scope.create_missing(connection, command, facts.plans, path)
    legacy = await lock_tasks(connection, task_ids, client.client_id if client else None)
    older = await _supersede(connection, command, client, task_ids)
    await _check_active_limit(connection, command, facts.settings)
    # What cannot go now stays unbound: the coordinator binds it, and makes room, when the pause is over.
    closed = set(scope.platforms) - await open_to_high(connection, command.tenant_id, facts.settings, facts.platforms)
    promoted = await promote(connection, command, client, generation, task_ids, path, closed=closed, legacy=legacy)
    await _count_taken(connection, promoted.taken)
    room = await _make_room(connection, command, client, generation, promoted, facts.settings)
    await _record(connection, command, promoted, room)
    await refresh_requests(connection, [*older, command.request_id])
    await wake(connection, DISPATCH)
    count(metrics.collect_now_accepts)
    row = await connection.fetchrow(SQL["read_request"], command.request_id)
    assert row is not None
    return await _result(connection, row, facts.settings, facts.platforms, AcceptOutcome.ACCEPTED)


@dataclass(frozen=True, slots=True)
class NewCall:
    """A call that repeats none: the brand's plans, and the scope's hash with what they add to it."""

    plans: BrandPlans
    hash: str


async def find_earlier(connection: Connection, command: AcceptCommand) -> asyncpg.Record | NewCall:
    """The request that this call repeats, or what makes it a new one.

    An Idempotency-Key is looked up first: what became of the plans meanwhile does not matter to it. Conflict for a key
    that came with another call, NotFound and NoDesktopPlan for a brand that cannot be collected.
    """
    keyed = await _find_by_key(connection, command)
    if keyed is not None:
        return keyed
    plans = await read_brand_plans(connection, command)
    hashed = scope_hash(
        command.scope,
        run_modes=plans.run_modes,
        business_date=plans.business_date,
        preempt=command.preempt,
        target_client_id=command.target_client_id,
    )
    row = await connection.fetchrow(
        SQL["find_same_scope"], command.tenant_id, command.user_id, command.brand_id, hashed
    )
    return NewCall(plans, hashed) if row is None else row


async def _find_by_key(connection: Connection, command: AcceptCommand) -> asyncpg.Record | None:
    row = await connection.fetchrow(
        SQL["find_by_key"],
        command.request_id,
        command.tenant_id,
        command.user_id,
        command.brand_id,
        _call_hash(command),
        command.idempotency_key,
    )
    if row is None:
        return None
    if row["other_call"]:
        raise Conflict("this Idempotency-Key was used for another call; send a new key")
    if row["workspace_id"] not in command.workspace_ids:
        raise NotFound(f"no brand {command.brand_id}")
    return row


def _call_hash(command: AcceptCommand) -> str:
    return call_hash(command.scope, preempt=command.preempt, target_client_id=command.target_client_id)


def _outcome_of(earlier: asyncpg.Record, command: AcceptCommand) -> AcceptOutcome:
    return AcceptOutcome.ACCEPTED if earlier["id"] == command.request_id else AcceptOutcome.REPLAYED


async def _check_hourly_limit(connection: Connection, command: AcceptCommand, settings: DispatchSettings) -> None:
    row = await connection.fetchrow(SQL["count_user_hour"], command.tenant_id, command.user_id)
    assert row is not None
    if row["count"] >= settings.requests_per_user_hour:
        raise TooManyRequests(
            f"{row['count']} requests in the last hour; the limit is {settings.requests_per_user_hour} a user",
            retry_after=max(1, ceil(row["frees_in"])),
        )


async def _check_active_limit(connection: Connection, command: AcceptCommand, settings: DispatchSettings) -> None:
    active = await connection.fetchval(SQL["count_active"], command.tenant_id)
    if active > settings.active_requests_per_tenant:
        raise TooManyRequests(
            f"{settings.active_requests_per_tenant} requests are active already; wait for one to finish or cancel it",
            retry_after=30,
        )


async def _create_request(
    connection: Connection, command: AcceptCommand, facts: Facts, client: ClientState | None, generation: int
) -> None:
    await connection.execute(
        SQL["create_request"],
        command.request_id,
        command.tenant_id,
        facts.plans.workspace_id,
        command.brand_id,
        command.scope.keyword_id,
        command.user_id,
        client.client_id if client else None,
        facts.hash,
        command.idempotency_key,
        command.scope.model_dump(mode="json"),
        command.preempt,
        facts.plans.business_date,
        generation,
        facts.settings.request_ttl_seconds,
        facts.settings.request_hard_end_seconds,
        _call_hash(command),
    )


async def _supersede(
    connection: Connection, command: AcceptCommand, client: ClientState | None, task_ids: list[int]
) -> list[UUID]:
    """Unfinished tasks of older requests move here; a request left with none ends and its workflow is told (step 2).

    Returns the open requests that hold, or held, a task of the scope.
    """
    client_id = client.client_id if client else None
    others = await connection.fetch(SQL["lock_others"], task_ids, command.request_id, client_id)
    moved = await connection.fetch(SQL["move_from_older"], task_ids, command.request_id)
    ended = await connection.fetch(
        SQL["end_superseded"],
        [row["request_id"] for row in moved],
        [row["count"] for row in moved],
        command.request_id,
    )
    payload = {"by": str(command.request_id)}
    signals = [
        signal(collect_now_workflow_id(row["id"]), SignalName.SUPERSEDED, payload, row["tenant_id"])
        for row in sorted(ended, key=lambda row: row["id"])
        if row["status"] in ("superseded", "partial")
    ]
    await write_outbox(connection, signals)
    return [row["id"] for row in others if row["is_holder"]]


async def _count_taken(connection: Connection, taken: Counter[UUID]) -> None:
    older = sorted(taken)
    await connection.execute(SQL["count_taken"], older, [taken[request_id] for request_id in older])


async def _make_room(
    connection: Connection,
    command: AcceptCommand,
    client: ClientState | None,
    generation: int,
    promoted: Promoted,
    settings: DispatchSettings,
) -> RoomMade:
    """Steps 6 and 7. A request whose tasks all run already needs no room: nobody gives way for nothing."""
    if not command.preempt or client is None or not promoted.bound:
        return RoomMade(0, 0)
    preemptor = Preemptor(
        command.tenant_id, command.request_id, client.client_id, generation, promoted.bound, promoted.legacy
    )
    return await make_room(connection, preemptor, settings)


async def _record(connection: Connection, command: AcceptCommand, promoted: Promoted, room: RoomMade) -> None:
    await connection.execute(
        SQL["record_effects"],
        command.request_id,
        promoted.affected,
        promoted.promoted,
        room.aborted_queued,
        room.interrupted,
    )


async def _result(
    connection: Connection,
    row: asyncpg.Record,
    settings: DispatchSettings,
    limits: Mapping[str, PlatformLimits],
    outcome: AcceptOutcome,
) -> AcceptResult:
    soft, hard = await first_timeouts(connection, row["id"], settings, limits)
    business_date: date = row["business_date"]
    return AcceptResult(
        outcome=outcome,
        answer=answer_of(row),
        status=row["status"],
        business_date=business_date,
        soft_timeout_ms=soft,
        hard_timeout_ms=hard,
        hard_deadline=row["hard_deadline"],
        hint=row["hint"],
    )


async def first_timeouts(
    connection: Connection, request_id: UUID, settings: DispatchSettings, limits: Mapping[str, PlatformLimits]
) -> tuple[int, int]:
    """When to look first whether the request's victims have stopped: the shortest soft and hard timeout, in ms.

    Who is due is judged then, each victim by its own platform's timeouts as they are set at that moment (§10.5).
    """
    rows = await connection.fetch(SQL["awaited_platforms"], request_id)
    used = [limits[row["ai_platform_id"]] for row in rows if row["ai_platform_id"] in limits]
    soft = [limit.soft_timeout_ms for limit in used] or [settings.interrupt_soft_timeout_ms]
    hard = [limit.hard_timeout_ms for limit in used] or [settings.interrupt_hard_timeout_ms]
    return min(soft), min(hard)


def answer_of(row: asyncpg.Record) -> CollectNowAnswer:
    """The §13.1 body of a stored request: the same for the first call and for every replay."""
    return CollectNowAnswer(
        request_id=row["id"],
        target_client_id=row["accepted_client_id"],
        affected_task_count=row["affected_task_count"],
        promoted_task_count=row["promoted_task_count"],
        aborted_queued_count=row["aborted_queued_count"],
        interrupt_requested_count=row["accepted_interrupt_count"],
        interrupt_generation=row["accepted_generation"],
        ttl_expires_at=row["ttl_expires_at"],
        message=_message(row),
    )


def _message(row: asyncpg.Record) -> str:
    if row["accepted_client_id"] is None:
        return "已接受；当前没有在线的采集终端，终端上线后立即执行"
    if row["accepted_interrupt_count"] or row["aborted_queued_count"]:
        return "已提升为高优先级并请求抢占当前定时采集任务"
    return "已提升为高优先级"
