"""An operator takes a task from a desktop that does not let go of it (6-operations, Control)."""

from uuid import UUID

import asyncpg

from domain.errors import Conflict, NotFound
from domain.protocol import Control
from store.controls import control_row
from store.database import Connection
from store.interrupts import lock_concerned_requests, settle_interrupts
from store.listen import DISPATCH, wake
from store.outbox import write_outbox
from store.releases import Release, lock_executions, release
from store.statements import statements

SQL = statements("force_release")


async def force_release(connection: Connection, task_id: UUID, *, actor: str) -> str:
    """Revoke the lease and tell the desktop; returns the task's new status. Audited.

    What waits goes back to the queue (`aborted`); what runs becomes `unknown`, its slot free, no attempt counted, and
    an answer that comes after all is still taken. NotFound; Conflict when there is nothing to release.
    """
    found = await connection.fetchrow(SQL["find_task"], task_id)
    if found is None:
        raise NotFound(f"no execution task {task_id}")
    [task] = await lock_executions(connection, [task_id])
    if task["status"] == "queued":
        status = await _take_back(connection, task)
    elif task["status"] == "in_progress" and task["result_received_at"] is None:
        status = await _revoke(connection, task)
    else:
        raise Conflict(f"task {task_id} is {_state_of(task)}: there is no lease to take away")
    await connection.execute(SQL["audit"], task["tenant_id"], actor, task_id, task["target_client_id"], task["status"])
    return status


def _state_of(task: asyncpg.Record) -> str:
    return "received" if task["result_received_at"] is not None else str(task["status"])


async def _take_back(connection: Connection, task: asyncpg.Record) -> str:
    await release(connection, [task["id"]], Release.CANCELLED, error="released by an operator")
    await write_outbox(connection, [control_row(task, Control.CANCELED, task["tenant_id"], reason="force_released")])
    return "aborted"


async def _revoke(connection: Connection, task: asyncpg.Record) -> str:
    await lock_concerned_requests(connection, [], [task["id"]])
    await settle_interrupts(connection, [task["id"]])
    row = await connection.fetchrow(SQL["revoke"], task["id"])
    assert row is not None, "the row is locked and in progress"
    await write_outbox(connection, [control_row(row, Control.CANCELED, row["tenant_id"])])
    await wake(connection, DISPATCH)
    return "unknown"
