"""The effects of the ScheduledBatch workflow: pause, resume, cancel, cut-off, rebalance, finish (1-dispatch §1.6).

An effect on all of a batch's tasks first writes the batch's status, then goes through its unfinished tasks a page at a
time, each page a short transaction under the tenant's lock, so that a click never waits for a whole batch. The order
matters: whoever gives a task back reads the status after he has the task's lock (`store/settlement.py:
settle_cancelled`), so each task is seen by him or by the page, whatever the interleaving. Repeated, an effect goes on
where it stopped. Lock order: the tenant's lock, business tasks by id, execution tasks by id, requests, batches.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final
from uuid import UUID

import asyncpg

from domain.cadence import zone_of
from domain.cut_offs import backfill_cut_off
from domain.messages import BatchCounters, BatchRef, batch_workflow_id
from domain.protocol import Control
from store.controls import control_row
from store.database import Connection, Pool, transaction
from store.listen import DISPATCH, PROJECTION, wake
from store.outbox import write_outbox
from store.progress import BatchDelta, add_to_batches
from store.releases import Release, release
from store.statements import statements

SQL, LOCKS = statements("batches"), statements("locks")

# Tasks a transaction: about 0.1 s on a busy machine of 2 cores.
PAGE: Final = 1000

Ids = Sequence[int]
PageEffect = Callable[[Connection, BatchRef, Ids], Awaitable[set[int]]]


async def read_batch(pool: Pool, ref: BatchRef) -> BatchCounters:
    """The batch as it stands."""
    async with pool.acquire() as connection:
        return await _counters(connection, ref, 0)


async def _counters(connection: Connection, ref: BatchRef, touched: int) -> BatchCounters:
    row = await connection.fetchrow(SQL["read_counters"], ref.batch_id)
    if row is None:
        # Deleted with its brand: nothing is left to follow.
        return BatchCounters(status="cancelled", expected=0, completed=0, failed=0, skipped=0, expired=0)
    return BatchCounters(**row, touched=touched)


# --- orders of a person --------------------------------------------------------------------------------------


async def pause_batch(pool: Pool, ref: BatchRef) -> BatchCounters:
    """Nothing new is dispatched: what waits is held, also on a desktop's queue; what runs finishes and counts.

    A live request's tasks go on. On a paused batch, or one that is over, it does nothing more.
    """
    await _set_status(pool, ref, "pause", "batch_paused")
    return await _on_unfinished(pool, ref, _hold, "paused")


async def resume_batch(pool: Pool, ref: BatchRef) -> BatchCounters:
    """What is held may be dispatched again, with the lane, priority and age that it had."""
    await _set_status(pool, ref, "resume", "batch_resumed")
    return await _on_unfinished(pool, ref, _let_go, "running")


async def cancel_batch(pool: Pool, ref: BatchRef) -> BatchCounters:
    """What waits is `skipped`, what runs finishes."""
    await _set_status(pool, ref, "cancel", "batch_cancelled")
    return await _on_unfinished(pool, ref, _skip, "cancelling")


async def note_cancel(pool: Pool, ref: BatchRef) -> None:
    """Who asked Temporal to cancel the batch's workflow; the request itself does not carry it."""
    subject = f"batch {ref.batch_id}"
    await pool.execute(SQL["record_order"], ref.tenant_id, ref.actor, "batch_cancel_requested", subject)


async def _set_status(pool: Pool, ref: BatchRef, statement: str, action: str) -> None:
    """Under the tenant's lock: no slice of the batch's tasks is being created in the old state meanwhile."""
    async with transaction(pool) as connection:
        await connection.execute(LOCKS["lock_tenant_requests"], ref.tenant_id)
        if await connection.fetchval(SQL[statement], ref.batch_id):
            subject = f"batch {ref.batch_id}"
            await connection.execute(SQL["record_order"], ref.tenant_id, ref.actor, action, subject)


async def _hold(connection: Connection, ref: BatchRef, page: Ids) -> set[int]:
    taken = await _take_back(connection, ref, page)
    held = await connection.fetch(SQL["hold_waiting"], ref.batch_id, page)
    return taken | {row["id"] for row in held}


async def _let_go(connection: Connection, ref: BatchRef, page: Ids) -> set[int]:
    freed = await connection.fetch(SQL["let_go"], ref.batch_id, page)
    if freed:
        await wake(connection, DISPATCH)
    return {row["id"] for row in freed}


async def _skip(connection: Connection, ref: BatchRef, page: Ids) -> set[int]:
    # What comes back from a desktop's queue is skipped, and counted, where every task of a cancelled batch is that
    # comes back.
    taken = await _take_back(connection, ref, page)
    return taken | await _settle_waiting(connection, ref, page, "skipped")


# --- what time brings ----------------------------------------------------------------------------------------


async def expire_batch(pool: Pool, ref: BatchRef) -> BatchCounters:
    """The cut-off: what still waits is `expired`; a live request's tasks and running ones are left alone."""
    return await _on_unfinished(pool, ref, _expire, "running", "paused")


async def _expire(connection: Connection, ref: BatchRef, page: Ids) -> set[int]:
    taken = await _take_back(connection, ref, page)
    return taken | await _settle_waiting(connection, ref, page, "expired")


async def rebalance_batch(pool: Pool, ref: BatchRef) -> BatchCounters:
    """A client that gave way does not resume: its waiting tasks of the batch go to whoever is free."""
    async with transaction(pool) as connection:
        await connection.execute(LOCKS["lock_tenant_requests"], ref.tenant_id)
        rows = await connection.fetch(SQL["waiting_on_client"], ref.batch_id, ref.client_id)
        page = [row["id"] for row in rows]
        await connection.execute(SQL["lock_tasks"], page)
        moved = await _take_back(connection, ref, page, ref.client_id)
        moved |= {row["id"] for row in await connection.fetch(SQL["unbind_client"], ref.client_id, page)}
        if moved:
            await wake(connection, DISPATCH)
        return await _counters(connection, ref, len(moved))


async def finish_batch(pool: Pool, ref: BatchRef) -> BatchCounters:
    """Close the batch: `completed`, or `cancelled` after a cancel. Does nothing while something is unsettled.

    Its numbers are history from then on. What a cut-off expired is the backfill's, which is planned here: once a batch,
    not after a backfill, and only while its own day has an end ahead.
    """
    async with transaction(pool) as connection:
        finished = await connection.fetchrow(SQL["finish_batch"], ref.batch_id)
        if finished is not None and finished["leaves_work"]:
            await _plan_backfill(connection, finished)
        return await _counters(connection, ref, 0 if finished is None else 1)


async def _plan_backfill(connection: Connection, batch: asyncpg.Record) -> None:
    slot = f"{batch['slot']}-backfill"
    workflow_id = batch_workflow_id(batch["tenant_id"], batch["brand_id"], batch["business_date"], slot)
    cut_off = backfill_cut_off(batch["cut_off_at"], zone_of(batch["time_zone"]))
    await connection.execute(SQL["plan_backfill"], batch["id"], slot, workflow_id, cut_off, batch["was_paused"])


# --- page by page --------------------------------------------------------------------------------------------


async def _on_unfinished(pool: Pool, ref: BatchRef, effect: PageEffect, *states: str) -> BatchCounters:
    """Apply the effect to each page of the unfinished tasks of a batch in one of the states.

    To running ones too, for their locks' sake.
    """
    ids = [row["id"] for row in await pool.fetch(SQL["unfinished"], ref.batch_id, list(states))]
    touched = 0
    for first in range(0, len(ids), PAGE):
        page = ids[first : first + PAGE]
        async with transaction(pool) as connection:
            await connection.execute(LOCKS["lock_tenant_requests"], ref.tenant_id)
            await connection.execute(SQL["lock_tasks"], page)
            touched += len(await effect(connection, ref, page))
    async with pool.acquire() as connection:
        return await _counters(connection, ref, touched)


async def _take_back(connection: Connection, ref: BatchRef, page: Ids, client_id: UUID | None = None) -> set[int]:
    """What of these waits on a desktop (on this one), not started: back, no attempt counted; the desktop is told."""
    queued = await connection.fetch(SQL["lock_queued"], page, client_id)
    rows = await release(connection, [row["id"] for row in queued], Release.CANCELLED)
    reason = "batch_released"
    await write_outbox(connection, [control_row(row, Control.CANCELED, ref.tenant_id, reason=reason) for row in rows])
    return {row["freed_task_id"] for row in rows} - {None}


async def _settle_waiting(connection: Connection, ref: BatchRef, page: Ids, status: str) -> set[int]:
    reason = "batch_cancelled" if status == "skipped" else None
    rows = await connection.fetch(SQL["settle_waiting"], ref.batch_id, page, status, reason)
    if rows:
        await add_to_batches(connection, {ref.batch_id: BatchDelta(**{status: len(rows)})})
        await connection.execute(SQL["mark_projection"], ref.batch_id)
        await wake(connection, DISPATCH, PROJECTION)
    return {row["id"] for row in rows}
