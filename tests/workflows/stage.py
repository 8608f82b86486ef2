"""A worker with the real effects on a real database, and the calls that the API, the pump and operators make."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import randrange
from typing import Any
from uuid import UUID

from temporalio import activity
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import Client, WithStartWorkflowOperation, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor, Worker

from activities.batches import BatchActivities, PlanActivities
from activities.requests import RequestActivities
from domain.ids import new_uuid
from domain.messages import (
    AcceptCommand,
    AcceptResult,
    BatchRef,
    BatchStart,
    CollectNowScope,
    CollectNowStart,
    RequestRef,
    batch_workflow_id,
    collect_now_workflow_id,
)
from store.database import Pool
from tests.support.world import World
from workflows.collect_now import CollectNow
from workflows.scan_plans import ScanPlans
from workflows.scheduled_batch import ScheduledBatch

WORKFLOWS: Sequence[type] = (CollectNow, ScheduledBatch, ScanPlans)
METADATA_QUERY = "__temporal_workflow_metadata"


class Recorder(Interceptor):
    """Writes down the effects that ran, and can act before one, or after it has had its effect.

    A workflow task that is lost under load runs again together with its local activities: that is one call of the
    workflow. A retry is a call of its own.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.known: set[tuple[str | None, str, int]] = set()
        self.finished: set[str] = set()
        self.before: dict[str, Callable[[], Awaitable[None]]] = {}
        self.after: dict[str, Callable[[], Awaitable[None]]] = {}

    def record(self, info: activity.Info, argument: Any) -> None:
        """Write down a call, once."""
        call = (info.workflow_run_id, info.activity_id, info.attempt)
        if call not in self.known:
            self.known.add(call)
            self.calls.append((info.activity_type, argument))

    def names(self) -> list[str]:
        """Effects in the order in which they ran."""
        return [name for name, _ in self.calls]

    def arguments(self, name: str) -> list[Any]:
        """What one effect was called with."""
        return [argument for called, argument in self.calls if called == name]

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """The inbound side of the worker."""
        return _Recording(next, self)


class _Recording(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, recorder: Recorder) -> None:
        super().__init__(next)
        self._recorder = recorder

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        name = activity.info().activity_type
        self._recorder.record(activity.info(), input.args[0] if input.args else None)
        if name in self._recorder.before:
            await self._recorder.before[name]()
        answer = await super().execute_activity(input)
        if name in self._recorder.after:
            await self._recorder.after[name]()
        self._recorder.finished.add(name)
        return answer


def activities_of(owner: object) -> list[Callable[..., Any]]:
    """Every activity method of an object."""
    members = (getattr(owner, name) for name in dir(owner) if not name.startswith("_"))
    return [member for member in members if hasattr(member, "__temporal_activity_definition")]


@dataclass
class Stage:
    """One tenant's data, one worker on a task queue of its own, and whoever talks to both."""

    client: Client
    queue: str
    pool: Pool
    world: World
    recorder: Recorder = field(default_factory=Recorder)

    def worker(self, workflows: Sequence[type] = WORKFLOWS) -> Worker:
        """A worker in the default, sandboxed runner."""
        owners = [RequestActivities(self.pool), BatchActivities(self.pool), PlanActivities(self.pool, self.client)]
        return Worker(
            self.client,
            task_queue=self.queue,
            workflows=workflows,
            activities=[method for owner in owners for method in activities_of(owner)],
            interceptors=[self.recorder],
            max_concurrent_local_activities=20,
            graceful_shutdown_timeout=timedelta(seconds=1),
        )

    # --- the API ---------------------------------------------------------------------------------------------

    def command(
        self, request_id: UUID | None = None, *, seconds: float = 30, user_id: int = 1, **given: Any
    ) -> AcceptCommand:
        """A click on the whole brand, unless `question_ids` say otherwise; valid for `seconds` from the start."""
        fields: dict[str, Any] = {
            "request_id": request_id or new_uuid(),
            "tenant_id": self.world.tenant_id,
            "workspace_ids": (self.world.workspace_id,),
            "user_id": user_id,
            "brand_id": self.world.brand_id,
            "scope": CollectNowScope(question_ids=given.pop("question_ids", None)),
            "valid_seconds": seconds,
        }
        return AcceptCommand(**(fields | given))

    async def accept(self, command: AcceptCommand) -> tuple[AcceptResult, WorkflowHandle[Any, Any]]:
        """What the API does with a click: update-with-start."""
        start = WithStartWorkflowOperation(
            CollectNow.run,
            self.start_of(command),
            id=collect_now_workflow_id(command.request_id),
            task_queue=self.queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
        )
        result = await self.client.execute_update_with_start_workflow(
            CollectNow.accept, command, start_workflow_operation=start
        )
        return result, await start.workflow_handle()

    @staticmethod
    def start_of(command: AcceptCommand, *, resume: bool = False) -> CollectNowStart:
        """The workflow's argument for this click."""
        return CollectNowStart(
            request_id=command.request_id, tenant_id=command.tenant_id, brand_id=command.brand_id, resume=resume
        )

    async def start_without_accept(
        self, command: AcceptCommand, *, resume: bool = False, **given: Any
    ) -> WorkflowHandle[Any, Any]:
        """The other half of update-with-start alone."""
        return await self.client.start_workflow(
            CollectNow.run,
            self.start_of(command, resume=resume),
            id=collect_now_workflow_id(command.request_id),
            task_queue=self.queue,
            **given,
        )

    async def plan_batch(
        self, *, cut_off_in: timedelta = timedelta(hours=6), hard_timeout_ms: int = 45_000
    ) -> BatchStart:
        """A planned batch over every question of the brand, as a scan finds it."""
        batch_id = await self.world.batch(expected=0, status="planned")
        row = await self.batch(batch_id)
        return BatchStart(
            batch_id=batch_id,
            tenant_id=row["tenant_id"],
            brand_id=row["brand_id"],
            plan_id=row["plan_id"],
            business_date=row["business_date"],
            slot=row["slot"],
            cut_off_at=datetime.now(UTC) + cut_off_in,
            hard_timeout_ms=hard_timeout_ms,
        )

    async def start_batch(self, start: BatchStart) -> WorkflowHandle[Any, Any]:
        """What a scan does with a planned batch."""
        return await self.client.start_workflow(
            ScheduledBatch.run,
            start,
            id=batch_workflow_id(start.tenant_id, start.brand_id, start.business_date, start.slot),
            task_queue=self.queue,
        )

    # --- what the database says ------------------------------------------------------------------------------

    def ref(self, request_id: UUID) -> RequestRef:
        """A request, as its effects name it."""
        return RequestRef(request_id=request_id, tenant_id=self.world.tenant_id)

    def batch_ref(self, batch_id: int) -> BatchRef:
        """A batch, as its effects name it."""
        return BatchRef(batch_id=batch_id, tenant_id=self.world.tenant_id)

    async def request(self, request_id: UUID) -> dict[str, Any]:
        """The request's row."""
        return await self.world.row("monitoring_collect_requests", request_id)

    async def batch(self, batch_id: int) -> dict[str, Any]:
        """The batch's row."""
        return await self.world.row("scheduled_batches", batch_id)

    async def tasks(self, **where: Any) -> list[dict[str, Any]]:
        """Business tasks by equal columns, oldest first."""
        names = " and ".join(f"{name} = ${index}" for index, name in enumerate(where, start=1)) or "true"
        query = f"select * from monitoring_collect_tasks where {names} order by id"
        return [dict(row) for row in await self.pool.fetch(query, *where.values())]

    async def task_ids(self, request_id: UUID) -> list[int]:
        """The business tasks that a request holds."""
        return [task["id"] for task in await self.tasks(collect_request_id=request_id)]

    async def called(self, effect: str) -> bool:
        """Whether an effect has run to its end; a condition for `until`."""
        return effect in self.recorder.finished

    async def counts(self) -> dict[str, int]:
        """Rows of every table that a workflow's effect may write; equal before and after a repeat."""
        tables = (
            "monitoring_collect_requests",
            "monitoring_collect_tasks",
            "desktop_tasks",
            "desktop_task_attempts",
            "scheduled_batches",
            "outbox",
        )
        return {table: await self.pool.fetchval(f"select count(*)::int from {table}") for table in tables}

    # --- signals ---------------------------------------------------------------------------------------------

    async def deliver(self) -> int:
        """Send what waits in the outbox, each row as one signal: the pump without its coalescing, the worst case."""
        rows = await self.pool.fetch(
            "select id, kind, key, payload from outbox where channel = 'signal' and delivered_at is null order by id"
        )
        for row in rows:
            await self._send(row["key"], row["kind"], {**row["payload"], "outbox_id": row["id"]})
            await self.pool.execute("update outbox set delivered_at = now() where id = $1", row["id"])
        return len(rows)

    async def _send(self, workflow_id: str, name: str, payload: dict[str, Any]) -> None:
        try:
            await self.client.get_workflow_handle(workflow_id).signal(name, payload)
        except RPCError as error:
            # As for the pump: a workflow that has ended needs no signal.
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise


async def details(handle: WorkflowHandle[Any, Any]) -> str:
    """The current details that the Temporal UI shows; every signal sent before has been handled by then."""
    metadata = await handle.query(METADATA_QUERY, result_type=WorkflowMetadata)
    current: str = metadata.current_details
    return current


async def shows(handle: WorkflowHandle[Any, Any], text: str) -> bool:
    """Whether the current details contain the text; a condition for `until`."""
    return text in await details(handle)


async def until(condition: Callable[[], Awaitable[Any]]) -> Any:
    """Wait for a true answer; pytest's own time-out ends a wait that is in vain."""
    while not (answer := await condition()):
        await asyncio.sleep(0.02)
    return answer


async def history_length(handle: WorkflowHandle[Any, Any]) -> int:
    """Events of the run, as the server counts them."""
    return (await handle.describe()).history_length


@asynccontextmanager
async def on_stage(client: Client, pool: Pool, questions: int = 2) -> AsyncIterator[Stage]:
    """A tenant with a plan over some questions, and its worker running."""
    # Ids of workflows contain the tenant's, and the servers outlive the test's database.
    await pool.execute("select setval(pg_get_serial_sequence('tenants', 'id'), $1)", randrange(10**6, 10**12))
    world = await World.create(pool)
    await world.plan()
    for _ in range(questions):
        await world.question()
    stage = Stage(client, f"test-{new_uuid()}", pool, world)
    async with stage.worker():
        yield stage
