"""What tenants and operators alike are shown of a desktop, and how they choose among many."""

from datetime import datetime
from math import isfinite
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, Field

from api.fields import PlatformSlug
from api.pages import decode_cursor, encode_cursor, uuid_part
from store.client_history import HISTORY_LENGTH, ClientEvent
from store.fleet import After, ClientState, Sort

InState = Annotated[ClientState | None, Query(alias="state", description="Only those in this state")]
Platform = Annotated[PlatformSlug | None, Query(description="Only those that say something of this platform's login")]
Login = Annotated[
    str | None,
    Query(
        pattern="^[a-z_]{1,50}$",
        description="Only those with this login health (of `platform`, or of any): healthy, login_required,"
        " human_check, blocked; unknown: nothing is said of `platform`",
    ),
]
Events = Annotated[int, Query(ge=0, le=HISTORY_LENGTH, description="So many of the newest events")]


class Presence(BaseModel):
    """A desktop's state, load and logins.

    `slots_from`: who set `slots_limit` (operator, desktop, setting, or the fuse below them). `reported_*`: what the
    desktop last said of itself; `disagrees`: the server counts otherwise. `giving_way`: running tasks asked to stop;
    `phases`: of those that run, the oldest first.
    Rates are shares: `abort_rate` of all attempts that ended in the last hour (`abort_rate_minute`: last minute, what
    client choice uses) those it returned or lost; `success_rate` of those that succeeded, failed or were aborted, null
    for none.
    """

    state: ClientState
    since: datetime
    online: bool
    healthy: bool
    paused: bool
    connected_at: datetime | None
    disconnected_at: datetime | None
    last_close_code: int | None
    last_heartbeat_at: datetime | None
    revoked_at: datetime | None
    created_at: datetime
    token_issued_at: datetime | None
    protocol: str | None
    max_concurrent: int | None
    slots_used: int
    slots_limit: int
    slots_from: Literal["operator", "desktop", "setting", "fuse"]
    running: int
    phases: list[str]
    queued: int
    unknown: int
    giving_way: int
    reported_running: int | None
    reported_queued: int | None
    disagrees: bool
    platform_sessions: dict[str, Any]
    abort_rate: float
    abort_rate_minute: float
    success_rate: float | None
    highest_generation_seen: int


class ClientTask(BaseModel):
    """A task that runs or waits on a desktop. `leased` and `offered` are those of the legacy path."""

    task_id: str
    monitor_task_id: int
    status: Literal["queued", "in_progress", "unknown", "leased", "offered"]
    lane: str
    priority: int
    platform: str
    source: str
    phase: str | None
    phase_since: datetime | None
    enqueued_at: datetime
    started_at: datetime | None
    lease_expires_at: datetime | None
    result_received_at: datetime | None
    attempt: int
    interrupt_requested: bool
    interrupt_generation: int


class LastError(BaseModel):
    """The newest error among the last hundred attempts."""

    error: str
    outcome: str | None
    ended_at: datetime
    monitor_task_id: int


class Event(BaseModel):
    """What happened. `number` counts the desktop's events; `detail` as the kind has it."""

    number: int
    kind: ClientEvent
    at: datetime
    epoch: int
    close_code: int | None
    detail: dict[str, Any]


class Detail(BaseModel):
    """What there is of one desktop beyond the list: its tasks in the order it takes them, and its newest events."""

    tasks: list[ClientTask]
    last_error: LastError | None
    history: list[Event] = Field(description="The newest first; a hundred are kept")


def next_cursor(rows: list[dict[str, Any]], limit: int, sort: Sort) -> str | None:
    """Names the last row of the page; None on the last page."""
    if len(rows) <= limit:
        return None
    last = rows[limit - 1]
    return encode_cursor(sort.value, last["sort_key"], last["id"])


def after_cursor(cursor: str | None, sort: Sort) -> After | None:
    """The row that the cursor names. InvalidInput for none of ours, or of a list sorted otherwise."""
    found = decode_cursor(cursor, lambda value: _same_sort(value, sort), lambda value: _key(value, sort), uuid_part)
    return None if found is None else After(found[2], found[1])


def _same_sort(value: Any, sort: Sort) -> Any:
    if value != sort.value:
        raise ValueError(value)
    return value


def _key(value: Any, sort: Sort) -> float | None:
    if sort is Sort.NEWEST and value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise ValueError(value)
    return float(value)
