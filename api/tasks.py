"""Why a task waits: the binding check with its numbers, its position, an estimate of when (1-dispatch §1.3)."""

from datetime import date, datetime
from uuid import UUID

from fastapi import APIRouter
from pydantic import BaseModel

from api.access import SignedIn, reach_of
from api.fields import PathId
from api.state import State
from domain.task_state import TaskState
from store.explain import explain_task

router = APIRouter(prefix="/api/tenant/monitoring/tasks", tags=["tasks"])


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


@router.get("/{task_id}/explain")
async def explain(state: State, principal: SignedIn, task_id: PathId) -> TaskExplanation:
    """Any task: waiting, held by a desktop, paused or over."""
    found = await explain_task(state.pool, task_id, reach_of(principal))
    return TaskExplanation.model_validate(found, from_attributes=True)
