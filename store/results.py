"""A result on its way: whose it is, and that it is safe (2-desktop §2.2).

Two steps around the publish, since no external call happens inside a transaction: `find_attempt_for_result`, then the
confirmed publish, then `mark_result_received`. Sending a result again repeats all three and changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

import asyncpg

from domain.desktop_calls import ResultCall
from domain.errors import LeaseLost, NotFound
from domain.hub_port import ClientIdentity
from domain.legacy import TaskId, wire_id
from domain.settlement import UNFINISHED
from store.clients import digest
from store.database import Connection, Pool, transaction
from store.interrupts import settle_interrupts
from store.listen import DISPATCH, wake
from store.releases import lock_executions
from store.statements import statements
from telemetry import metrics
from telemetry.effects import count

SQL, LEGACY = statements("leases"), statements("legacy_leases")

# Ends that the server brought about while the desktop may have gone on: its answer is still worth taking.
TAKEN_AWAY: Final = frozenset({"lease_expired", "revoked"})


@dataclass(frozen=True, slots=True)
class ResultTarget:
    """The attempt a result belongs to. `duplicate`: it has been received before; nothing needs to be published.

    `received_at`: now, by the database's clock.
    """

    attempt_id: UUID
    task_id: TaskId
    monitor_task_id: int
    tenant_id: int
    client_id: UUID
    shard_key: str
    duplicate: bool
    received_at: datetime


async def find_attempt_for_result(
    pool: Pool, client: ClientIdentity, task_id: TaskId, call: ResultCall
) -> ResultTarget:
    """The genuine attempt of this token. NotFound for a task not of the client; LeaseLost when nothing may come of it.

    Taken from the current lease, also when it ran out unnoticed; a success also from a lease that was revoked or
    expired, while the business task is unfinished and the attempt satisfies the request that wants it.
    """
    sql = LEGACY if isinstance(task_id, int) else SQL
    tenant, token = client.tenant_id, digest(call.lease_token)
    row = await pool.fetchrow(
        sql["find_result_attempt"], call.attempt_id, task_id, tenant, client.client_id, token
    )  # fmt: skip
    if row is None:
        if not await pool.fetchval(sql["find_task"], task_id, tenant, client.client_id):
            raise NotFound(f"no task {wire_id(task_id)}")
        raise LeaseLost("no lease of this task has that attempt and token; drop the result")
    duplicate = row["result_received_at"] is not None
    if not duplicate and not _may_come(row, call.outcome):
        raise LeaseLost("this attempt is over and its result is not wanted any more; drop the result")
    return ResultTarget(
        attempt_id=call.attempt_id,
        task_id=task_id,
        monitor_task_id=row["monitor_task_id"],
        tenant_id=tenant,
        client_id=client.client_id,
        shard_key=row["ingest_shard_key"],
        duplicate=duplicate,
        received_at=row["received_at"],
    )


def _may_come(row: asyncpg.Record, outcome: str) -> bool:
    if row["started_at"] is None:
        return False
    if row["ended_at"] is None:
        return bool(row["is_current"]) and row["execution_status"] in ("in_progress", "unknown")
    late = outcome == "succeeded" and row["outcome"] in TAKEN_AWAY and row["task_status"] in UNFINISHED
    accepted = row["request_accepted_at"]
    return late and (accepted is None or row["started_at"] >= accepted or row["source"] == "collect_now")


async def mark_result_received(
    pool: Pool, target: ResultTarget, phase_times: Mapping[str, float], longest_interval_ms: float | None = None
) -> bool:
    """The broker has it: the lease is over and the slot free, a pending interrupt is settled. False: it was so before.

    `phase_times` in milliseconds by phase. `longest_interval_ms`: between two safe points, for the weekly tuning.
    """
    async with transaction(pool) as connection:
        await _lock(connection, target.task_id)
        times = dict(phase_times)
        marked = await connection.fetchval(
            SQL["mark_attempt_received"], target.attempt_id, times, target.tenant_id, longest_interval_ms
        )
        if marked is None:
            return False
        await _free_slot(connection, target.task_id, target.attempt_id)
        count(metrics.results_received)
        return True


async def _lock(connection: Connection, task_id: TaskId) -> None:
    if isinstance(task_id, int):
        await connection.execute(LEGACY["lock_tasks"], [task_id])
    else:
        await lock_executions(connection, [task_id])


async def _free_slot(connection: Connection, task_id: TaskId, attempt_id: UUID) -> None:
    """The task waits for its ingest alone, if this attempt still held it."""
    if isinstance(task_id, int):
        held = await connection.fetchval(LEGACY["mark_received"], task_id, attempt_id)
    else:
        held = await connection.fetchval(SQL["mark_task_received"], task_id, attempt_id)
    if held is None:
        return
    if isinstance(task_id, UUID):
        await settle_interrupts(connection, [task_id])
    await wake(connection, DISPATCH)
