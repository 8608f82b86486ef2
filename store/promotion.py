"""Promoting the tasks of a scope to the high lane (1-dispatch §1.5 step 5). The caller holds their locks."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from uuid import UUID

import asyncpg

from domain.client_choice import ClientState
from domain.legacy import ExecutionOwner
from domain.messages import AcceptCommand
from domain.protocol import Control
from store.controls import control_row
from store.database import Connection
from store.interrupts import take_over
from store.legacy_preemption import adopt
from store.outbox import OutboxRow, write_outbox
from store.progress import BatchDelta, add_to_batches
from store.statements import statements

SQL = statements("promotion")


@dataclass(frozen=True, slots=True)
class Promoted:
    """`affected`: tasks of the scope; `promoted`: moved to high; the others were being executed and are adopted.

    `bound`: of the promoted, those that want a slot of the request's client. `taken`: finished tasks by the request
    that had asked for them before. `legacy`: of what is locked, something is on the legacy path.
    """

    affected: int
    promoted: int
    adopted: int
    bound: int
    taken: Counter[UUID]
    legacy: bool


async def promote(
    connection: Connection,
    command: AcceptCommand,
    client: ClientState | None,
    generation: int,
    task_ids: list[int],
    path: ExecutionOwner,
    *,
    closed: Collection[str],
    legacy: bool,
) -> Promoted:
    """Adopt what is being executed, take back what only waits on a desktop, move the rest to high and bind it.

    A task on a platform that the client is not logged in to stays unbound: another client may have it. So does one on
    a `closed` platform, where nothing may go now. What is asked anew takes this path; what waits or runs keeps its own.
    """
    adopted = await connection.fetch(SQL["adopt_running"], task_ids, command.request_id, generation)
    leased = await adopt(connection, task_ids, command.request_id, generation) if legacy else []
    returned = await connection.fetch(SQL["take_back_queued"], task_ids)
    interrupted = [row for row in adopted if row["was_interrupted"]]
    await take_over(connection, interrupted)
    advised = [row for row in leased if row["was_interrupted"]]
    orders = _orders([*interrupted, *advised], Control.INTERRUPT_WITHDRAWN, command.tenant_id, generation)
    await write_outbox(connection, orders + _orders(returned, Control.CANCELED, command.tenant_id, generation))
    moved = await connection.fetch(
        SQL["move_to_high"],
        task_ids,
        command.request_id,
        generation,
        client.client_id if client else None,
        sorted(client.logged_out.union(closed)) if client else [],
        path,
    )
    await _reopen_in_batches(connection, moved)
    return Promoted(
        affected=len(task_ids),
        promoted=len(moved),
        adopted=len(adopted) + len(leased),
        bound=sum(row["target_client_id"] is not None for row in moved),
        taken=Counter(row["old_request_id"] for row in moved if row["was_taken"]),
        legacy=legacy,
    )


def _orders(rows: Iterable[asyncpg.Record], control: Control, tenant_id: int, generation: int) -> list[OutboxRow]:
    reason = "collect_now_promoted"
    return [control_row(row, control, tenant_id, generation=generation, reason=reason) for row in rows]


async def _reopen_in_batches(connection: Connection, moved: Iterable[asyncpg.Record]) -> None:
    """A finished task of a batch that is asked again counts as unfinished there."""
    reopened = Counter((row["batch_id"], row["old_status"]) for row in moved if row["batch_id"] is not None)
    deltas: dict[int, dict[str, int]] = {}
    for (batch_id, status), count in reopened.items():
        if status in ("completed", "failed", "skipped", "expired"):
            deltas.setdefault(batch_id, {})[status] = -count
    await add_to_batches(connection, {batch_id: BatchDelta(**counts) for batch_id, counts in deltas.items()})
