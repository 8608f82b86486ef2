"""Business tasks: which there are, and why one waits, with its position and an estimate (1-dispatch §1.3)."""

from datetime import date, datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel

from api.access import SignedIn, reach_of
from api.fields import PathId, QueryId
from api.pages import Cursor, Limit, Page, decode_cursor, id_part, page_of
from api.state import State
from domain.errors import InvalidInput
from domain.task_state import TaskState
from store import task_reads
from store.explain import explain_task
from store.task_reads import TaskSlice

router = APIRouter(prefix="/api/tenant/monitoring/tasks", tags=["tasks"])


class TaskStatus(StrEnum):
    """Statuses of a business task (dispatch §7.1); `leased` and `received` are the legacy path's alone."""

    PENDING = "pending"
    LEASED = "leased"
    RECEIVED = "received"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    EXPIRED = "expired"


class Task(BaseModel):
    """A question on a platform for a business date. `path`: `desktop_tasks` or `legacy`."""

    id: int
    question_id: int
    platform: str
    run_mode: str
    business_date: date
    status: TaskStatus
    lane: str
    path: str
    batch_id: int | None
    collect_request_id: UUID | None
    enqueued_at: datetime
    finished_at: datetime | None
    dispatch_attempts: int
    last_error: str | None


class Step(BaseModel):
    """One rule or budget in the order in which they are asked, with its numbers where it has some."""

    name: str
    passed: bool
    used: int | None
    limit: int | None


class Waiting(BaseModel):
    """What keeps a waiting task. `reason` is a stable code, `may_go` when nothing but its turn does.

    `client_id`: the desktop where it would come furthest, whose budgets the steps show. `position`: how many go before
    it in its tenant and platform, counted up to 10,000. `estimate_seconds`: null when nobody can know.
    """

    reason: str
    binding: Step | None
    client_id: UUID | None
    steps: list[Step]
    position: int | None
    estimate_seconds: float | None


class HeldBy(BaseModel):
    """The desktop that has the task; `giving_way_to`: the collect-now it was asked to stop for."""

    client_id: UUID
    client_name: str
    execution_id: UUID | None
    since: datetime
    pushed_at: datetime | None
    lease_expires_at: datetime | None
    started_at: datetime | None
    phase: str | None
    giving_way_to: UUID | None


class Attempt(BaseModel):
    """One lease and how it ended."""

    attempt: int
    client_id: UUID
    leased_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    outcome: str | None
    error: str | None


class TaskExplanation(BaseModel):
    """A business task, where it is, and in `sentence` what would move it on.

    `per_minute`: how many tasks a minute its tenant's desktops ended on this platform lately; null: none.
    """

    task_id: int
    platform: str
    business_date: date
    lane: str
    priority: int
    path: str
    state: TaskState
    reason: str
    sentence: str
    enqueued_at: datetime
    waited_seconds: float
    dispatch_after: datetime | None
    collect_request_id: UUID | None
    batch_id: int | None
    attempts_counted: int
    attempts_allowed: int
    preemptions: int
    waiting: Waiting | None
    per_minute: float | None
    held: HeldBy | None
    finished_at: datetime | None
    last_error: str | None
    skip_reason: str | None
    attempts: list[Attempt]


@router.get("")
async def list_tasks(
    state: State,
    principal: SignedIn,
    batch_id: QueryId = None,
    collect_request_id: UUID | None = None,
    brand_id: QueryId = None,
    business_date: Annotated[date | None, Query(description="with brand_id")] = None,
    status: TaskStatus | None = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[Task]:
    """The tasks of a batch, of a request (those it holds now), or of a brand's day: name exactly one of the three."""
    found = decode_cursor(cursor, id_part)
    slice_of = TaskSlice(reach_of(principal), status and status.value, found[0] if found else 0, limit + 1)
    match (batch_id, collect_request_id, brand_id, business_date):
        case (int(), None, None, None):
            rows = await task_reads.tasks_of_batch(state.pool, batch_id, slice_of)
        case (None, UUID(), None, None):
            rows = await task_reads.tasks_of_request(state.pool, collect_request_id, slice_of)
        case (None, None, int(), date()):
            rows = await task_reads.tasks_of_day(state.pool, brand_id, business_date, slice_of)
        case _:
            raise InvalidInput("name a batch_id, a collect_request_id, or a brand_id with its business_date")
    return page_of(Task, rows, limit)


@router.get("/{task_id}/explain")
async def explain(state: State, principal: SignedIn, task_id: PathId) -> TaskExplanation:
    """Any task: waiting, held by a desktop, paused or over."""
    found = await explain_task(state.pool, task_id, reach_of(principal))
    return TaskExplanation.model_validate(found, from_attributes=True)
