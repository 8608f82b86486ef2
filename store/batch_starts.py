"""Due plans become planned batches, and planned batches are found for their workflows (1-dispatch §1.6)."""

import logging
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final

import asyncpg

from domain.cadence import next_run, slots_between, zone_of
from domain.cut_offs import cut_off_of
from domain.errors import InvalidInput
from domain.messages import BatchStart, batch_workflow_id
from store.database import Connection, Pool, transaction
from store.statements import statements

log = logging.getLogger(__name__)

SQL = statements("batch_starts")

PLANNED_PAGE: Final = 200


@dataclass(frozen=True, slots=True)
class ClaimedSlot:
    """What one due plan became. `skipped`: missed slots that it stands for; MAX_SLOTS - 1 means that many or more."""

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
    day = local.date() - timedelta(days=plan["business_date_rule"] == "previous_day")
    cut_off = cut_off_of(plan["business_date_rule"], scheduled_for, zone)
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
    return [(start_of(row), row["skipped_slots"]) for row in rows]


def start_of(row: asyncpg.Record) -> BatchStart:
    """The workflow's argument, from a row of the batch with `hard_timeout_ms`."""
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
