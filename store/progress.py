"""Counters and status of requests and batches, recounted in whichever transaction changes a task (1-dispatch §1.5).

Lock order: the caller has locked its tasks before; here requests by id, then batches by id.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

import asyncpg

from domain.hints import WAITING_FOR_PLATFORM
from domain.messages import SignalName, collect_now_workflow_id
from domain.progress import crosses_step
from store.database import Connection
from store.hints import judge_platforms
from store.listen import REQUESTS, wake
from store.outbox import OutboxRow, signal, write_outbox
from store.statements import statements
from telemetry import metrics
from telemetry.effects import observe

SQL = statements("progress")


@dataclass(frozen=True, slots=True)
class BatchDelta:
    """What one transaction settled of a batch. A task that is reopened counts negatively."""

    completed: int = 0
    failed: int = 0
    skipped: int = 0
    expired: int = 0


async def refresh_requests(connection: Connection, request_ids: Collection[UUID]) -> None:
    """Recount the requests and set their status; writes the signals that their workflows need.

    Statements of their own, because a recount must see what committed before the lock was ours. A terminal request
    is left as it is. Idempotent: with nothing changed it writes nothing.
    """
    ids = sorted(set(request_ids))
    if not ids:
        return
    before = {row["id"]: row for row in await connection.fetch(SQL["lock_requests"], ids)}
    cancelled = [row["id"] for row in before.values() if row["cancelled"]]
    if cancelled:
        await connection.execute(SQL["detach_from_cancelled"], cancelled)
    after = await connection.fetch(SQL["recount_requests"], list(before))
    for row in after:
        _measure(before[row["id"]], row)
    rows = [event for row in after for event in _request_signals(before[row["id"]], row)]
    await write_outbox(connection, rows)
    await judge_platforms(connection, [row["id"] for row in after if _may_wait_for_platform(row)])
    if after:
        await wake(connection, REQUESTS)


def _measure(old: asyncpg.Record, new: asyncpg.Record) -> None:
    """How long the request took to its first dispatch and first result, each once, by who saw it."""
    if old["first_dispatched_at"] is None and new["first_dispatched_at"] is not None:
        observe(metrics.first_dispatch_latency, _since_click(new, "first_dispatched_at"))
    if old["first_result_at"] is None and new["first_result_at"] is not None:
        observe(metrics.first_result_latency, _since_click(new, "first_result_at"))


def _since_click(row: asyncpg.Record, name: str) -> float:
    return float((row[name] - row["created_at"]).total_seconds() * 1000)


def _may_wait_for_platform(row: asyncpg.Record) -> bool:
    """Whether to look at who holds the platforms: it was so before, or nothing of the request has got anywhere."""
    if not row["waiting"]:
        return bool(row["hint"] == WAITING_FOR_PLATFORM)
    settled = row["completed_task_count"] + row["failed_task_count"]
    stuck = row["hint"] is None and row["waiting"] + settled == row["held"]
    return bool(row["hint"] == WAITING_FOR_PLATFORM) or stuck


def _request_signals(old: asyncpg.Record, new: asyncpg.Record) -> list[OutboxRow]:
    workflow = collect_now_workflow_id(new["id"])
    events = []
    if old["dispatched_task_count"] == 0 < new["dispatched_task_count"]:
        payload = {"count": new["dispatched_task_count"], "at": new["first_dispatched_at"]}
        events.append(signal(workflow, SignalName.DISPATCHED, payload, new["tenant_id"]))
    settled_before = old["completed_task_count"] + old["failed_task_count"]
    settled = new["completed_task_count"] + new["failed_task_count"]
    over = new["status"] not in ("accepted", "dispatching", "running")
    if over or crosses_step(settled_before, settled, new["held"], steps=4):
        payload = {
            "completed": new["completed_task_count"],
            "failed": new["failed_task_count"],
            "remaining": new["held"] - settled,
            "returned": new["returned_task_count"],
        }
        events.append(signal(workflow, SignalName.TASKS_TERMINAL, payload, new["tenant_id"]))
    return events


async def add_to_batches(connection: Connection, deltas: Mapping[int, BatchDelta]) -> None:
    """Add to the counters of batches; signals `progress` at most N/50 times, never over 20 a run, and at the end."""
    if not deltas:
        return
    given = deltas.values()
    rows = await connection.fetch(
        SQL["add_to_batches"],
        list(deltas),
        [each.completed for each in given],
        [each.failed for each in given],
        [each.skipped for each in given],
        [each.expired for each in given],
    )
    signals = [await _progress(connection, row) for row in rows if _is_worth_telling(row)]
    await write_outbox(connection, signals)


def _is_worth_telling(row: asyncpg.Record) -> bool:
    steps = min(20, max(1, row["expected_count"] // 50))
    return crosses_step(row["settled_before"], row["settled"], row["expected_count"], steps=steps)


async def _progress(connection: Connection, row: asyncpg.Record) -> OutboxRow:
    dispatched = await connection.fetchval(SQL["count_dispatched"], row["id"])
    payload = {"settled": row["settled"], "dispatched": dispatched, "expected": row["expected_count"]}
    return signal(row["workflow_id"], SignalName.PROGRESS, payload, row["tenant_id"])
