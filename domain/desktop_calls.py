"""Bodies of the desktop's REST calls (2-desktop §2.2), shared by the server and the reference client.

Every call goes to `/api/desktop/tasks/{task_id}/…` with the device token as bearer token and carries the lease token.
409 `lease_lost`: the token is not the current one; drop the task. 409 `no_slot`: keep it queued and try again later.
409 `stale_generation`: recorded and not applied; the current order comes again. 503: try again, the call is safe.
"""

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, model_validator

from domain.phases import Phase, SafePoint
from domain.proxying import (
    MAX_ERROR,
    MAX_HEADER_NAME,
    MAX_HEADER_VALUE,
    MAX_HEADERS,
    MAX_MESSAGE,
    ProxyAnswer,
)

LeaseToken = Annotated[str, Field(min_length=20, max_length=200)]
# As in the frames (domain/protocol.py), and as PostgreSQL counts.
Generation = Annotated[int, Field(ge=0, le=2**63 - 1)]
PhaseTimes = dict[Phase, Annotated[float, Field(ge=0, le=86_400_000)]]


class Call(BaseModel):
    """Base: unknown fields are refused, so that a typing error is not silently ignored."""

    model_config = ConfigDict(extra="forbid")


class PullCall(Call):
    """`POST /api/desktop/tasks/lease`: take at most `count` of the legacy tasks on offer to this desktop."""

    count: Annotated[int, Field(ge=1, le=64)]


class PulledTask(BaseModel):
    """A legacy task with its lease: the fields of a `task_available` frame, `owner` legacy, `status` leased."""

    id: str
    kind: str
    task_id: str
    target_client_id: str
    priority: int
    lane: str
    lane_weight: int
    status: str
    scheduler_group_key: str | None
    business_date: str | None
    interrupt_generation: int
    updated_at: datetime
    enqueued_at: datetime
    source: str
    owner: str
    attempt: int
    attempt_id: str
    lease_token: str
    lease_expires_at: datetime
    platform: str
    question: str
    collect_request_id: str | None = None
    payload: dict[str, Any] = {}


class PullAnswer(BaseModel):
    """What was leased, the most urgent first; `remaining`: offers that still stand, for lack of a slot."""

    tasks: list[PulledTask]
    remaining: int = 0


class LeaseCall(Call):
    """`POST …/start` and `…/extend`."""

    lease_token: LeaseToken
    phase: Phase | None = None


class LeaseAnswer(BaseModel):
    """Answer of start and extend: the task as it stands, with a pending interrupt if there is one."""

    task_id: str
    status: str
    lease_expires_at: datetime
    interrupt_requested: bool = False
    interrupt_generation: int = 0


class CancelCall(Call):
    """`POST …/cancel` (dispatch §13.4). Before the start: back to the queue; after an interrupt: aborted(preempted)."""

    lease_token: LeaseToken
    reason: Annotated[str, Field(min_length=1, max_length=64)]
    interrupt_generation: Generation = 0


class InterruptAckCall(Call):
    """`POST …/interrupt-ack`: the same with phase and safe point.

    A desktop that no longer runs the task acknowledges without a lease token, at the order's generation.
    """

    lease_token: LeaseToken | None = None
    reason: Annotated[str, Field(min_length=1, max_length=64)] = "collect_now_preempt"
    interrupt_generation: Generation
    phase: Phase | None = None
    safe_point: SafePoint | None = None
    safe_point_interval_ms: Annotated[float, Field(ge=0, le=86_400_000)] | None = None
    phase_times: PhaseTimes = {}


class CancelAnswer(BaseModel):
    """What became of the order: requeued, preempted, or nothing (`already_settled`)."""

    task_id: str
    result: Literal["requeued", "preempted", "already_settled"]


class ResultCall(Call):
    """`POST …/result`; at most 1 MB. 202 once the broker has confirmed; sending it again changes nothing."""

    lease_token: LeaseToken
    attempt_id: UUID
    outcome: Literal["succeeded", "failed"]
    # The provider's body as text, exactly as received. Required for a success.
    raw: str | None = None
    content_type: Annotated[str, Field(max_length=100)] | None = None
    error: Annotated[str, Field(max_length=500)] | None = None
    model: Annotated[str, Field(max_length=100)] | None = None
    request_id: Annotated[str, Field(max_length=100)] | None = None
    phase_times: PhaseTimes = {}
    # The longest time between two safe points of the attempt: how long an order to stop might have had to wait.
    safe_point_interval_ms: Annotated[float, Field(ge=0, le=86_400_000)] | None = None


class ResultAnswer(BaseModel):
    """202: the result is safe."""

    task_id: str
    attempt_id: UUID
    duplicate: bool = False


HeaderName = Annotated[str, Field(max_length=MAX_HEADER_NAME)]
HeaderValue = Annotated[str, Field(max_length=MAX_HEADER_VALUE)]


class ProxyAnswerCall(Call):
    """`POST /api/desktop/proxy/{call_id}`; at most 1 MB: the answer that is too large for a `proxy_response` frame.

    Either `status`, of an HTTP answer of any kind, or the code of an `error` (ProxyError).
    """

    status: Annotated[int, Field(ge=100, le=599)] | None = None
    headers: Annotated[dict[HeaderName, HeaderValue], Field(max_length=MAX_HEADERS)] = {}
    body: str | None = None
    error: Annotated[str, Field(max_length=MAX_ERROR)] | None = None
    message: Annotated[str, Field(max_length=MAX_MESSAGE)] | None = None

    def answer(self) -> ProxyAnswer:
        """The same, as the rest of the program has it."""
        return ProxyAnswer(**self.model_dump())

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (fault := self.answer().fault) is not None:
            raise ValueError(fault)
        return self


class ProxyAnswerTaken(BaseModel):
    """200: the answer is kept, or was before (`duplicate`)."""

    call_id: UUID
    duplicate: bool = False
