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
TUNE_SCHEDULE_ID: Final = "tune-timeouts"
RECONCILE_SCHEDULE_ID: Final = "reconcile"


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
    INTERRUPTS_INHERITED = "interrupts_inherited"
    CLIENT_LOST = "client_lost"
    CLIENT_BOUND = "client_bound"
    TASKS_TERMINAL = "tasks_terminal"
    SUPERSEDED = "superseded"
    PREEMPTED = "preempted"
    RESUMED = "resumed"
    PROGRESS = "progress"


class BatchUpdate(StrEnum):
    """Updates of the ScheduledBatch workflow; a person may send them from the Temporal UI as well."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"


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
    hint: str | None = None
    # REFUSED: the error's stable code, HTTP status and text (domain/errors.py).
    error_code: str | None = None
    error_status: int | None = None
    error_message: str | None = None
    retry_after: int | None = None
    business_date: date | None = None
    # When to look first whether the victims have stopped; which of them is due is judged then.
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


class InterruptsInherited(Message):
    """Signal: a request that ended has left orders to stop to this one, on a desktop where its tasks wait."""

    outbox_id: int = 0
    client_id: UUID
    generation: int
    interrupts: int
    # When the victims were asked first.
    asked_at: datetime | None = None


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
    # Gone back to where they came from: a cancelled request waits for them no more.
    returned: int = 0


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
    # How long the victims of this client and generation have been asked, by the workflow's clock. None: long enough.
    waited_ms: int | None = None


class RequestCounters(Message):
    """What those activities answer: the request after the effect."""

    status: str
    requested: int
    dispatched: int
    completed: int
    failed: int
    target_client_id: UUID | None = None
    hint: str | None = None
    returned: int = 0
    # Tasks or leases the effect touched.
    touched: int = 0
    # Of victims that were asked to stop and are not past it: the time left to the first soft and hard timeout.
    soft_in_ms: int | None = None
    hard_in_ms: int | None = None


class CollectNowResult(Message):
    """What the CollectNow workflow returns."""

    # accepted requests: the request's final status; else abandoned, duplicate or refused.
    status: str
    requested: int = 0
    completed: int = 0
    failed: int = 0
    returned: int = 0


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
    # The last (question, platform) that was created.
    materialised_after: tuple[int, str] | None = None
    # Cancelled by an update: what runs is waited for, and nothing else.
    cancelling: bool = False


class MaterialiseChunk(Message):
    """Argument of one materialise step: rows after the cursor, at most `size`."""

    batch_id: int
    tenant_id: int
    # Position in the ordered (question, platform) list; 0 starts. Counts when there is no cursor: runs that began
    # before there was one.
    offset: int = 0
    size: int = 500
    # The last (question, platform) of the step before.
    after: tuple[int, str] | None = None


class MaterialisedChunk(Message):
    """Its answer; `done` when nothing is left."""

    next_offset: int
    after: tuple[int, str] | None = None
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


class BatchOrder(Message):
    """Argument of the updates: who gives the order, for the audit."""

    actor: str = "temporal"


class BatchRef(Message):
    """Argument of the activities that act on one batch."""

    batch_id: int
    tenant_id: int
    client_id: UUID | None = None
    generation: int | None = None
    # Who gave the order that the effect carries out.
    actor: str = "giveway"


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
    # Tasks that wait for the end of the pause.
    held: int = 0
    # Missed schedule slots that the batch stands for besides its own.
    skipped_slots: int = 0
    # The batch whose rest this one collects, and the one that collects this one's.
    backfill_of: int | None = None
    backfill_id: int | None = None

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


# --- tuning --------------------------------------------------------------------------------------------------


class TuneOrder(Message):
    """Argument of the TuneTimeouts workflow and its activity. `dry_run`: say what would change, and change nothing."""

    dry_run: bool = False


class TunedPlatform(Message):
    """One platform's interrupt timeouts before and after, in ms, and what they were measured from."""

    platform: str
    samples: int
    p95_ms: float | None
    before: tuple[int | None, int | None]
    after: tuple[int | None, int | None]
    # tuned | unchanged | too_few_samples | pinned
    outcome: str


class TuneResult(Message):
    """What one retuning did, or would do."""

    dry_run: bool
    platforms: tuple[TunedPlatform, ...] = ()


# --- reconcile -----------------------------------------------------------------------------------------------


class DatabaseFixes(Message):
    """What reconcile mended in the database: rows, by kind."""

    # Leases of the legacy path that ran out.
    legacy_leases: int = 0
    # Business tasks held by an execution task that is missing or over.
    freed_tasks: int = 0
    # Live execution tasks that their waiting business task did not know of: it could not be dispatched.
    blocked_tasks: int = 0
    # Execution tasks without a business task that wants them, which nobody can be running.
    orphans: int = 0
    unknown: int = 0
    # Results received whose message is gone.
    never_ingested: int = 0
    # Tasks in high, or bound to a client, for no open request.
    stray_tasks: int = 0
    # Orders to stop for requests that are over.
    interrupts: int = 0
    request_counters: int = 0
    batch_counters: int = 0


class WorkflowFixes(Message):
    """What reconcile mended in Temporal: runs started, and cancels finished for runs that are over, by kind."""

    request_workflows: int = 0
    batch_workflows: int = 0
    cancelled_requests: int = 0
    cancelled_batches: int = 0
    residents: int = 0


class Findings(Message):
    """What reconcile saw and left alone: for the eyes of operators."""

    # Execution tasks that run for nobody; they end by themselves, or become `orphans` with their lease.
    orphans_running: int = 0
    # Effects that wait for a pump longer than a minute.
    outbox_waiting: int = 0
    # Kinds that could not be looked at; the log says why.
    failed: tuple[str, ...] = ()


class DatabaseReconciled(Message):
    """Answer of the database's part of a reconcile."""

    fixed: DatabaseFixes = DatabaseFixes()
    found: Findings = Findings()


class ReconcileResult(Message):
    """What one reconcile did. `workflows` None: Temporal was not asked."""

    database: DatabaseFixes
    workflows: WorkflowFixes | None = None
    found: Findings = Findings()

    def by_kind(self) -> dict[str, int]:
        """How many were mended, by kind; kinds are what metrics and audit call them."""
        counts: dict[str, int] = dict(self.database)
        return counts | (dict(self.workflows) if self.workflows else {})
