"""What the CollectNow workflow does to its request (1-dispatch §1.5, the table of events).

Every effect touches only tasks `where collect_request_id = mine`; on a terminal request, or repeated, it does nothing.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

import asyncpg

from domain.dispatch_settings import DispatchSettings
from domain.hints import WAITING_FOR_CURRENT_TASK, WAITING_FOR_DISPATCH, WAITING_FOR_SAFE_POINT
from domain.messages import AcceptOutcome, AcceptResult, RequestCounters, RequestRef
from domain.protocol import Control
from store.accept import answer_of, first_timeouts
from store.controls import control_row
from store.database import Connection, Pool, transaction
from store.handover import release_victims
from store.hints import hint_of_undispatched, judge_platforms
from store.interrupts import resume_batches
from store.legacy_preemption import withdraw_orders
from store.listen import DISPATCH, REQUESTS, wake
from store.outbox import OutboxRow, write_outbox
from store.progress import refresh_requests
from store.settings import PlatformLimits, read_dispatch_settings, read_platform_limits
from store.settlement import settle_cancelled
from store.statements import statements
from telemetry import metrics
from telemetry.effects import count, count_each

SQL, LOCKS = statements("requests"), statements("locks")

Effect = Callable[[Connection, RequestRef], Awaitable[int]]


async def _apply(pool: Pool, ref: RequestRef, effect: Effect, *, to_open: bool = True) -> RequestCounters:
    """Lock in the common order, apply the effect to an open request (else: to one that is over), read it back."""
    async with transaction(pool) as connection:
        await connection.execute(LOCKS["lock_tenant_requests"], ref.tenant_id)
        await connection.execute(SQL["lock_tenant"], ref.tenant_id)
        await connection.execute(SQL["lock_business_tasks"], ref.request_id)
        await connection.execute(SQL["lock_execution_tasks"], ref.request_id)
        await connection.execute(SQL["lock_requests"], ref.request_id, ref.tenant_id)
        open_now = await connection.fetchval(SQL["is_open"], ref.request_id, ref.tenant_id)
        touched = await effect(connection, ref) if open_now is to_open else 0
        if touched:
            await wake(connection, DISPATCH, REQUESTS)
        counters = await _read(connection, ref, touched)
        return counters if ref.waited_ms is None else counters.model_copy(update=await _time_left(connection, ref))


async def _time_left(connection: Connection, ref: RequestRef) -> dict[str, int]:
    """Until the first victim of the client and generation passes its soft and its hard timeout, as they are set now."""
    asked = [limits for _, limits in await _asked(connection, ref)]
    if not asked:
        return {}
    waited = ref.waited_ms or 0
    return {
        "soft_in_ms": max(min(each.soft_timeout_ms for each in asked) - waited, 0),
        "hard_in_ms": max(min(each.hard_timeout_ms for each in asked) - waited, 0),
    }


async def _asked(connection: Connection, ref: RequestRef) -> list[tuple[UUID, PlatformLimits]]:
    """Victims that run on, each with its platform's limits."""
    rows = await connection.fetch(SQL["find_asked"], ref.request_id, ref.generation, ref.client_id)
    settings = await read_dispatch_settings(connection)
    limits = await read_platform_limits(connection, settings)
    return [(row["id"], limits.get(row["ai_platform_id"]) or _general(settings)) for row in rows]


def _general(settings: DispatchSettings) -> PlatformLimits:
    """For a platform that was disabled while its task ran."""
    soft, hard = settings.interrupt_soft_timeout_ms, settings.interrupt_hard_timeout_ms
    return PlatformLimits(settings.platform_concurrency, soft, hard)


async def _read(connection: Connection, ref: RequestRef, touched: int) -> RequestCounters:
    row = await connection.fetchrow(SQL["read_counters"], ref.request_id)
    if row is None:
        # Deleted with its brand: nothing is left to follow.
        return RequestCounters(status="failed", requested=0, dispatched=0, completed=0, failed=0)
    return RequestCounters(
        status=row["status"],
        requested=row["requested_task_count"],
        dispatched=row["dispatched_task_count"],
        completed=row["completed_task_count"],
        failed=row["failed_task_count"],
        returned=row["returned_task_count"],
        target_client_id=row["target_client_id"],
        hint=row["hint"],
        touched=touched,
    )


async def read_request(pool: Pool, ref: RequestRef) -> RequestCounters:
    """The request as it stands."""
    async with pool.acquire() as connection:
        return await _read(connection, ref, 0)


async def find_accepted(pool: Pool, ref: RequestRef) -> AcceptResult | None:
    """The accept of this request, read back from its row; None when it never committed.

    For the workflow, which follows the binding as it is now: a later one than the accept's may be the newest.
    """
    async with pool.acquire() as connection:
        row = await connection.fetchrow(SQL["find_accepted"], ref.request_id, ref.tenant_id)
        if row is None:
            return None
        settings = await read_dispatch_settings(connection)
        limits = await read_platform_limits(connection, settings)
        soft, hard = await first_timeouts(connection, ref.request_id, settings, limits)
    return AcceptResult(
        outcome=AcceptOutcome.ACCEPTED,
        answer=answer_of(row).model_copy(update=_binding(row)),
        status=row["status"],
        business_date=row["business_date"],
        soft_timeout_ms=soft,
        hard_timeout_ms=hard,
        hard_deadline=row["hard_deadline"],
        hint=row["hint"],
    )


def _binding(row: asyncpg.Record) -> dict[str, Any]:
    ended = row["interrupt_settled_count"] + row["interrupt_timed_out_count"] + row["interrupt_withdrawn_count"]
    return {
        "target_client_id": row["target_client_id"],
        "interrupt_generation": row["interrupt_generation"],
        "interrupt_requested_count": max(row["interrupt_requested_count"] - ended, 0),
    }


async def set_hint(pool: Pool, ref: RequestRef) -> RequestCounters:
    """Show `ref.reason` as the request's hint while it is true; None takes the hint away."""
    return await _apply(pool, ref, _set_hint)


async def _set_hint(connection: Connection, ref: RequestRef) -> int:
    hint = ref.reason
    if hint == WAITING_FOR_SAFE_POINT and not await _soft_is_over(connection, ref):
        return 0
    if hint == WAITING_FOR_DISPATCH:
        hint = await hint_of_undispatched(connection, ref.request_id, ref.tenant_id)
        if hint is None:
            return 0
    changed: int = await connection.fetchval(SQL["set_hint"], ref.request_id, hint)
    if hint is None:
        await judge_platforms(connection, [ref.request_id])
    return changed


async def _soft_is_over(connection: Connection, ref: RequestRef) -> bool:
    if ref.waited_ms is None:
        return True
    return any(limits.soft_timeout_ms <= ref.waited_ms for _, limits in await _asked(connection, ref))


async def release_client(pool: Pool, ref: RequestRef) -> RequestCounters:
    """The client is lost: the request's waiting tasks are unbound and stay high; running ones keep their lease."""
    return await _apply(pool, ref, _release_client)


async def _release_client(connection: Connection, ref: RequestRef) -> int:
    returned = await _return_queued(connection, ref, client_id=ref.client_id)
    unbound: int = await connection.fetchval(SQL["unbind_waiting"], ref.request_id, ref.client_id)
    return returned + unbound


async def force_release(pool: Pool, ref: RequestRef) -> RequestCounters:
    """Hard timeout: victims that did not stop become `unknown`; waiting tasks move if another client is online.

    Each is judged by its platform's timeout as it is set now; `hard_in_ms` says when to look at the others again.
    """
    return await _apply(pool, ref, _force_release)


async def _force_release(connection: Connection, ref: RequestRef) -> int:
    asked = await _asked(connection, ref)
    due = [task for task, limits in asked if ref.waited_ms is None or limits.hard_timeout_ms <= ref.waited_ms]
    revoked = await connection.fetch(SQL["revoke_victims"], ref.request_id, due)
    if not revoked:
        return 0
    await connection.execute(SQL["count_timed_out"], ref.request_id, len(revoked))
    count_each(metrics.preempt_timeouts, Counter(str(row["target_client_id"]) for row in revoked))
    clients = sorted({row["target_client_id"] for row in revoked})
    if await connection.fetchval(SQL["other_client_online"], ref.request_id, clients):
        for client_id in clients:
            await _release_client(connection, ref.model_copy(update={"client_id": client_id}))
    else:
        await connection.execute(SQL["set_hint"], ref.request_id, WAITING_FOR_CURRENT_TASK)
    return len(revoked)


async def expire_request(pool: Pool, ref: RequestRef) -> RequestCounters:
    """TTL with nothing dispatched: `timed_out`; tasks return to the lane they came from."""
    return await _apply(pool, ref, _expire)


async def _expire(connection: Connection, ref: RequestRef) -> int:
    if await connection.fetchval(SQL["was_dispatched"], ref.request_id):
        return 0
    count(metrics.ttl_expired)
    return await _end(connection, ref, "timed_out", "ttl")


async def end_request(pool: Pool, ref: RequestRef) -> RequestCounters:
    """Hard end: `partial` with results, else `timed_out`; the rest returns to the lane it came from."""
    return await _apply(pool, ref, _hard_end)


async def _hard_end(connection: Connection, ref: RequestRef) -> int:
    return await _end(connection, ref, "timed_out", "hard_end")


async def _end(connection: Connection, ref: RequestRef, status: str, reason: str) -> int:
    returned = await _return_all(connection, ref, running=True)
    await connection.execute(SQL["end_request"], ref.request_id, status, reason)
    return returned + 1


async def cancel_request(pool: Pool, ref: RequestRef) -> RequestCounters:
    """Waiting tasks return, interrupts are withdrawn with a newer generation, running tasks finish and count.

    The request ends at once when nothing runs, else with the last running task: `failed`, or `partial` with results.
    """
    return await _apply(pool, ref, _cancel)


async def _cancel(connection: Connection, ref: RequestRef) -> int:
    returned = await _return_all(connection, ref, running=False)
    marked: int = await connection.fetchval(SQL["mark_cancelled"], ref.request_id)
    await refresh_requests(connection, [ref.request_id])
    return returned + marked


async def _return_all(connection: Connection, ref: RequestRef, *, running: bool) -> int:
    """Whatever waits goes back to where it came from, and the victims and batches that waited for it go on.

    `running`: what runs leaves the request as well, and finishes for itself.
    """
    await _withdraw_interrupts(connection, ref)
    clients = [row["target_client_id"] for row in await connection.fetch(SQL["bound_clients"], ref.request_id)]
    await _return_queued(connection, ref)
    returned = await connection.fetch(SQL["return_to_origin"], ref.request_id, running)
    await settle_cancelled(connection, [row["id"] for row in returned])
    await resume_batches(connection, clients)
    return len(returned)


async def _return_queued(connection: Connection, ref: RequestRef, *, client_id: UUID | None = None) -> int:
    """Execution tasks of the request that wait on a desktop are taken back; no attempt is counted."""
    rows = await connection.fetch(SQL["abort_queued"], ref.request_id, client_id)
    return await write_outbox(connection, _controls(rows, Control.CANCELED, ref.tenant_id))


async def withdraw_interrupts(pool: Pool, ref: RequestRef) -> RequestCounters:
    """The request is over: victims that have not stopped yet go on, unless another request waits for their slots."""
    return await _apply(pool, ref, _withdraw_interrupts, to_open=False)


async def _withdraw_interrupts(connection: Connection, ref: RequestRef) -> int:
    advised = await withdraw_orders(connection, ref.request_id, ref.tenant_id)
    return advised + await release_victims(connection, ref.request_id, ref.tenant_id)


def _controls(rows: Sequence[asyncpg.Record], control: Control, tenant_id: int) -> list[OutboxRow]:
    return [control_row(row, control, tenant_id) for row in rows]
