"""Scheduled batches: claiming due plans, materialising tasks, and how a batch ends (1-dispatch §1.6)."""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Final
from uuid import UUID

import asyncpg

from domain.cadence import next_run, slots_between, zone_of
from domain.errors import InvalidInput
from domain.ids import shard_key
from domain.messages import BatchCounters, BatchRef, BatchStart, MaterialiseChunk, MaterialisedChunk, batch_workflow_id
from domain.protocol import Control
from store.controls import control_row
from store.database import Connection, Pool, transaction
from store.listen import DISPATCH, PROJECTION, wake
from store.outbox import write_outbox
from store.progress import BatchDelta, add_to_batches
from store.statements import statements

log = logging.getLogger(__name__)

SQL, LOCKS = statements("batches"), statements("locks")

# Cut-off of a previous_day plan: what is left at 06:10 local goes to backfill (3-results §3.7).
PREVIOUS_DAY_CUT_OFF: Final = time(6, 10)

PLANNED_PAGE: Final = 200


@dataclass(frozen=True, slots=True)
class ClaimedSlot:
    """What one due plan became."""

    business_date: date
    slot: str
    scheduled_for: datetime
    cut_off_at: datetime
    skipped: int


def slot_of(plan: asyncpg.Record, now: datetime) -> ClaimedSlot:
    """The newest missed slot stands for all: a missed schedule catches up once and says how many it skipped."""
    zone = zone_of(plan["time_zone"])
    missed = slots_between(plan["cadence_kind"], plan["cadence"], plan["time_zone"], plan["next_run_at"], now)
    scheduled_for = missed[-1] if missed else plan["next_run_at"]
    local = scheduled_for.astimezone(zone)
    previous = plan["business_date_rule"] == "previous_day"
    day = local.date() - timedelta(days=1) if previous else local.date()
    ends = datetime.combine(local.date(), PREVIOUS_DAY_CUT_OFF, zone)
    midnight = datetime.combine(local.date() + timedelta(days=1), time(0), zone)
    cut_off = ends if previous and ends > local else midnight
    return ClaimedSlot(day, f"p{plan['id']}-{local:%H%M%S}", scheduled_for, cut_off, max(len(missed) - 1, 0))


async def claim_due_plans(pool: Pool, *, limit: int = 100) -> int:
    """Turn due plans into planned batches and move them to their next time; returns how many were due.

    `limit` plans a transaction, so that a scan of thousands stays short for everybody else.
    """
    due = 0
    while claimed := await _claim_some(pool, limit):
        due += claimed
    return due


async def _claim_some(pool: Pool, limit: int) -> int:
    async with transaction(pool) as connection:
        now = await connection.fetchval("select now()")
        plans = await connection.fetch(SQL["claim_due_plans"], limit)
        for plan in plans:
            await _advance(connection, plan, now)
        return len(plans)


async def _advance(connection: Connection, plan: asyncpg.Record, now: datetime) -> None:
    """One plan's batch and next time. A cadence that can't be read must not stop the others: it is never due again."""
    try:
        claimed = slot_of(plan, now)
        following = next_run(plan["cadence_kind"], plan["cadence"], plan["time_zone"], now)
    except InvalidInput as error:
        log.error("plan %d is not scheduled any more: %s", plan["id"], error)
        await connection.execute(SQL["move_plan"], plan["id"], None)
        return
    await _plan_batch(connection, plan, claimed)
    await connection.execute(SQL["move_plan"], plan["id"], following)


async def _plan_batch(connection: Connection, plan: asyncpg.Record, claimed: ClaimedSlot) -> None:
    workflow_id = batch_workflow_id(plan["tenant_id"], plan["brand_id"], claimed.business_date, claimed.slot)
    await connection.execute(
        SQL["plan_batch"],
        plan["tenant_id"],
        plan["brand_id"],
        plan["id"],
        claimed.business_date,
        claimed.slot,
        plan["run_mode"],
        plan["collector_type"],
        workflow_id,
        claimed.scheduled_for,
        claimed.cut_off_at,
        claimed.skipped,
    )


async def find_planned(pool: Pool, after: int = 0, *, limit: int = PLANNED_PAGE) -> list[tuple[BatchStart, int]]:
    """Batches whose workflow has not taken over yet, with the slots each skipped: starting one again is a no-op.

    A page by id, after the given one; empty when there are no more.
    """
    rows = await pool.fetch(SQL["find_planned"], after, limit)
    return [(_start_of(row), row["skipped_slots"]) for row in rows]


def _start_of(row: asyncpg.Record) -> BatchStart:
    return BatchStart(
        batch_id=row["id"],
        tenant_id=row["tenant_id"],
        brand_id=row["brand_id"],
        plan_id=row["plan_id"],
        business_date=row["business_date"],
        slot=row["slot"],
        cut_off_at=row["cut_off_at"],
        hard_timeout_ms=row["hard_timeout_ms"],
    )


async def materialise(pool: Pool, chunk: MaterialiseChunk) -> MaterialisedChunk:
    """Create the business tasks at [offset, offset + size) of the plan's list; running it twice creates nothing more.

    A task that a collect-now created before is the batch's too, and one that an earlier batch of the day, now over,
    left unanswered; what another batch answered, failed or still works on is that one's.
    """
    async with transaction(pool) as connection:
        await connection.execute(LOCKS["lock_tenant_requests"], chunk.tenant_id)
        batch = await connection.fetchrow(SQL["read_batch"], chunk.batch_id)
        if batch is None:
            return MaterialisedChunk(next_offset=chunk.offset, created=0, expected=0, done=True)
        key = shard_key(batch["tenant_id"], batch["brand_id"], batch["business_date"])
        rows = await connection.fetch(SQL["read_slice"], chunk.batch_id, chunk.offset, chunk.size)
        slice_of = (chunk.batch_id, [row["question_id"] for row in rows], [row["platform"] for row in rows])
        former = await _take_over(connection, *slice_of)
        created = await connection.fetchval(SQL["materialise"], *slice_of, key)
        expected = await _recount(connection, chunk.batch_id, former)
        await connection.execute(SQL["mark_projection"], chunk.batch_id)
        await wake(connection, DISPATCH, PROJECTION)
    return MaterialisedChunk(
        next_offset=chunk.offset + len(rows), created=created, expected=expected, done=len(rows) < chunk.size
    )


async def _take_over(
    connection: Connection, batch_id: int, questions: Sequence[int], platforms: Sequence[str]
) -> set[int]:
    """Take in what exists of the slice and nobody works on; returns the batches that lost tasks by it."""
    rows = await connection.fetch(SQL["lock_takeable"], batch_id, questions, platforms)
    await connection.execute(SQL["take_unowned"], batch_id, [row["id"] for row in rows if row["former_id"] is None])
    left = [row for row in rows if row["former_id"] is not None]
    await connection.execute(SQL["take_over"], batch_id, [row["id"] for row in left])
    return {row["former_id"] for row in left}


async def _recount(connection: Connection, batch_id: int, former: Collection[int]) -> int:
    """Count this batch, and those it took tasks from, under their locks; returns what this one expects."""
    ids = sorted({batch_id, *former})
    await connection.execute(SQL["lock_batches"], ids)
    rows = await connection.fetch(SQL["recount_batches"], ids, batch_id)
    return next((row["expected_count"] for row in rows if row["id"] == batch_id), 0)


async def read_batch(pool: Pool, ref: BatchRef) -> BatchCounters:
    """The batch as it stands."""
    async with pool.acquire() as connection:
        return await _counters(connection, ref, 0)


async def _counters(connection: Connection, ref: BatchRef, touched: int) -> BatchCounters:
    row = await connection.fetchrow(SQL["read_counters"], ref.batch_id)
    if row is None:
        # Deleted with its brand: nothing is left to follow.
        return BatchCounters(status="cancelled", expected=0, completed=0, failed=0, skipped=0, expired=0)
    return BatchCounters(
        status=row["status"],
        expected=row["expected_count"],
        completed=row["completed_count"],
        failed=row["failed_count"],
        skipped=row["skipped_count"],
        expired=row["expired_count"],
        running=row["running"],
        touched=touched,
    )


async def expire_batch(pool: Pool, ref: BatchRef) -> BatchCounters:
    """The cut-off: what still waits is `expired`; a live request's tasks and running ones are left alone."""
    return await _settle_waiting(pool, ref, "expired", None)


async def cancel_batch(pool: Pool, ref: BatchRef) -> BatchCounters:
    """Cancel: what waits is `skipped`, what runs finishes."""
    async with transaction(pool) as connection:
        await connection.execute(SQL["set_status"], ref.batch_id, "cancelling")
    return await _settle_waiting(pool, ref, "skipped", "batch_cancelled")


async def _settle_waiting(pool: Pool, ref: BatchRef, status: str, reason: str | None) -> BatchCounters:
    async with transaction(pool) as connection:
        await _lock_waiting(connection, ref)
        await _take_back(connection, ref, None)
        count: int = await connection.fetchval(SQL["settle_waiting"], ref.batch_id, status, reason)
        delta = BatchDelta(expired=count) if status == "expired" else BatchDelta(skipped=count)
        await add_to_batches(connection, {ref.batch_id: delta})
        if count:
            await connection.execute(SQL["mark_projection"], ref.batch_id)
            await wake(connection, DISPATCH, PROJECTION)
        return await _counters(connection, ref, count)


async def _lock_waiting(connection: Connection, ref: BatchRef) -> None:
    await connection.execute(LOCKS["lock_tenant_requests"], ref.tenant_id)
    await connection.execute(SQL["lock_waiting"], ref.batch_id)
    await connection.execute(SQL["lock_queued"], ref.batch_id)


async def _take_back(connection: Connection, ref: BatchRef, client_id: UUID | None) -> Sequence[asyncpg.Record]:
    rows = await connection.fetch(SQL["abort_queued"], ref.batch_id, client_id)
    await write_outbox(
        connection, [control_row(row, Control.CANCELED, ref.tenant_id, reason="batch_released") for row in rows]
    )
    return rows


async def rebalance_batch(pool: Pool, ref: BatchRef) -> BatchCounters:
    """A client that gave way does not resume: its waiting tasks of the batch go to whoever is free."""
    async with transaction(pool) as connection:
        await _lock_waiting(connection, ref)
        rows = await _take_back(connection, ref, ref.client_id)
        unbound: int = await connection.fetchval(SQL["unbind_client"], ref.batch_id, ref.client_id)
        await wake(connection, DISPATCH)
        return await _counters(connection, ref, unbound + len(rows))


async def finish_batch(pool: Pool, ref: BatchRef) -> BatchCounters:
    """Close the batch: `completed`, or `cancelled` after a cancel. Does nothing while something is unsettled."""
    async with transaction(pool) as connection:
        finished = await connection.fetchval(SQL["finish_batch"], ref.batch_id)
        return await _counters(connection, ref, 1 if finished else 0)
