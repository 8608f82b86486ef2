"""Pausing, draining and resuming by lane, tenant, platform and client (6-operations, Control)."""

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel, StringConstraints

from api.access import Ops
from api.fields import Body, Flag
from api.ops.versions import actor_of
from api.state import State
from domain.pauses import PauseKind, pause_target
from store import ops_reads, pauses
from store.database import transaction

router = APIRouter(prefix="/pauses")

Key = Annotated[str, StringConstraints(pattern="^[a-z0-9_-]{1,50}$")]
KeyPath = Annotated[str, Path(pattern="^[a-z0-9_-]{1,50}$")]


class PauseNew(Body):
    """What to pause: a lane, tenant id, platform or client id. `drain`: also take back what has not started."""

    kind: PauseKind
    key: Key
    drain: Flag = False


class PauseDone(BaseModel):
    """`changed`: whether it was otherwise before. `taken_back`: tasks that waited on desktops and wait here again."""

    kind: PauseKind
    key: str
    changed: bool
    taken_back: int = 0


class Pause(BaseModel):
    """Something that gets no new work."""

    kind: PauseKind
    key: str
    name: str


class Pauses(BaseModel):
    """What is paused now, at most 1,000 of them; `more`: there are others."""

    items: list[Pause]
    more: bool


@router.get("")
async def ops_list_pauses(state: State, _principal: Ops) -> Pauses:
    """Everything that is paused."""
    rows = await ops_reads.list_pauses(state.pool)
    shown = rows[: ops_reads.MOST_PAUSES]
    return Pauses(items=[Pause.model_validate(dict(row)) for row in shown], more=len(rows) > len(shown))


@router.post("")
async def ops_pause(state: State, principal: Ops, body: PauseNew) -> PauseDone:
    """No new work for it from now on; what runs finishes. Asking twice is harmless."""
    target = pause_target(body.kind, body.key)
    async with transaction(state.pool) as connection:
        done = await pauses.pause(connection, target, drain=body.drain, actor=actor_of(principal))
    taken = done.taken_back + (await pauses.drain_rest(state.pool, target) if done.more else 0)
    return PauseDone(kind=body.kind, key=body.key, changed=done.changed, taken_back=taken)


@router.delete("/{kind}/{key}")
async def ops_resume(state: State, principal: Ops, kind: PauseKind, key: KeyPath) -> PauseDone:
    """It gets work again."""
    async with transaction(state.pool) as connection:
        done = await pauses.resume(connection, pause_target(kind, key), actor=actor_of(principal))
    return PauseDone(kind=kind, key=key, changed=done.changed)
