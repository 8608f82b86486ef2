"""The lease calls about legacy tasks: start, extend, cancel, interrupt-ack (2-desktop §2.2, dispatch §16.1).

The same calls and refusals as in `store/leases.py`, on the business row. An order to stop is advice: the desktop
decides, and the server never ends a live legacy lease on a click.
"""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import asyncpg

from domain.desktop_calls import CancelAnswer, CancelCall, InterruptAckCall, LeaseAnswer
from domain.errors import LeaseLost, NotFound
from domain.generations import follows
from domain.hub_port import ClientIdentity
from domain.legacy import wire_id
from domain.protocol import LEASE_SECONDS, Control
from store.clients import digest
from store.controls import control_row
from store.database import Connection, Pool, transaction
from store.leases import Stop, stale_refusal
from store.legacy_ends import give_back
from store.outbox import write_outbox
from store.progress import refresh_requests
from store.releases import Release
from store.statements import statements
from telemetry import metrics
from telemetry.effects import count

SQL = statements("legacy_leases")

LEASED: Final = "leased"


@dataclass(frozen=True, slots=True)
class LegacyLease:
    """A call about one legacy task by one desktop; `token` None: it acknowledges without holding a lease."""

    client: ClientIdentity
    number: int
    token: str | None


async def start(pool: Pool, lease: LegacyLease) -> LeaseAnswer:
    """The desktop begins; repeated it answers the same. Its slot was taken with the lease, so there is no NoSlot.

    NotFound, LeaseLost (token not current, or run out before the start).
    """
    async with transaction(pool) as connection:
        task = await _lock_current(connection, lease)
        expires = await connection.fetchval(SQL["start"], lease.number, task["attempt_id"], LEASE_SECONDS)
        if task["collect_request_id"] is not None:
            await refresh_requests(connection, [task["collect_request_id"]])
        return _answer(task, expires)


async def extend(pool: Pool, lease: LegacyLease) -> LeaseAnswer:
    """A longer lease. NotFound, LeaseLost (token not current, or run out before the start)."""
    async with transaction(pool) as connection:
        task = await _lock_current(connection, lease)
        return _answer(task, await connection.fetchval(SQL["extend"], lease.number, LEASE_SECONDS))


def _answer(task: asyncpg.Record, expires: Any) -> LeaseAnswer:
    return LeaseAnswer(
        task_id=wire_id(task["id"]),
        status=task["status"],
        lease_expires_at=expires,
        interrupt_requested=task["interrupt_requested"],
        interrupt_generation=task["interrupt_generation"],
    )


async def _lock_known(connection: Connection, lease: LegacyLease) -> asyncpg.Record:
    """The task under lock, with its open attempt; NotFound unless the client has had a lease of it."""
    client = lease.client
    if not await connection.fetchval(SQL["find_task"], lease.number, client.tenant_id, client.client_id):
        raise NotFound(f"no task {wire_id(lease.number)}")
    await connection.execute(SQL["lock_tasks"], [lease.number])
    task = await connection.fetchrow(SQL["read_lease"], lease.number)
    assert task is not None, "an attempt names it"
    return task


async def _lock_current(connection: Connection, lease: LegacyLease) -> asyncpg.Record:
    task = await _lock_known(connection, lease)
    held = _holds(task, lease.client.client_id) and lease.token is not None
    if not held or task["lease_token_hash"] != digest(lease.token or ""):
        raise LeaseLost("the lease token is not the task's current one; drop the task")
    if task["expired"] and task["started_at"] is None:
        raise LeaseLost("the lease ran out before the start; drop the task")
    return task


def _holds(task: asyncpg.Record, client_id: UUID) -> bool:
    return bool(task["status"] == LEASED and task["leased_to_executor"] == client_id)


async def cancel(pool: Pool, lease: LegacyLease, call: CancelCall) -> CancelAnswer:
    """Give a task back, no attempt counted: preempted under an order to stop, else to the queue.

    NotFound, LeaseLost, StaleGeneration (recorded, nothing changed, the current order is sent again).
    """
    return await _stop(pool, lease, Stop(call.interrupt_generation, call.reason))


async def acknowledge_interrupt(pool: Pool, lease: LegacyLease, call: InterruptAckCall) -> CancelAnswer:
    """The same with phase and safe point. Without a lease token: the desktop does not run it, `already_settled`."""
    stop = Stop(
        generation=call.interrupt_generation,
        reason=call.reason,
        phase=call.phase,
        safe_point=call.safe_point,
        safe_point_interval_ms=call.safe_point_interval_ms,
        phase_times={phase.value: ms for phase, ms in call.phase_times.items()},
    )
    return await _stop(pool, lease, stop)


async def _stop(pool: Pool, lease: LegacyLease, stop: Stop) -> CancelAnswer:
    async with transaction(pool) as connection:
        lock = _lock_known if lease.token is None else _lock_current
        task = await lock(connection, lease)
        stale = _is_stale(task, stop)
        if stale:
            await _record_stale(connection, lease, stop, task)
        else:
            result = await _settle(connection, lease, stop, task)
    # Raised after the commit: the record of the stale callback stays.
    if stale:
        raise stale_refusal(stop, task)
    return CancelAnswer.model_validate({"task_id": wire_id(lease.number), "result": result})


def _is_stale(task: asyncpg.Record, stop: Stop) -> bool:
    begun = task["status"] == LEASED and task["started_at"] is not None
    return begun and not follows(stop.generation, task["interrupt_generation"])


async def _settle(connection: Connection, lease: LegacyLease, stop: Stop, task: asyncpg.Record) -> str:
    """Without a token only an order's own lease ends: its slot is free now, not when the lease runs out."""
    ordered = task["interrupt_requested"]
    if lease.token is not None or (ordered and _holds(task, lease.client.client_id)):
        await _record_stop(connection, stop, task)
        why = Release.PREEMPTED if ordered else Release.RETURNED
        await give_back(connection, [lease.number], why, error=stop.reason)
    if lease.token is None:
        return "already_settled"
    return "preempted" if ordered else "requeued"


async def _record_stop(connection: Connection, stop: Stop, task: asyncpg.Record) -> None:
    await connection.execute(
        SQL["record_stop"],
        task["attempt_id"],
        stop.safe_point and stop.safe_point.value,
        stop.safe_point_interval_ms,
        stop.phase_times,
        stop.generation,
    )


async def _record_stale(connection: Connection, lease: LegacyLease, stop: Stop, task: asyncpg.Record) -> None:
    client = lease.client
    await connection.execute(
        SQL["record_stale_callback"],
        client.tenant_id,
        client.client_id,
        wire_id(lease.number),
        stop.generation,
        task["interrupt_generation"],
        stop.reason,
    )
    count(metrics.generation_mismatches)
    control = Control.INTERRUPT_REQUESTED if task["interrupt_requested"] else Control.INTERRUPT_WITHDRAWN
    await write_outbox(connection, [control_row(_order_about(task), control, client.tenant_id)])


def _order_about(task: asyncpg.Record) -> dict[str, Any]:
    return {
        "id": wire_id(task["id"]),
        "target_client_id": task["leased_to_executor"],
        "lane": task["dispatch_lane"],
        "interrupt_reason": "collect_now_preempt",
        "interrupt_generation": task["interrupt_generation"],
    }
