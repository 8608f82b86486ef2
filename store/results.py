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
from store.clients import digest
from store.database import Pool, transaction
from store.interrupts import settle_interrupts
from store.listen import DISPATCH, wake
from store.releases import lock_executions
from store.statements import statements

SQL = statements("leases")

# Ends that the server brought about while the desktop may have gone on: its answer is still worth taking.
TAKEN_AWAY: Final = frozenset({"lease_expired", "revoked"})


@dataclass(frozen=True, slots=True)
class ResultTarget:
    """The attempt a result belongs to. `duplicate`: it has been received before; nothing needs to be published.

    `received_at`: now, by the database's clock.
    """

    attempt_id: UUID
    task_id: UUID
    monitor_task_id: int
    tenant_id: int
    client_id: UUID
    shard_key: str
    duplicate: bool
    received_at: datetime


async def find_attempt_for_result(pool: Pool, client: ClientIdentity, task_id: UUID, call: ResultCall) -> ResultTarget:
    """The genuine attempt of this token. NotFound for a task not of the client; LeaseLost when nothing may come of it.

    Taken from the current lease, also when it ran out unnoticed; a success also from a lease that was revoked or
    expired, while the business task is unfinished and the attempt satisfies the request that wants it.
    """
    tenant, token = client.tenant_id, digest(call.lease_token)
    row = await pool.fetchrow(
        SQL["find_result_attempt"], call.attempt_id, task_id, tenant, client.client_id, token
    )  # fmt: skip
    if row is None:
        if await pool.fetchval(SQL["find_task"], task_id, tenant, client.client_id) is None:
            raise NotFound(f"no task {task_id}")
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
    late = outcome == "succeeded" and row["outcome"] in TAKEN_AWAY and row["task_status"] == "pending"
    accepted = row["request_accepted_at"]
    return late and (accepted is None or row["started_at"] >= accepted or row["source"] == "collect_now")


async def mark_result_received(pool: Pool, target: ResultTarget, phase_times: Mapping[str, float]) -> bool:
    """The broker has it: the lease is over and the slot free, a pending interrupt is settled. False: it was so before.

    `phase_times` in milliseconds by phase.
    """
    async with transaction(pool) as connection:
        await lock_executions(connection, [target.task_id])
        times = dict(phase_times)
        if await connection.fetchval(SQL["mark_attempt_received"], target.attempt_id, times, target.tenant_id) is None:
            return False
        if await connection.fetchval(SQL["mark_task_received"], target.task_id, target.attempt_id) is not None:
            await settle_interrupts(connection, [target.task_id])
            await wake(connection, DISPATCH)
        return True
