"""Closing work: attempt, execution row, business task, counters and marks, set-based in the caller's transaction.

1-dispatch §1.5, 2-desktop §2.2, 3-results §3.2. The rules are in `domain/settlement.py`. Lock order: business tasks
by id, execution rows by id, requests by id, batches by id.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from uuid import UUID

import asyncpg

from domain.protocol import Control
from domain.settlement import DUPLICATE, Case, Ruling, TaskEffect, rule_failure, rule_success
from store.controls import control_row
from store.database import Connection
from store.interrupts import lock_concerned_requests, resume_batches, settle_interrupts
from store.listen import DISPATCH, PROJECTION, wake
from store.outbox import OutboxRow, write_outbox
from store.progress import BatchDelta, add_to_batches, refresh_requests
from store.statements import statements

SQL = statements("settlement")


@dataclass(frozen=True, slots=True)
class Ending:
    """How one attempt ended. `phase_times` in milliseconds by phase; `received_at` None: there was no result."""

    attempt_id: UUID
    succeeded: bool
    error: str | None = None
    received_at: datetime | None = None
    phase_times: Mapping[str, float] = field(default_factory=dict)
    # For a failure: what the attempt's outcome becomes (failed, lease_expired, revoked …).
    outcome: str = "failed"


async def settle(connection: Connection, endings: Sequence[Ending]) -> dict[UUID, Ruling]:
    """Close the attempts and all that follows; returns the ruling of each known attempt.

    At most one ending per business task. An attempt settled before is ruled DUPLICATE and changes nothing; an unknown
    one is not in the answer. Idempotent.
    """
    ids = [ending.attempt_id for ending in endings]
    await connection.execute(SQL["lock_tasks"], ids)
    await connection.execute(SQL["lock_executions"], ids)
    await connection.execute(SQL["lock_requests"], ids)
    cases = {row["attempt_id"]: Case(**row) for row in await connection.fetch(SQL["read_cases"], ids)}
    known = [ending for ending in endings if ending.attempt_id in cases]
    rulings = {ending.attempt_id: _rule(cases[ending.attempt_id], ending) for ending in known}
    changed = [_Change(cases[each.attempt_id], each, rulings[each.attempt_id]) for each in known]
    await _apply(connection, [change for change in changed if change.ruling != DUPLICATE])
    return rulings


async def fail_tasks(
    connection: Connection, execution_ids: Collection[UUID], reason: str, *, outcome: str = "lease_expired"
) -> int:
    """A counted failure without a result (lease lost after the start, client gone); returns how many were failed.

    Execution rows that are no longer live are left alone. `outcome` is written to their attempts.
    """
    if not execution_ids:
        return 0
    rows = await connection.fetch(SQL["running_attempts"], list(execution_ids))
    rulings = await settle(connection, [Ending(row["attempt_id"], False, reason, outcome=outcome) for row in rows])
    return sum(ruling.execution_status is not None for ruling in rulings.values())


@dataclass(frozen=True, slots=True)
class _Change:
    case: Case
    ending: Ending
    ruling: Ruling


def _rule(case: Case, ending: Ending) -> Ruling:
    return rule_success(case) if ending.succeeded else rule_failure(case, ending.outcome)


async def _apply(connection: Connection, changes: Sequence[_Change]) -> None:
    if not changes:
        return
    await _end_attempts(connection, changes)
    closed = await _end_executions(connection, [each for each in changes if each.ruling.execution_status is not None])
    tasks = await _end_tasks(connection, [each for each in changes if each.ruling.effect is not TaskEffect.KEEP])
    closed += await _cancel_replaced(connection, [row["id"] for row in tasks if row["effect"] == TaskEffect.COMPLETE])
    await _count(connection, tasks, closed)
    await resume_batches(connection, {row["target_client_id"] for row in closed})
    await connection.execute(SQL["mark_projections"], sorted({each.case.task_id for each in changes}))
    await wake(connection, DISPATCH, PROJECTION)


async def _end_attempts(connection: Connection, changes: Sequence[_Change]) -> None:
    await connection.execute(
        SQL["end_attempts"],
        [each.case.attempt_id for each in changes],
        [each.ruling.attempt_outcome for each in changes],
        [each.ending.error for each in changes],
        [each.ending.received_at for each in changes],
        [dict(each.ending.phase_times) for each in changes],
    )


async def _end_executions(connection: Connection, changes: Sequence[_Change]) -> list[asyncpg.Record]:
    if not changes:
        return []
    return await connection.fetch(
        SQL["end_executions"],
        [each.case.execution_id for each in changes],
        [each.ruling.execution_status for each in changes],
        [each.ending.error for each in changes],
        [each.ending.received_at for each in changes],
    )


async def _end_tasks(connection: Connection, changes: Sequence[_Change]) -> list[asyncpg.Record]:
    if not changes:
        return []
    return await connection.fetch(
        SQL["end_tasks"],
        [each.case.task_id for each in changes],
        [each.ruling.effect.value for each in changes],
        [each.ending.error for each in changes],
    )


async def _cancel_replaced(connection: Connection, task_ids: Sequence[int]) -> list[asyncpg.Record]:
    """Newer work on tasks that a result has just completed: closed, and its desktop is told to stop."""
    if not task_ids:
        return []
    aborted = await connection.fetch(SQL["abort_replaced"], task_ids)
    superseded = await connection.fetch(SQL["supersede_attempts"], task_ids)
    told = {(str(row["id"]), row["target_client_id"]): row for row in chain(superseded, aborted)}
    await write_outbox(connection, [_canceled(row) for _, row in sorted(told.items())])
    return aborted


def _canceled(row: asyncpg.Record) -> OutboxRow:
    return control_row(row, Control.CANCELED, row["tenant_id"], reason="superseded_by_result")


async def _count(connection: Connection, tasks: Sequence[asyncpg.Record], closed: Sequence[asyncpg.Record]) -> None:
    """Counters of requests and batches, and interrupts that are settled because their victim's slot came free.

    What a cancelled request let go of may be a cancelled or paused batch's: skipped or held after the recount, the
    skipped counted with the rest.
    """
    requests = {row["collect_request_id"] for row in tasks if row["collect_request_id"] is not None}
    victims = [row["id"] for row in closed if row["interrupt_request_id"] is not None]
    if requests or victims:
        await lock_concerned_requests(connection, requests, victims)
        await settle_interrupts(connection, victims)
        await refresh_requests(connection, requests)
    completed = _batches(tasks, TaskEffect.COMPLETE)
    failed = _batches(tasks, TaskEffect.FAIL)
    # Only what is pending again can be a paused or cancelled batch's.
    again = [row["id"] for row in tasks if row["effect"] not in (TaskEffect.COMPLETE, TaskEffect.FAIL)]
    skipped = Counter(row["batch_id"] for row in await _skip_cancelled(connection, again))
    changed = completed.keys() | failed.keys() | skipped.keys()
    await add_to_batches(connection, {id: BatchDelta(completed[id], failed[id], skipped[id]) for id in changed})


def _batches(tasks: Sequence[asyncpg.Record], effect: TaskEffect) -> Counter[int]:
    return Counter(row["batch_id"] for row in tasks if row["effect"] == effect and row["batch_id"] is not None)


async def settle_cancelled(connection: Connection, task_ids: Collection[int]) -> None:
    """What came back to a cancelled batch is `skipped` and counted there, to a paused one held: nobody dispatches it.

    For whoever gives tasks back without a result; the caller holds the tasks and their requests.
    """
    skipped = await _skip_cancelled(connection, task_ids)
    if not skipped:
        return
    counts = Counter(row["batch_id"] for row in skipped)
    await add_to_batches(connection, {batch: BatchDelta(skipped=count) for batch, count in counts.items()})
    await mark_projections(connection, [row["id"] for row in skipped])


async def _skip_cancelled(connection: Connection, task_ids: Collection[int]) -> list[asyncpg.Record]:
    if not task_ids:
        return []
    rows: list[asyncpg.Record] = await connection.fetch(SQL["skip_cancelled"], sorted(task_ids))
    return rows


async def mark_projections(connection: Connection, task_ids: Collection[int]) -> None:
    """Have the brand-days of these business tasks rebuilt; wakes the rebuilder at commit."""
    await connection.execute(SQL["mark_projections"], sorted(set(task_ids)))
    await wake(connection, PROJECTION)
