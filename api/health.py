"""Is the process alive, and can it do its work (6-operations, Control)."""

import asyncio
from collections.abc import Awaitable
from typing import Final, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel

from api.state import AppState, State
from broker.connection import close_channel

router = APIRouter(tags=["health"])

CHECK_SECONDS: Final = 3.0

PartState = Literal["up", "down"]


class Alive(BaseModel):
    status: Literal["ok"] = "ok"


class Ready(BaseModel):
    """503 when a part is down: reads may still be served, but not everything."""

    status: Literal["ready", "not_ready"]
    database: PartState
    broker: PartState
    temporal: PartState


@router.get("/healthz")
async def healthz() -> Alive:
    """The process answers."""
    return Alive()


@router.get("/readyz", responses={503: {"model": Ready, "description": "A part is down"}})
async def readyz(state: State, response: Response) -> Ready:
    """Each part with its state."""
    database, broker, temporal = await asyncio.gather(
        _check(state.pool.fetchval("select 1")), _check(_open_channel(state)), _check(state.processes.check())
    )
    ready = database == broker == temporal == "up"
    if not ready:
        response.status_code = 503
    return Ready(status="ready" if ready else "not_ready", database=database, broker=broker, temporal=temporal)


async def _open_channel(state: AppState) -> None:
    await close_channel(await state.broker.channel(timeout=CHECK_SECONDS))


async def _check(work: Awaitable[object]) -> PartState:
    """Any failure, and an answer that takes over 3 s, is "down": the reason is in the part's own log."""
    try:
        await asyncio.wait_for(work, CHECK_SECONDS)
    except Exception:
        return "down"
    return "up"
