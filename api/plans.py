"""Plans: when which questions are asked (1-dispatch §1.6)."""

import logging
from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field, StringConstraints

from api.access import Operator, SignedIn, reach_of
from api.brands import after_id
from api.fields import Body, Flag, Id, Name, PathId, Platforms, QueryId
from api.pages import Cursor, Limit, Page, page_of
from api.state import State
from domain.cadence import MAX_CADENCE_CHARS
from domain.errors import DispatchUnavailable
from store import plan_catalog
from store.plan_catalog import PlanDraft

log = logging.getLogger(__name__)

router = APIRouter(prefix="/api/tenant/monitoring", tags=["plans"])

CadenceKind = Literal["cron", "rrule"]
BusinessDateRule = Literal["today", "previous_day"]
RunMode = Literal["api_standard", "api_search_grounded", "ui_sample"]
Collector = Literal["desktop", "api"]
Cadence = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_CADENCE_CHARS)]
TimeZone = Annotated[str, StringConstraints(min_length=1, max_length=64)]
QuestionIds = Annotated[list[Id], Field(min_length=1, max_length=10_000)]


class PlanNew(Body):
    """`cadence`: five cron fields, or an RRULE without COUNT and UNTIL, on the clock of `time_zone`."""

    name: Name
    cadence_kind: CadenceKind = "cron"
    cadence: Cadence
    time_zone: TimeZone = "Asia/Shanghai"
    business_date_rule: BusinessDateRule = "today"
    run_mode: RunMode = "api_standard"
    collector_type: Collector = "desktop"
    question_ids: QuestionIds | None = None
    platforms: Platforms
    active: Flag = True


class PlanChange(Body):
    """Only what is given changes."""

    name: Name = Field(default_factory=str)
    cadence_kind: CadenceKind = Field(default_factory=lambda: "cron")
    cadence: Cadence = Field(default_factory=str)
    time_zone: TimeZone = Field(default_factory=str)
    business_date_rule: BusinessDateRule = Field(default_factory=lambda: "today")
    run_mode: RunMode = Field(default_factory=lambda: "api_standard")
    question_ids: QuestionIds | None = None
    platforms: Platforms = Field(default_factory=list)
    active: Flag = Field(default_factory=bool)


class Plan(BaseModel):
    """`next_run_at` is null while the plan is off."""

    id: int
    workspace_id: int
    brand_id: int
    name: str
    cadence_kind: CadenceKind
    cadence: str
    time_zone: str
    business_date_rule: BusinessDateRule
    run_mode: RunMode
    collector_type: Collector
    question_ids: list[int] | None
    platforms: list[str]
    active: bool
    next_run_at: datetime | None
    created_at: datetime
    updated_at: datetime


class PlanRun(BaseModel):
    """`scan_triggered` false: Temporal is away; the plan is due and runs at the first scan after it is back."""

    plan_id: int
    scan_triggered: bool


@router.post("/brands/{brand_id}/plans", status_code=201)
async def create_plan(state: State, principal: Operator, brand_id: PathId, body: PlanNew) -> Plan:
    """Add a plan; it runs first at its next time."""
    draft = PlanDraft(**body.model_dump())
    return Plan(**await plan_catalog.create_plan(state.pool, reach_of(principal), brand_id, draft))


@router.get("/plans")
async def list_plans(
    state: State, principal: SignedIn, brand_id: QueryId = None, cursor: Cursor = None, limit: Limit = 50
) -> Page[Plan]:
    """Plans of one brand, or of all in reach; those that are off too."""
    rows = await plan_catalog.list_plans(state.pool, reach_of(principal), brand_id, after_id(cursor), limit + 1)
    return page_of(Plan, rows, limit)


@router.get("/plans/{plan_id}")
async def read_plan(state: State, principal: SignedIn, plan_id: PathId) -> Plan:
    """One plan."""
    return Plan(**await plan_catalog.read_plan(state.pool, reach_of(principal), plan_id))


@router.patch("/plans/{plan_id}")
async def change_plan(state: State, principal: Operator, plan_id: PathId, body: PlanChange) -> Plan:
    """Change a plan; batches that it already started go on as they are."""
    changes = body.model_dump(exclude_unset=True)
    return Plan(**await plan_catalog.change_plan(state.pool, reach_of(principal), plan_id, changes))


@router.delete("/plans/{plan_id}")
async def switch_plan_off(state: State, principal: Operator, plan_id: PathId) -> Plan:
    """Switch a plan off; it is kept, since its batches name it."""
    return Plan(**await plan_catalog.change_plan(state.pool, reach_of(principal), plan_id, {"active": False}))


@router.post("/plans/{plan_id}/run", status_code=202)
async def run_plan(state: State, principal: Operator, plan_id: PathId) -> PlanRun:
    """Run a plan now, besides its regular times."""
    await plan_catalog.run_plan_now(state.pool, reach_of(principal), plan_id)
    try:
        await state.processes.scan_plans()
    except DispatchUnavailable as error:
        log.warning("plan %d is due, but no scan was started: %s", plan_id, error.message)
        return PlanRun(plan_id=plan_id, scan_triggered=False)
    return PlanRun(plan_id=plan_id, scan_triggered=True)
