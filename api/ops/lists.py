"""Lists over all tenants, newest first: requests, batches, residents, audit events."""

from datetime import date, datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel

from api.access import Ops
from api.fields import QueryId
from api.pages import Cursor, Limit, Page, decode_cursor, id_part, page_of, uuid_part
from api.state import State
from store import ops_reads

router = APIRouter()

OpenOnly = Annotated[bool, Query(alias="open", description="Only those that are not over")]
Action = Annotated[str | None, Query(pattern="^[a-z_]{1,50}$")]


class Request(BaseModel):
    """A collect-now request; its Temporal run is `collect-now/{id}`."""

    id: UUID
    tenant_id: int
    workspace_id: int
    brand_id: int
    requested_by_user_id: int
    target_client_id: UUID | None
    status: str
    status_reason: str | None
    hint: str | None
    preempt: bool
    requested_task_count: int
    dispatched_task_count: int
    completed_task_count: int
    failed_task_count: int
    moved_task_count: int
    interrupt_requested_count: int
    interrupt_settled_count: int
    interrupt_timed_out_count: int
    interrupt_generation: int
    created_at: datetime
    first_dispatched_at: datetime | None
    first_result_at: datetime | None
    finished_at: datetime | None
    ttl_expires_at: datetime
    hard_deadline: datetime


class Batch(BaseModel):
    """A scheduled batch with its counters and its Temporal run."""

    id: int
    tenant_id: int
    brand_id: int
    plan_id: int
    business_date: date
    slot: str
    status: str
    workflow_id: str
    scheduled_for: datetime
    cut_off_at: datetime
    skipped_slots: int
    expected_count: int
    completed_count: int
    failed_count: int
    skipped_count: int
    expired_count: int
    backfill_of: int | None
    paused_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None


class Resident(BaseModel):
    """A resident loop's lease: a higher epoch fences what an earlier holder still writes."""

    name: str
    epoch: int
    holder: str | None
    taken_at: datetime


class Residents(BaseModel):
    """All of them: one a role and shard."""

    items: list[Resident]


class AuditEvent(BaseModel):
    """Who did what to what; `detail` as the action has it."""

    id: int
    tenant_id: int | None
    actor: str
    action: str
    subject: str
    detail: Any
    at: datetime


@router.get("/requests")
async def ops_list_requests(
    state: State,
    _principal: Ops,
    tenant_id: QueryId = None,
    open_only: OpenOnly = False,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[Request]:
    """Collect-now requests of all tenants, or of one."""
    rows = await ops_reads.list_requests(
        state.pool, before=_uuid_before(cursor), tenant_id=tenant_id, open_only=open_only, limit=limit + 1
    )
    return page_of(Request, rows, limit)


@router.get("/batches")
async def ops_list_batches(
    state: State,
    _principal: Ops,
    tenant_id: QueryId = None,
    open_only: OpenOnly = False,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[Batch]:
    """Scheduled batches of all tenants, or of one."""
    rows = await ops_reads.list_batches(
        state.pool, before=_id_before(cursor), tenant_id=tenant_id, open_only=open_only, limit=limit + 1
    )
    return page_of(Batch, rows, limit)


@router.get("/residents")
async def ops_list_residents(state: State, _principal: Ops) -> Residents:
    """Which worker holds which loop."""
    return Residents(items=[Resident(**row) for row in await ops_reads.list_residents(state.pool)])


@router.get("/audit")
async def ops_list_audit(
    state: State,
    _principal: Ops,
    tenant_id: QueryId = None,
    action: Action = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[AuditEvent]:
    """Audit events of all tenants and of the installation, or of one tenant, or of one action."""
    rows = await ops_reads.list_audit(
        state.pool, before=_id_before(cursor), tenant_id=tenant_id, action=action, limit=limit + 1
    )
    return page_of(AuditEvent, rows, limit)


def _uuid_before(cursor: str | None) -> UUID | None:
    found = decode_cursor(cursor, uuid_part)
    return None if found is None else found[0]


def _id_before(cursor: str | None) -> int | None:
    found = decode_cursor(cursor, id_part)
    return None if found is None else found[0]
