"""What operators do: release a task, reconcile and retune now."""

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from api.access import Ops
from api.fields import PathUuid
from api.ops.versions import actor_of
from api.state import State
from domain.messages import RECONCILE_SCHEDULE_ID, TUNE_SCHEDULE_ID
from store.database import transaction
from store.force_release import force_release

router = APIRouter()


class Released(BaseModel):
    """`aborted`: it waited, and may be dispatched again; `unknown`: it ran, and its desktop has been told to stop."""

    task_id: str
    status: Literal["aborted", "unknown"]


class Triggered(BaseModel):
    """The Temporal schedule that was told to run now; one that runs already is not doubled."""

    schedule: str


@router.post("/tasks/{task_id}/force-release")
async def force_release_task(state: State, principal: Ops, task_id: PathUuid) -> Released:
    """Take a task from its desktop: the lease is revoked, the slot free, no attempt counted. 409: no lease to take."""
    async with transaction(state.pool) as connection:
        status = await force_release(connection, task_id, actor=actor_of(principal))
    return Released.model_validate({"task_id": str(task_id), "status": status})


@router.post("/reconcile", status_code=202)
async def reconcile_now(state: State, _principal: Ops) -> Triggered:
    """Reconcile now instead of at the next five minutes."""
    await state.processes.trigger(RECONCILE_SCHEDULE_ID)
    return Triggered(schedule=RECONCILE_SCHEDULE_ID)


@router.post("/tune", status_code=202)
async def tune_now(state: State, _principal: Ops) -> Triggered:
    """Retune the platforms' interrupt timeouts now instead of at the end of the week."""
    await state.processes.trigger(TUNE_SCHEDULE_ID)
    return Triggered(schedule=TUNE_SCHEDULE_ID)
