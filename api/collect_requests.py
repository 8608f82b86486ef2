"""Collect-now: the click, what became of it, and taking it back (1-dispatch §1.5, dispatch §13.1, §13.5)."""

import asyncio
from datetime import date, datetime
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field, StringConstraints

from api.access import Operator, SignedIn, reach_of
from api.auth import Principal
from api.collect_now import ACCEPT_SECONDS, refusal_of
from api.fields import Body, Flag, Id, PathId, PathUuid, PlatformSlug, QueryId
from api.pages import Cursor, Limit, Page, decode_cursor, page_of, time_part, uuid_part
from api.request_events import stream
from api.state import AppState, State
from domain.errors import Conflict
from domain.ids import new_uuid
from domain.messages import AcceptCommand, AcceptOutcome, CollectNowAnswer, collect_now_workflow_id
from domain.scope import canonical_scope
from store import requests_read
from store.listen import REQUESTS, wait_for_wake

router = APIRouter(prefix="/api/tenant/monitoring", tags=["collect-now"])

FIRST_DISPATCH_SECONDS: Final = 10.0
POLL_SECONDS: Final = 0.5
OPEN: Final = frozenset({"accepted", "dispatching", "running"})
REPLAY_HEADER: Final = "Idempotent-Replay"

IdempotencyKey = Annotated[
    Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]{1,200}$")] | None,
    Header(alias="Idempotency-Key", description="1 to 200 visible ASCII characters"),
]


class CollectNowCall(Body):
    """What to collect; nothing given means every active question on every platform of the brand's desktop plans."""

    keyword_id: Id | None = None
    question_ids: Annotated[list[Id], Field(max_length=500)] | None = None
    platforms: Annotated[list[PlatformSlug], Field(max_length=50)] | None = None
    preempt: Flag = True
    wait_for_first_dispatch: Flag = False
    target_client_id: UUID | None = None


class Interrupts(BaseModel):
    """How many running tasks were asked to stop, and what became of that.

    At the end of a request: requested = settled + timed_out + withdrawn (taken back, or left to another request).
    """

    requested: int
    settled: int
    timed_out: int
    withdrawn: int


class FailureReason(BaseModel):
    """Why tasks of the request failed: a reason and how many tasks have it."""

    reason: str
    tasks: int


class CollectRequest(BaseModel):
    """One request. Counters are of tasks; `ttl_left_seconds` runs until the first dispatch only.

    requested = completed + failed + unfinished + returned (gone back to scheduled work); moved ones are another's.
    """

    request_id: UUID
    brand_id: int
    keyword_id: int | None
    requested_by_user_id: int
    status: str
    status_reason: str | None
    hint: str | None
    preempt: bool
    business_date: date
    scope: dict[str, Any]
    target_client_id: UUID | None
    superseded_by_request_id: UUID | None
    requested_task_count: int
    dispatched_task_count: int
    completed_task_count: int
    failed_task_count: int
    returned_task_count: int
    moved_task_count: int
    interrupt_generation: int
    interrupts: Interrupts
    created_at: datetime
    first_dispatched_at: datetime | None
    first_result_at: datetime | None
    finished_at: datetime | None
    ttl_expires_at: datetime
    ttl_left_seconds: float | None
    hard_deadline: datetime


class CollectRequestDetail(CollectRequest):
    """One request with the reasons why tasks of it failed, the most frequent ones."""

    failures: list[FailureReason]


@router.post(
    "/brands/{brand_id}/collect-now",
    status_code=202,
    responses={200: {"model": CollectNowAnswer, "description": "The same click again: the first request's answer"}},
)
async def collect_now(
    state: State,
    principal: Operator,
    brand_id: PathId,
    body: CollectNowCall,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> CollectNowAnswer:
    """Collect now, ahead of scheduled work. Safe to repeat: within 5 minutes the same click is the same request."""
    command = _command(principal, brand_id, body, idempotency_key)
    answer, replayed = await _accept(state, command)
    if replayed:
        response.status_code = 200
        response.headers[REPLAY_HEADER] = "true"
    if body.wait_for_first_dispatch:
        await _wait_for_first_dispatch(state, principal.tenant_id, answer.request_id)
    return answer


def _command(principal: Principal, brand_id: int, body: CollectNowCall, key: str | None) -> AcceptCommand:
    return AcceptCommand(
        request_id=new_uuid(),
        tenant_id=principal.tenant_id,
        workspace_ids=principal.workspace_ids,
        user_id=principal.user_id,
        brand_id=brand_id,
        scope=canonical_scope(body.keyword_id, body.question_ids, body.platforms),
        preempt=body.preempt,
        target_client_id=body.target_client_id,
        idempotency_key=key,
        valid_seconds=ACCEPT_SECONDS,
    )


async def _accept(state: AppState, command: AcceptCommand) -> tuple[CollectNowAnswer, bool]:
    """The answer, and whether it repeats an earlier one. Raises the refusal's leaf."""
    earlier = await requests_read.find_replay(state.pool, command)
    if earlier is not None:
        return earlier, True
    result = await state.accept.accept(command)
    if result.outcome is AcceptOutcome.REFUSED or result.answer is None:
        raise refusal_of(result)
    return result.answer, result.outcome is AcceptOutcome.REPLAYED


async def _wait_for_first_dispatch(state: AppState, tenant_id: int, request_id: UUID) -> None:
    """Hold the answer until the first frame is written or the request is over, 10 s at most."""
    news = state.listener.subscribe(REQUESTS)
    ends = asyncio.get_running_loop().time() + FIRST_DISPATCH_SECONDS
    try:
        while not await requests_read.is_dispatched(state.pool, tenant_id, request_id):
            left = ends - asyncio.get_running_loop().time()
            if left <= 0:
                return
            await wait_for_wake(news, min(POLL_SECONDS, left))
    finally:
        state.listener.unsubscribe(REQUESTS, news)


@router.get("/collect-requests")
async def list_collect_requests(
    state: State, principal: SignedIn, brand_id: QueryId = None, cursor: Cursor = None, limit: Limit = 50
) -> Page[CollectRequest]:
    """Requests of one brand, or of all in reach, newest first."""
    found = decode_cursor(cursor, time_part, uuid_part)
    before = None if found is None else (found[0], found[1])
    rows = await requests_read.list_requests(state.pool, reach_of(principal), brand_id, before, limit + 1)
    return page_of(CollectRequest, rows, limit, ("created_at", "request_id"))


@router.get("/collect-requests/{request_id}")
async def read_collect_request(state: State, principal: SignedIn, request_id: PathUuid) -> CollectRequestDetail:
    """One request: has it begun, are there results, how long may it still wait, why did tasks fail."""
    return await _detail(state, principal, request_id)


async def _detail(state: AppState, principal: Principal, request_id: UUID) -> CollectRequestDetail:
    row = await requests_read.read_request(state.pool, reach_of(principal), request_id)
    failures = await requests_read.read_failures(state.pool, principal.tenant_id, row)
    return CollectRequestDetail(**row, failures=[FailureReason(**each) for each in failures])


@router.get(
    "/collect-requests/{request_id}/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}, "description": "Events `request`, data: the request"}},
)
async def stream_collect_request(
    http: Request, state: State, principal: SignedIn, request_id: PathUuid
) -> StreamingResponse:
    """The request at once and at each change, as server-sent events, until it is over (10 minutes at most)."""
    await requests_read.read_request(state.pool, reach_of(principal), request_id)

    async def look() -> tuple[str, bool]:
        detail = await _detail(state, principal, request_id)
        # The time left changes by itself: that is no news.
        return detail.model_dump_json(exclude={"ttl_left_seconds"}), detail.status not in OPEN

    # Set by the server process while it stops.
    stopping = getattr(http.app.state, "stopping", None) or asyncio.Event()
    return StreamingResponse(
        stream(look, state.listener, stopping),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


@router.post("/collect-requests/{request_id}/cancel", status_code=202)
async def cancel_collect_request(state: State, principal: Operator, request_id: PathUuid) -> CollectRequest:
    """Take the click back; what runs finishes and counts. The request as it stands now. 409 for one that is over."""
    row = await requests_read.read_request(state.pool, reach_of(principal), request_id)
    if row["status"] not in OPEN:
        raise Conflict(f"request {request_id} is {row['status']} already")
    await state.processes.cancel(collect_now_workflow_id(request_id))
    return CollectRequest(**await requests_read.read_request(state.pool, reach_of(principal), request_id))
