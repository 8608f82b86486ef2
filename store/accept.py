"""The accept transaction of a collect-now: all of §1.5 steps 1–8 in one short transaction, or nothing.

Lock order: the tenant (advisory lock and row), the client, business tasks by id, execution tasks by id, requests.
"""

from collections import Counter
from collections.abc import Collection
from datetime import date
from math import ceil
from uuid import UUID

import asyncpg

from domain.client_choice import ClientState
from domain.dispatch_settings import DispatchSettings
from domain.errors import Conflict, GivewayError, TooManyRequests
from domain.messages import (
    AcceptCommand,
    AcceptOutcome,
    AcceptResult,
    CollectNowAnswer,
    SignalName,
    collect_now_workflow_id,
)
from domain.scope import scope_hash
from store.accept_scope import Facts, read_brand_plans, resolve_scope
from store.client_choice import choose_request_client
from store.database import Connection, Pool, transaction
from store.listen import DISPATCH, wake
from store.outbox import signal, write_outbox
from store.preemption import Preemptor, RoomMade, lock_tasks, make_room
from store.progress import refresh_requests
from store.promotion import Promoted, promote
from store.settings import read_dispatch_settings, read_platform_limits
from store.statements import statements

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
    facts = await _read_facts(connection, command)
    earlier = await find_earlier(connection, command, facts.hash)
    if earlier is not None:
        return await _result(connection, earlier, facts, _outcome_of(earlier, command))
    await _check_hourly_limit(connection, command, facts.settings)
    scope = await resolve_scope(connection, command, facts.plans)
    generation = await connection.fetchval(LOCKS["next_generation"], command.tenant_id)
    client = await choose_request_client(connection, command, facts, scope.platforms)
    await _create_request(connection, command, facts, client, generation)
    task_ids = await scope.create_missing(connection, command, facts.plans)
    await lock_tasks(connection, task_ids, client.client_id if client else None)
    older = await _supersede(connection, command, task_ids)
    await _check_active_limit(connection, command, facts.settings)
    promoted = await promote(connection, command, client, generation, task_ids)
    await _count_taken(connection, promoted.taken)
    room = await _make_room(connection, command, client, generation, promoted, facts.settings)
    await _record(connection, command, promoted, room)
    await refresh_requests(connection, [*older, command.request_id])
    await wake(connection, DISPATCH)
    row = await connection.fetchrow(SQL["read_request"], command.request_id)
    assert row is not None
    return await _result(connection, row, facts, AcceptOutcome.ACCEPTED)


async def _read_facts(connection: Connection, command: AcceptCommand) -> Facts:
    settings = await read_dispatch_settings(connection)
    plans = await read_brand_plans(connection, command)
    hashed = scope_hash(
        command.scope,
        run_modes=plans.run_modes,
        business_date=plans.business_date,
        preempt=command.preempt,
        target_client_id=command.target_client_id,
    )
    return Facts(settings, await read_platform_limits(connection, settings), plans, hashed)


async def find_earlier(connection: Connection, command: AcceptCommand, hashed: str) -> asyncpg.Record | None:
    """The request that this call repeats; Conflict for an Idempotency-Key that came with another scope."""
    row = await connection.fetchrow(
        SQL["find_earlier"],
        command.request_id,
        command.tenant_id,
        command.user_id,
        command.brand_id,
        hashed,
        command.idempotency_key,
    )
    if row is not None and row["by_key"] and row["other_scope"]:
        raise Conflict("this Idempotency-Key was used for another scope; send a new key")
    return row


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
    )


async def _supersede(connection: Connection, command: AcceptCommand, task_ids: list[int]) -> list[UUID]:
    """Unfinished tasks of older requests move here; a request left with none ends and its workflow is told (step 2).

    Returns the open requests that hold, or held, a task of the scope.
    """
    holders = await connection.fetch(SQL["lock_older"], task_ids, command.request_id)
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
        for row in ended
        if row["status"] in ("superseded", "partial")
    ]
    await write_outbox(connection, signals)
    return [row["id"] for row in holders]


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
    preemptor = Preemptor(command.tenant_id, command.request_id, client.client_id, generation, promoted.bound)
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


async def _result(connection: Connection, row: asyncpg.Record, facts: Facts, outcome: AcceptOutcome) -> AcceptResult:
    victims = [each["ai_platform_id"] for each in await connection.fetch(SQL["victim_platforms"], row["id"])]
    soft, hard = _timeouts(facts, victims or facts.plans.platforms)
    business_date: date = row["business_date"]
    return AcceptResult(
        outcome=outcome,
        answer=answer_of(row),
        status=row["status"],
        business_date=business_date,
        soft_timeout_ms=soft,
        hard_timeout_ms=hard,
        hard_deadline=row["hard_deadline"],
    )


def _timeouts(facts: Facts, platforms: Collection[str]) -> tuple[int, int]:
    """The longest of the platforms whose tasks are asked to stop, in ms (dispatch §10.5)."""
    used = [facts.platforms[name] for name in platforms if name in facts.platforms]
    soft = [limit.soft_timeout_ms for limit in used] or [facts.settings.interrupt_soft_timeout_ms]
    hard = [limit.hard_timeout_ms for limit in used] or [facts.settings.interrupt_hard_timeout_ms]
    return max(soft), max(hard)


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
