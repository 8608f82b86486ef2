"""The lease calls of a desktop: start, extend, cancel, interrupt-ack (2-desktop §2.2, dispatch §10.2, §13.4).

Each is one short transaction. Expiry is judged by the database clock. Results are in `store/results.py`.
"""

from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

import asyncpg

from domain.budgets import limits_of
from domain.desktop_calls import CancelAnswer, CancelCall, InterruptAckCall, LeaseAnswer
from domain.dispatch_settings import DispatchSettings, PlatformScope
from domain.errors import LeaseLost, NoSlot, NotFound, StaleGeneration
from domain.generations import follows
from domain.hub_port import ClientIdentity
from domain.phases import Phase, SafePoint
from domain.protocol import LEASE_SECONDS, Control
from store.clients import digest
from store.controls import control_row
from store.database import Connection, Pool, transaction
from store.interrupts import settle_interrupts
from store.listen import DISPATCH, wake
from store.outbox import write_outbox
from store.progress import refresh_requests
from store.releases import Release, lock_executions, release
from store.settings import read_dispatch_settings
from store.statements import statements
from telemetry import metrics
from telemetry.effects import count

SQL = statements("leases")

STARTED: Final = frozenset({"in_progress", "unknown"})


@dataclass(frozen=True, slots=True)
class LeaseRef:
    """A call about one task by one desktop; `token` None: it acknowledges without holding a lease."""

    client: ClientIdentity
    task_id: UUID
    token: str | None


@dataclass(frozen=True, slots=True)
class Stop:
    """A desktop stopped, or gives back, a task. Times in milliseconds."""

    generation: int
    reason: str
    phase: Phase | None = None
    safe_point: SafePoint | None = None
    safe_point_interval_ms: float | None = None
    phase_times: dict[str, float] = field(default_factory=dict)


async def start(pool: Pool, lease: LeaseRef, phase: Phase | None = None) -> LeaseAnswer:
    """queued → in_progress. Repeated with the same token it answers the same.

    NotFound, LeaseLost (token not current, or run out), NoSlot (the task stays queued, its lease as it is).
    """
    async with transaction(pool) as connection:
        platform = await _find(connection, lease)
        settings = await read_dispatch_settings(connection)
        await connection.execute(SQL["lock_platform"], _platform_tenant(lease, settings), platform)
        limits = await connection.fetchrow(SQL["lock_client"], lease.client.client_id, lease.client.tenant_id, platform)
        if limits is None:
            raise LeaseLost("this client is revoked; stop the task")
        task = await _lock_current(connection, lease)
        if task["status"] in STARTED:
            return await _extend(connection, lease, phase)
        if task["expired"]:
            raise LeaseLost("the lease ran out before the start; drop the task")
        if await _check_slots(connection, lease, platform, settings, limits):
            await wake(connection, DISPATCH)
        return await _start(connection, lease, phase or Phase.PREPARING)


async def _start(connection: Connection, lease: LeaseRef, phase: Phase) -> LeaseAnswer:
    row = await connection.fetchrow(SQL["start_task"], lease.task_id, LEASE_SECONDS, phase.value)
    assert row is not None, "the row is locked and queued"
    if row["collect_request_id"] is not None:
        await refresh_requests(connection, [row["collect_request_id"]])
    return _answer(lease, row)


async def _find(connection: Connection, lease: LeaseRef) -> str:
    client = lease.client
    platform: str | None = await connection.fetchval(
        SQL["find_task"], lease.task_id, client.tenant_id, client.client_id
    )
    if platform is None:
        raise NotFound(f"no task {lease.task_id}")
    return platform


def _platform_tenant(lease: LeaseRef, settings: DispatchSettings) -> int:
    return 0 if settings.platform_concurrency_scope is PlatformScope.GLOBAL else lease.client.tenant_id


async def _check_slots(
    connection: Connection, lease: LeaseRef, platform: str, settings: DispatchSettings, row: asyncpg.Record
) -> bool:
    """NoSlot, or whether the client's queue is full: then the start makes room there for the next task."""
    own_limit, platform_limit = row["max_concurrent"], row["platform_limit"]
    if platform_limit is None:
        platform_limit = settings.platform_concurrency
    platform_limit = min(platform_limit, settings.fuses.platform_concurrency)
    limits = limits_of(
        settings,
        client_concurrency=own_limit,
        client_queue_depth=row["max_queue_depth"],
        platform=platform_limit,
    )
    tenant = _platform_tenant(lease, settings)
    used = await connection.fetchrow(SQL["count_running"], tenant, lease.client.client_id, platform, lease.task_id)
    assert used is not None, "an aggregate has a row"
    if used["on_client"] >= limits.client_concurrency:
        raise NoSlot(f"{used['on_client']} of {limits.client_concurrency} tasks run on this client; keep it queued")
    if used["on_platform"] >= limits.platform_concurrency:
        limit = limits.platform_concurrency
        raise NoSlot(f"{used['on_platform']} of {limit} tasks run on {platform}; keep it queued")
    return bool(used["queued"] >= limits.client_queue_depth)


async def extend(pool: Pool, lease: LeaseRef, phase: Phase | None = None) -> LeaseAnswer:
    """A longer lease, and the phase if given. NotFound, LeaseLost (token not current, or run out before the start)."""
    async with transaction(pool) as connection:
        await _find(connection, lease)
        task = await _lock_current(connection, lease)
        if task["status"] == "queued" and task["expired"]:
            raise LeaseLost("the lease ran out before the start; drop the task")
        return await _extend(connection, lease, phase)


async def _extend(connection: Connection, lease: LeaseRef, phase: Phase | None) -> LeaseAnswer:
    row = await connection.fetchrow(SQL["extend_lease"], lease.task_id, LEASE_SECONDS, phase and phase.value)
    assert row is not None, "the row is locked"
    return _answer(lease, row)


def _answer(lease: LeaseRef, row: asyncpg.Record) -> LeaseAnswer:
    return LeaseAnswer(
        task_id=str(lease.task_id),
        status=row["status"],
        lease_expires_at=row["lease_expires_at"],
        interrupt_requested=row["interrupt_requested"],
        interrupt_generation=row["interrupt_generation"],
    )


async def _lock_current(connection: Connection, lease: LeaseRef) -> asyncpg.Record:
    """The task under lock; LeaseLost unless the token is its current one and no result has come."""
    [task] = await lock_executions(connection, [lease.task_id])
    held = task["status"] == "queued" or task["status"] in STARTED
    current = lease.token is not None and task["lease_token_hash"] == digest(lease.token)
    if not held or not current or task["result_received_at"] is not None:
        raise LeaseLost("the lease token is not the task's current one; drop the task")
    return task


async def cancel(pool: Pool, lease: LeaseRef, call: CancelCall) -> CancelAnswer:
    """Give a task back. Before the start: to the queue. After an interrupt: preempted. Else: to the queue, uncounted.

    NotFound, LeaseLost, StaleGeneration (recorded, nothing changed, the current order is sent again).
    """
    return await _stop(pool, lease, Stop(call.interrupt_generation, call.reason))


async def acknowledge_interrupt(
    pool: Pool, client: ClientIdentity, task_id: UUID, call: InterruptAckCall
) -> CancelAnswer:
    """The same with phase and safe point. Without a lease token: the desktop no longer runs it, `already_settled`."""
    stop = Stop(
        generation=call.interrupt_generation,
        reason=call.reason,
        phase=call.phase,
        safe_point=call.safe_point,
        safe_point_interval_ms=call.safe_point_interval_ms,
        phase_times={phase.value: ms for phase, ms in call.phase_times.items()},
    )
    return await _stop(pool, LeaseRef(client, task_id, call.lease_token), stop)


async def _stop(pool: Pool, lease: LeaseRef, stop: Stop) -> CancelAnswer:
    async with transaction(pool) as connection:
        await _find(connection, lease)
        if lease.token is None:
            [task] = await lock_executions(connection, [lease.task_id])
        else:
            task = await _lock_current(connection, lease)
        stale = task["status"] in STARTED and not follows(stop.generation, task["interrupt_generation"])
        if stale:
            await _record_stale(connection, lease, stop, task)
        else:
            result = await (
                _settle(connection, stop, task) if lease.token is None else _give_up(connection, stop, task)
            )
    # Raised after the commit: the record of the stale callback stays.
    if stale:
        raise stale_refusal(stop, task)
    return CancelAnswer.model_validate({"task_id": str(lease.task_id), "result": result})


def stale_refusal(stop: Stop, task: asyncpg.Record) -> StaleGeneration:
    """The refusal of a stop older than the task's generation; it says the current order, which the hub sends again."""
    current = task["interrupt_generation"]
    return StaleGeneration(
        f"generation {stop.generation} is older than {current}; not applied",
        interrupt_requested=task["interrupt_requested"],
        interrupt_generation=current,
    )


async def _record_stale(connection: Connection, lease: LeaseRef, stop: Stop, task: asyncpg.Record) -> None:
    client = lease.client
    await connection.execute(
        SQL["record_stale_callback"],
        client.tenant_id,
        client.client_id,
        lease.task_id,
        stop.generation,
        task["interrupt_generation"],
        stop.reason,
    )
    count(metrics.generation_mismatches)
    control = Control.INTERRUPT_REQUESTED if task["interrupt_requested"] else Control.INTERRUPT_WITHDRAWN
    await write_outbox(connection, [control_row(task, control, client.tenant_id)])


async def _give_up(connection: Connection, stop: Stop, task: asyncpg.Record) -> str:
    await _record_stop(connection, stop, task)
    if task["interrupt_requested"]:
        await release(connection, [task["id"]], Release.PREEMPTED, error=stop.reason)
        return "preempted"
    await release(connection, [task["id"]], Release.RETURNED, error=stop.reason)
    return "requeued"


async def _settle(connection: Connection, stop: Stop, task: asyncpg.Record) -> str:
    """The desktop does not run it any more: its slot is free now, not when the lease runs out.

    A task still waiting there, and one that runs without an order to stop, keep their leases.
    """
    revoked = task["status"] == "unknown" and task["lease_token_hash"] is None
    runs = task["status"] in STARTED and task["result_received_at"] is None
    if runs and (task["interrupt_requested"] or revoked):
        await _record_stop(connection, stop, task)
        await release(connection, [task["id"]], Release.PREEMPTED, error=stop.reason)
    else:
        await settle_interrupts(connection, [task["id"]])
    return "already_settled"


async def _record_stop(connection: Connection, stop: Stop, task: asyncpg.Record) -> None:
    await connection.execute(
        SQL["record_stop"],
        task["id"],
        stop.phase and stop.phase.value,
        stop.safe_point and stop.safe_point.value,
        stop.safe_point_interval_ms,
        stop.phase_times,
        stop.generation,
    )
