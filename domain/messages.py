"""What workflows, updates and signals carry, with the names of queues, workflows and ids (1-dispatch §1.5, §1.6, §1.9).

One typed model in, one out; fields are only added, with defaults, so that recorded histories stay readable.
"""

from datetime import date, datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict

PROCESS_QUEUE: Final = "giveway-process"
RESIDENT_QUEUE: Final = "giveway-residents"
SCAN_SCHEDULE_ID: Final = "scan-plans"


class SearchAttribute(StrEnum):
    """Search attributes of the Temporal namespace (6-operations, Control)."""

    TENANT = "GivewayTenant"
    BRAND = "GivewayBrand"
    CLIENT = "GivewayClient"
    BUSINESS_DATE = "GivewayBusinessDate"
    STATUS = "GivewayStatus"
    GENERATION = "GivewayGeneration"


class SignalName(StrEnum):
    """Signals that the pump sends; the outbox row's kind is this name."""

    DISPATCHED = "dispatched"
    INTERRUPT_SETTLED = "interrupt_settled"
    CLIENT_LOST = "client_lost"
    CLIENT_BOUND = "client_bound"
    TASKS_TERMINAL = "tasks_terminal"
    SUPERSEDED = "superseded"
    PREEMPTED = "preempted"
    RESUMED = "resumed"
    PROGRESS = "progress"


def collect_now_workflow_id(request_id: UUID) -> str:
    """`collect-now/{request_id}`."""
    return f"collect-now/{request_id}"


def batch_workflow_id(tenant_id: int, brand_id: int, business_date: date, slot: str) -> str:
    """`batch/{tenant}/{brand}/{business_date}/{slot}`: a second start is a no-op."""
    return f"batch/{tenant_id}/{brand_id}/{business_date.isoformat()}/{slot}"


def resident_workflow_id(role: str, shard: int) -> str:
    """`resident/{role}/{shard}`."""
    return f"resident/{role}/{shard}"


class Message(BaseModel):
    """Base of everything that crosses Temporal."""

    model_config = ConfigDict(frozen=True, extra="ignore")


# --- collect-now ---------------------------------------------------------------------------------------------


class CollectNowScope(Message):
    """What the click asks for, canonical: ids sorted, no repeats (domain/scope.py builds it)."""

    keyword_id: int | None = None
    question_ids: tuple[int, ...] | None = None
    platforms: tuple[str, ...] | None = None


class CollectNowStart(Message):
    """Argument of the CollectNow workflow; all it needs before an accept came."""

    request_id: UUID
    tenant_id: int
    brand_id: int
    # The request is in the database already (reconcile): follow it without waiting for an accept.
    resume: bool = False


class AcceptCommand(Message):
    """Argument of the update `accept`."""

    request_id: UUID
    tenant_id: int
    workspace_ids: tuple[int, ...]
    user_id: int
    brand_id: int
    scope: CollectNowScope
    preempt: bool = True
    target_client_id: UUID | None = None
    idempotency_key: str | None = None
    # Counted from the workflow's start; past it the update is refused: the caller has already been told 503.
    valid_seconds: float = 5.0
    # By the caller's clock: taken from whoever still sends it, and judged by nobody.
    deadline: datetime | None = None


class CollectNowAnswer(Message):
    """The body of the 202 answer: exactly the fields of dispatch §13.1."""

    request_id: UUID
    collection_mode: str = "desktop"
    target_client_id: UUID | None
    affected_task_count: int
    promoted_task_count: int
    aborted_queued_count: int
    interrupt_requested_count: int
    interrupt_generation: int
    ttl_expires_at: datetime
    message: str


class AcceptOutcome(StrEnum):
    """How an accept ended: a lost race or a refusal is a result, not an exception."""

    ACCEPTED = "accepted"
    REPLAYED = "replayed"
    REFUSED = "refused"


class AcceptResult(Message):
    """What the accept transaction answers to workflow and API."""

    outcome: AcceptOutcome
    answer: CollectNowAnswer | None = None
    # The request's status after it: another than `accepted` when tasks were adopted, or the accept ran again.
    status: str = "accepted"
    # REFUSED: the error's stable code, HTTP status and text (domain/errors.py).
    error_code: str | None = None
    error_status: int | None = None
    error_message: str | None = None
    retry_after: int | None = None
    business_date: date | None = None
    soft_timeout_ms: int = 15_000
    hard_timeout_ms: int = 45_000
    hard_deadline: datetime | None = None


class Dispatched(Message):
    """Signal: the first frame of a request was written (`count` frames so far)."""

    outbox_id: int = 0
    count: int
    at: datetime | None = None


class InterruptSettled(Message):
    """Signal: a victim stopped, finished or was revoked; `settled` and `outstanding` are totals of the generation."""

    outbox_id: int = 0
    client_id: UUID
    generation: int
    settled: int
    outstanding: int


class ClientLost(Message):
    """Signal: the sweeper saw 30 s of silence on a client that this request is bound to."""

    outbox_id: int = 0
    client_id: UUID
    epoch: int
    # One connection may fall silent more than once.
    lost_at: datetime | None = None


class ClientBound(Message):
    """Signal: the coordinator bound the request's waiting tasks to a client, with a generation of its own."""

    outbox_id: int = 0
    client_id: UUID
    generation: int
    interrupts: int = 0


class TasksTerminal(Message):
    """Signal: counters of the request, totals."""

    outbox_id: int = 0
    completed: int
    failed: int
    remaining: int


class Superseded(Message):
    """Signal: a newer accept took all of this request's tasks."""

    outbox_id: int = 0
    by: UUID


class RequestRef(Message):
    """Argument of the activities that act on one request."""

    request_id: UUID
    tenant_id: int
    client_id: UUID | None = None
    generation: int | None = None
    reason: str | None = None


class RequestCounters(Message):
    """What those activities answer: the request after the effect."""

    status: str
    requested: int
    dispatched: int
    completed: int
    failed: int
    target_client_id: UUID | None = None
    hint: str | None = None
    # Tasks or leases the effect touched.
    touched: int = 0


class CollectNowResult(Message):
    """What the CollectNow workflow returns."""

    # accepted requests: the request's final status; else abandoned, duplicate or refused.
    status: str
    requested: int = 0
    completed: int = 0
    failed: int = 0


# --- scheduled batches ---------------------------------------------------------------------------------------


class BatchStart(Message):
    """Argument of the ScheduledBatch workflow."""

    batch_id: int
    tenant_id: int
    brand_id: int
    plan_id: int
    business_date: date
    slot: str
    cut_off_at: datetime
    hard_timeout_ms: int = 45_000
    carried: "CarriedBatch | None" = None


class BatchYield(Message):
    """A desktop that gave way and has not resumed."""

    client_id: UUID
    generation: int
    since: datetime


class CarriedBatch(Message):
    """The ScheduledBatch workflow's state, whole, through continue-as-new."""

    materialised: int = 0
    all_materialised: bool = False
    expected: int = 0
    settled: int = 0
    cut_off_done: bool = False
    yields: tuple[BatchYield, ...] = ()
    # Outbox ids handled, newest last: a signal that comes again is dropped.
    seen: tuple[int, ...] = ()
    gave_way: int = 0
    dispatched: int = 0
    # The newest yield: whose, at which generation.
    newest_yield: tuple[UUID, int] | None = None
    recheck_at: datetime | None = None
    # The newest generation at which each client resumed: an older yield that comes late is over.
    resumed: dict[UUID, int] = {}


class MaterialiseChunk(Message):
    """Argument of one materialise step: rows after the cursor, at most `size`."""

    batch_id: int
    tenant_id: int
    # Position in the ordered (question, platform) list; 0 starts.
    offset: int = 0
    size: int = 500


class MaterialisedChunk(Message):
    """Its answer; `done` when nothing is left."""

    next_offset: int
    created: int
    expected: int
    done: bool


class Preempted(Message):
    """Signal: tasks of the batch gave way on a client."""

    outbox_id: int = 0
    client_id: UUID
    generation: int
    request_id: UUID
    count: int


class Resumed(Message):
    """Signal: the client's high work is over."""

    outbox_id: int = 0
    client_id: UUID
    generation: int


class Progress(Message):
    """Signal: settled tasks of the batch (completed, failed, skipped or expired), dispatched ones, and all of them."""

    outbox_id: int = 0
    settled: int
    dispatched: int = 0
    # None: as known. Another batch of the day may have taken over tasks that this one left.
    expected: int | None = None


class BatchRef(Message):
    """Argument of the activities that act on one batch."""

    batch_id: int
    tenant_id: int
    client_id: UUID | None = None
    generation: int | None = None


class BatchCounters(Message):
    """The batch after the effect."""

    status: str
    expected: int
    completed: int
    failed: int
    skipped: int
    expired: int
    # Tasks that run now: a cancelled batch waits for them.
    running: int = 0
    touched: int = 0

    @property
    def settled(self) -> int:
        return self.completed + self.failed + self.skipped + self.expired


class ScanResult(Message):
    """What one ScanPlans run did."""

    due: int
    started: int
    skipped_slots: int = 0


# --- residents -----------------------------------------------------------------------------------------------


class ResidentStart(Message):
    """Argument of the Resident workflow and of its activity."""

    role: str
    shard: int = 0
    rotate_after_seconds: float = 600.0
