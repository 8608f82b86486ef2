"""The ends of interrupts: victims that settle, and batches whose desktop is theirs again (1-dispatch §1.5 signals).

Lock order: the caller holds its execution tasks; here requests by id, then batch yields by key.
"""

from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID

import asyncpg

from domain.messages import SignalName, collect_now_workflow_id
from store.database import Connection
from store.listen import REQUESTS, wake
from store.outbox import OutboxRow, signal, write_outbox
from store.statements import statements
from telemetry import metrics
from telemetry.effects import count

SQL = statements("interrupts")

RESUME_LIMIT: Final = 500


async def settle_interrupts(connection: Connection, execution_ids: Collection[UUID]) -> int:
    """Victims among these execution tasks stopped, finished or were revoked; returns how many settled now.

    Moves the preemptor's `interrupt_settled_count` and signals `interrupt_settled` with the totals of each
    (request, client, generation). Idempotent: a task settles once, and one without an interrupt not at all.
    """
    settled = await connection.fetch(SQL["settle_flags"], sorted(execution_ids)) if execution_ids else []
    if not settled:
        return 0
    requests = [row["interrupt_request_id"] for row in settled]
    clients = [row["target_client_id"] for row in settled]
    generations = [row["interrupt_generation"] for row in settled]
    await connection.execute(SQL["lock_requests"], requests)
    await connection.execute(SQL["count_settled"], requests)
    count(metrics.preempt_successes, len(settled))
    await _tell_totals(connection, requests, clients, generations)
    return len(settled)


async def take_over(connection: Connection, rows: Sequence[asyncpg.Record]) -> None:
    """Orders to stop that are no longer the `former_request_id`'s: it counts them as withdrawn, its workflow is told.

    Rows of other victims (no former request) are passed over. The caller has the requests locked.
    """
    taken = [row for row in rows if row["former_request_id"] is not None]
    if not taken:
        return
    requests = [row["former_request_id"] for row in taken]
    clients = [row["target_client_id"] for row in taken]
    await connection.execute(SQL["count_withdrawn"], requests)
    await _tell_totals(connection, requests, clients, [row["former_generation"] for row in taken])


async def _tell_totals(
    connection: Connection, requests: Sequence[UUID], clients: Sequence[UUID], generations: Sequence[int]
) -> None:
    totals = await connection.fetch(SQL["interrupt_totals"], requests, clients, generations)
    await write_outbox(connection, [_settled_signal(row) for row in totals])
    await wake(connection, REQUESTS)


async def lock_concerned_requests(
    connection: Connection, request_ids: Collection[UUID], execution_ids: Collection[UUID]
) -> None:
    """Lock these requests and the preemptors of these execution tasks, by id: nobody locks another one later."""
    await connection.execute(SQL["lock_concerned_requests"], sorted(request_ids), sorted(execution_ids))


def _settled_signal(row: asyncpg.Record) -> OutboxRow:
    payload = {
        "client_id": str(row["target_client_id"]),
        "generation": row["interrupt_generation"],
        "settled": row["settled"],
        "outstanding": row["outstanding"],
    }
    workflow = collect_now_workflow_id(row["interrupt_request_id"])
    return signal(workflow, SignalName.INTERRUPT_SETTLED, payload, row["tenant_id"])


async def resume_batches(connection: Connection, client_ids: Collection[UUID] | None = None) -> int:
    """Signal `resumed` to batches that gave way on these clients (None: on any) once the high work there is over.

    Two transactions that end the last two high tasks at once each see the other's: the sweeper calls this for all
    clients, so nothing waits for good. Returns how many yields ended.
    """
    clients = None if client_ids is None else sorted(client_ids)
    yields = await connection.fetch(SQL["finished_yields"], clients, RESUME_LIMIT)
    if not yields:
        return 0
    resumed = await connection.fetch(
        SQL["resume_yields"],
        [row["batch_id"] for row in yields],
        [row["client_id"] for row in yields],
        [row["generation"] for row in yields],
    )
    # The newest generation says it for the older ones: a handler drops what is older than it has seen.
    newest = {(row["workflow_id"], row["client_id"]): row for row in sorted(resumed, key=lambda row: row["generation"])}
    await write_outbox(connection, [_resumed_signal(row) for row in newest.values()])
    return len(resumed)


def _resumed_signal(row: asyncpg.Record) -> OutboxRow:
    payload = {"client_id": str(row["client_id"]), "generation": row["generation"]}
    return signal(row["workflow_id"], SignalName.RESUMED, payload, row["tenant_id"])
