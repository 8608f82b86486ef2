"""Batches: what plans became, and the orders that a person may give them (1-dispatch §1.6)."""

from datetime import date, datetime
from typing import Annotated, Final, Literal

import asyncpg
from fastapi import APIRouter, Query
from pydantic import BaseModel

from api.access import Operator, SignedIn, reach_of
from api.auth import Principal
from api.fields import PathId, QueryId
from api.pages import Cursor, Limit, Page, decode_cursor, id_part, page_of
from api.state import AppState, State
from domain.errors import BatchOver, DispatchUnavailable, NotFound
from domain.messages import BatchOrder, BatchRef, BatchUpdate
from store import batch_reads, batches

router = APIRouter(prefix="/api/tenant/monitoring", tags=["batches"])

RunMode = Literal["api_standard", "api_search_grounded", "ui_sample"]
BatchStatus = Literal["planned", "running", "paused", "completed", "cancelling", "cancelled"]
StatusFilter = Annotated[BatchStatus | None, Query(description="only batches in this status")]

OVER: Final = frozenset({"completed", "cancelled"})


class Batch(BaseModel):
    """Counters of tasks; expected = completed + failed + skipped + expired once it is over, and they never move again.

    `skipped_slots`: missed times of the plan that it stands for besides its own. `backfill_id`: the batch that collects
    what the cut-off of this one left.
    """

    id: int
    brand_id: int
    plan_id: int
    business_date: date
    slot: str
    run_mode: RunMode
    collector_type: Literal["desktop", "api"]
    workflow_id: str
    status: BatchStatus
    scheduled_for: datetime
    cut_off_at: datetime
    skipped_slots: int
    backfill_of: int | None
    backfill_id: int | None
    expected_count: int
    completed_count: int
    failed_count: int
    skipped_count: int
    expired_count: int
    started_at: datetime | None
    paused_at: datetime | None
    finished_at: datetime | None
    created_at: datetime


class BatchDetail(Batch):
    """With what a desktop has now, and what is held until the batch is resumed."""

    running_count: int
    held_count: int


@router.get("/batches")
async def list_batches(
    state: State,
    principal: SignedIn,
    brand_id: QueryId = None,
    status: StatusFilter = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[Batch]:
    """Batches of one brand, or of all in reach, newest first."""
    found = decode_cursor(cursor, id_part)
    before = None if found is None else int(found[0])
    rows = await batch_reads.list_batches(state.pool, reach_of(principal), brand_id, status, before, limit + 1)
    return page_of(Batch, rows, limit)


@router.get("/batches/{batch_id}")
async def read_batch(state: State, principal: SignedIn, batch_id: PathId) -> BatchDetail:
    """One batch."""
    return BatchDetail(**await _find(state, principal, batch_id))


@router.post("/batches/{batch_id}/pause", status_code=202)
async def pause_batch(state: State, principal: Operator, batch_id: PathId) -> BatchDetail:
    """Dispatch nothing new of it until it is resumed; what runs finishes and counts. 409 for one that is over."""
    return await _order(state, principal, batch_id, BatchUpdate.PAUSE)


@router.post("/batches/{batch_id}/resume", status_code=202)
async def resume_batch(state: State, principal: Operator, batch_id: PathId) -> BatchDetail:
    """Go on: what was held has the lane, priority and age that it had. 409 for one that is over."""
    return await _order(state, principal, batch_id, BatchUpdate.RESUME)


@router.post("/batches/{batch_id}/cancel", status_code=202)
async def cancel_batch(state: State, principal: Operator, batch_id: PathId) -> BatchDetail:
    """Skip what waits and let what runs finish; the batch as it stands now. 409 for one that is over."""
    row = await _find(state, principal, batch_id)
    _refuse_if_over(row)
    # A cancel waits in the history until a worker is there, which an update does not; but it says not whose it is.
    await state.processes.cancel(row["workflow_id"])
    ref = BatchRef(batch_id=batch_id, tenant_id=principal.tenant_id, actor=_actor(principal))
    await batches.note_cancel(state.pool, ref)
    return BatchDetail(**await _find(state, principal, batch_id))


async def _order(state: AppState, principal: Principal, batch_id: int, update: BatchUpdate) -> BatchDetail:
    row = await _find(state, principal, batch_id)
    _refuse_if_over(row)
    try:
        await state.processes.order_batch(row["workflow_id"], update, BatchOrder(actor=_actor(principal)))
    except DispatchUnavailable:
        # Its workflow may have ended since.
        _refuse_if_over(await _find(state, principal, batch_id))
        raise
    return BatchDetail(**await _find(state, principal, batch_id))


def _actor(principal: Principal) -> str:
    return f"user {principal.user_id}"


async def _find(state: AppState, principal: Principal, batch_id: int) -> asyncpg.Record:
    row = await batch_reads.find_batch(state.pool, reach_of(principal), batch_id)
    if row is None:
        raise NotFound(f"no batch {batch_id}")
    return row


def _refuse_if_over(row: asyncpg.Record) -> None:
    if row["status"] in OVER:
        raise BatchOver(f"batch {row['id']} is {row['status']} already")
