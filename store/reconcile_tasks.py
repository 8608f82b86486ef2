"""Tasks and execution tasks that contradict each other, or wait for a request that is over (1-dispatch §1.8)."""

from collections.abc import Collection, Sequence
from typing import Any, Final
from uuid import UUID

import asyncpg

from domain.messages import RequestRef
from domain.protocol import Control
from store import requests
from store.controls import control_row
from store.database import Connection, Pool, transaction
from store.interrupts import resume_batches
from store.listen import DISPATCH, wake
from store.outbox import write_outbox
from store.progress import refresh_requests
from store.reconcile_audit import Fix, record_fixes
from store.releases import Release, lock_executions, release
from store.settlement import settle_cancelled
from store.statements import statements

SQL = statements("reconcile")

# No transaction takes so long: what contradicts itself after it will not heal by itself.
DAMAGE_SECONDS: Final = 60


async def free_tasks(pool: Pool, limit: int) -> int:
    """Business tasks held by an execution task that is missing or over may be dispatched again."""
    async with transaction(pool) as connection:
        found = await _ids(connection, "find_held_by_nothing", DAMAGE_SECONDS, limit)
        if not found:
            return 0
        await connection.execute(SQL["lock_tasks"], found)
        rows = await connection.fetch(SQL["free_tasks"], found)
        await refresh_requests(connection, _requests(rows))
        await settle_cancelled(connection, [row["id"] for row in rows])
        await wake(connection, DISPATCH)
        fixes = [Fix(row["tenant_id"], f"task {row['id']}", {"held_by": str(row["execution_id"])}) for row in rows]
        return await record_fixes(connection, "freed_tasks", fixes)


async def mend_blocked(pool: Pool, limit: int) -> int:
    """Live execution tasks unknown to their waiting business task, which therefore could never be dispatched.

    One that was not started is taken back; one that a desktop may be running becomes the task's.
    """
    async with transaction(pool) as connection:
        found = await _ids(connection, "find_blocked", DAMAGE_SECONDS, limit)
        if not found:
            return 0
        await lock_executions(connection, found)
        rows = await connection.fetch(SQL["read_blocked"], found)
        await connection.execute(SQL["adopt_executions"], [row["id"] for row in rows if row["status"] != "queued"])
        await _take_back(connection, [row["id"] for row in rows if row["status"] == "queued"])
        await refresh_requests(connection, _requests(rows))
        fixes = [Fix(row["tenant_id"], f"task {row['task_id']}", {"execution": str(row["id"])}) for row in rows]
        return await record_fixes(connection, "blocked_tasks", fixes)


async def mend_orphans(pool: Pool, limit: int) -> int:
    """Execution tasks that no business task wants and nobody can be running: closed, and their desktop told."""
    async with transaction(pool) as connection:
        rows = await connection.fetch(SQL["find_orphans"], limit)
        dead = [row["id"] for row in rows if row["dead"]]
        locked = await lock_executions(connection, dead)
        over = [row["id"] for row in locked if row["expired"] or row["status"] == "queued"]
        ended = await _take_back(connection, over)
        return await record_fixes(
            connection, "orphans", [Fix(row["tenant_id"], f"execution {row['id']}") for row in ended]
        )


async def report_orphans(pool: Pool, limit: int) -> int:
    """How many run for nobody; each is told in the audit once, and left to end by itself."""
    async with transaction(pool) as connection:
        rows = await connection.fetch(SQL["find_orphans"], limit)
        running = [row["id"] for row in rows if not row["dead"]]
        told = await connection.fetch(SQL["report_orphans"], running)
        await record_fixes(
            connection, "orphans_running", [Fix(row["tenant_id"], f"execution {row['id']}") for row in told]
        )
        return len(running)


async def _take_back(connection: Connection, execution_ids: Collection[UUID]) -> list[asyncpg.Record]:
    ended = await release(connection, execution_ids, Release.CANCELLED, error="taken back by reconcile")
    await write_outbox(
        connection, [control_row(row, Control.CANCELED, row["tenant_id"], reason="reconcile") for row in ended]
    )
    return ended


async def return_strays(pool: Pool, limit: int) -> int:
    """Tasks in high, or bound to a client, for no open request: back to the lane they came from, for anybody."""
    async with transaction(pool) as connection:
        found = await _ids(connection, "find_strays", limit)
        if not found:
            return 0
        await connection.execute(SQL["lock_tasks"], found)
        rows = await connection.fetch(SQL["return_strays"], found)
        await connection.execute(SQL["count_returned"], list({row["request_id"] for row in rows} - {None}))
        await settle_cancelled(connection, [row["id"] for row in rows])
        await resume_batches(connection, {row["client_id"] for row in rows} - {None})
        await wake(connection, DISPATCH)
        fixes = [Fix(row["tenant_id"], f"task {row['id']}", {"request": _text(row["request_id"])}) for row in rows]
        return await record_fixes(connection, "stray_tasks", fixes)


async def withdraw_interrupts(pool: Pool, limit: int) -> int:
    """Orders to stop for requests that are over: withdrawn with a newer generation. Returns how many requests' were."""
    rows = await pool.fetch(SQL["find_stale_interrupts"], limit)
    return sum([await _withdraw(pool, row) for row in rows])


async def _withdraw(pool: Pool, row: asyncpg.Record) -> int:
    ref = RequestRef(request_id=row["request_id"], tenant_id=row["tenant_id"])
    withdrawn = (await requests.withdraw_interrupts(pool, ref)).touched
    if not withdrawn:
        return 0
    fix = Fix(ref.tenant_id, f"request {ref.request_id}", {"withdrawn": withdrawn})
    async with pool.acquire() as connection:
        return await record_fixes(connection, "interrupts", [fix])


async def _ids(connection: Connection, statement: str, *arguments: Any) -> list[Any]:
    return [row["id"] for row in await connection.fetch(SQL[statement], *arguments)]


def _requests(rows: Sequence[asyncpg.Record]) -> set[UUID]:
    return {row["collect_request_id"] for row in rows} - {None}


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
