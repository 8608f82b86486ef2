"""A question's text changed: its tasks are asked anew, in the text as it is now (1-dispatch §1.1).

Lock order: the caller holds the tenant's lock; here business tasks by id, execution tasks by id, requests by id,
batches by id.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from uuid import UUID

import asyncpg

from domain.protocol import Control
from store.controls import control_row
from store.database import Connection
from store.interrupts import lock_concerned_requests
from store.listen import DISPATCH, wake
from store.outbox import write_outbox
from store.progress import BatchDelta, add_to_batches, refresh_requests
from store.releases import Release, release
from store.rollout import path_of_new_work
from store.settlement import mark_projections, settle_cancelled
from store.statements import statements

SQL = statements("text_changes")


async def ask_anew(connection: Connection, tenant_id: int, question_id: int) -> None:
    """What waits gets the current version, also from a desktop's queue; what an open batch has settled is reopened.

    What runs finishes as it is; if it comes back unanswered it gets the current version then. Idempotent.
    """
    tasks = await connection.fetch(SQL["lock_tasks"], tenant_id, question_id)
    ids = [row["id"] for row in tasks]
    queued = [row["id"] for row in await connection.fetch(SQL["lock_queued"], ids)]
    requests = {row["collect_request_id"] for row in tasks} - {None}
    await lock_concerned_requests(connection, requests, queued)
    await connection.execute(SQL["renew_waiting"], ids)
    path = await path_of_new_work(connection, tenant_id)
    reopened = await connection.fetch(SQL["reopen_finished"], ids, path)
    await refresh_requests(connection, requests)
    await _count_reopened(connection, reopened)
    # In a paused batch it is held.
    await settle_cancelled(connection, [row["id"] for row in reopened])
    await _take_back(connection, tenant_id, queued)
    await wake(connection, DISPATCH)


async def _count_reopened(connection: Connection, reopened: Sequence[asyncpg.Record]) -> None:
    """A settled task that is asked again counts as unfinished in its batch, and the day's expectation changes."""
    deltas: dict[int, dict[str, int]] = {}
    for (batch_id, status), count in Counter((row["batch_id"], row["old_status"]) for row in reopened).items():
        deltas.setdefault(batch_id, {})[status] = -count
    await add_to_batches(connection, {batch_id: BatchDelta(**counts) for batch_id, counts in deltas.items()})
    await mark_projections(connection, [row["id"] for row in reopened])


async def _take_back(connection: Connection, tenant_id: int, queued: Collection[UUID]) -> None:
    """Not started yet: back from the desktop, no attempt counted."""
    rows = await release(connection, queued, Release.CANCELLED)
    orders = [control_row(row, Control.CANCELED, tenant_id, reason="question_changed") for row in rows]
    await write_outbox(connection, orders)
