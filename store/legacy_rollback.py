"""The emergency way back to the legacy path, in one transaction (dispatch §16.2.3, 1-dispatch §1.7).

Lock order: all tenants (one advisory lock, then the rows of those concerned by id), business tasks by id, execution
tasks by id, requests by id. No call outside; the desktops are told through the outbox.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

import asyncpg

from domain.protocol import Control
from store.controls import control_row
from store.database import Connection, Pool, transaction
from store.interrupts import lock_concerned_requests, resume_batches, settle_interrupts
from store.listen import DISPATCH, wake
from store.outbox import write_outbox
from store.progress import refresh_requests
from store.settings import write_dispatch_setting
from store.settlement import settle_cancelled
from store.statements import statements

SQL, LOCKS = statements("legacy_rollback"), statements("locks")

# A table may be read whole here; the usual bound of a statement is for work that somebody waits for.
STATEMENT_TIMEOUT: Final = "15min"


@dataclass(frozen=True, slots=True)
class RolledBack:
    """What was moved. `executions`: aborted execution tasks by what they were doing: queued, leased, in_progress,
    unknown, received."""

    tenants: int = 0
    tasks: int = 0
    executions: dict[str, int] = field(default_factory=dict)
    requests: int = 0
    # Desktops that were told to drop something.
    clients: int = 0


async def roll_back(pool: Pool, *, actor: str) -> RolledBack:
    """Abort all live monitor executions, move all unfinished business tasks to the legacy path, and end the roll-out.

    Idempotent: with nothing left on the new path it only sets the roll-out to 0 %. Whoever decides on a path meanwhile
    has committed before, and is moved, or reads 0 %. A result that comes later from an aborted attempt is still taken.
    """
    async with transaction(pool) as connection:
        await connection.execute(f"set local statement_timeout = '{STATEMENT_TIMEOUT}'")
        await connection.execute(LOCKS["lock_all_tenants"])
        await write_dispatch_setting(connection, "rollout_percent", 0, actor=actor)
        tenants = await _lock_tenants(connection)
        tasks = [row["id"] for row in await connection.fetch(SQL["lock_business_tasks"], tenants)]
        live = [row["id"] for row in await connection.fetch(SQL["lock_execution_tasks"], tenants)]
        requests = await _lock_requests(connection, tasks, live)
        aborted = await connection.fetch(SQL["abort_executions"], live)
        moved = await connection.fetch(SQL["move_tasks"], tasks)
        await _conclude(connection, requests, [row["id"] for row in aborted], [row["id"] for row in moved])
        await write_outbox(connection, [control_row(row, Control.CANCELED, row["tenant_id"]) for row in aborted])
        done = _summary(moved, aborted)
        await connection.execute(SQL["record"], actor, _detail(done))
        return done


async def _lock_tenants(connection: Connection) -> list[int]:
    """Rounds of these tenants have committed, or find that they are out of date."""
    found = [row["tenant_id"] for row in await connection.fetch(SQL["find_tenants"])]
    await connection.execute(SQL["lock_tenants"], found)
    return found


async def _lock_requests(connection: Connection, tasks: Sequence[int], live: Sequence[UUID]) -> list[UUID]:
    found = [row["id"] for row in await connection.fetch(SQL["find_requests"], tasks, live)]
    await lock_concerned_requests(connection, found, [])
    return found


async def _conclude(
    connection: Connection, requests: Sequence[UUID], executions: Sequence[UUID], tasks: Sequence[int]
) -> None:
    """Interrupts settle, for their victims have stopped; requests are recounted, and batches go on."""
    await settle_interrupts(connection, executions)
    await refresh_requests(connection, requests)
    await settle_cancelled(connection, tasks)
    await resume_batches(connection)
    await wake(connection, DISPATCH)


def _summary(moved: Sequence[asyncpg.Record], aborted: Sequence[asyncpg.Record]) -> RolledBack:
    return RolledBack(
        tenants=len({row["tenant_id"] for row in moved}),
        tasks=len(moved),
        executions=dict(sorted(Counter(row["was"] for row in aborted).items())),
        requests=len({row["collect_request_id"] for row in moved} - {None}),
        clients=len({row["target_client_id"] for row in aborted}),
    )


def _detail(done: RolledBack) -> dict[str, object]:
    return {"tenants": done.tenants, "tasks": done.tasks, "executions": done.executions, "requests": done.requests}
