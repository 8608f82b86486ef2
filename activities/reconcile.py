"""The effects of the Reconcile workflow: damage in the database, and processes that do not run (1-dispatch §1.8)."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from temporalio import activity
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from domain.messages import (
    DatabaseReconciled,
    ResidentStart,
    WorkflowFixes,
    collect_now_workflow_id,
    resident_workflow_id,
)
from domain.reconcile import Process, Remedy, remedy
from store import reconcile_workflows as rows
from store.database import Pool
from store.reconcile import reconcile_database
from store.reconcile_workflows import OpenBatch, OpenRequest

log = logging.getLogger(__name__)

# Questions to Temporal in flight: it has clicks to serve meanwhile.
AT_ONCE: Final = 8

# Residents that should run, read when asked: how many coordinators there are is a hot setting.
Residents = Callable[[], Awaitable[Sequence[ResidentStart]]]
# Told each kind that mended something, and how many rows.
Count = Callable[[str, int], None]

Row = TypeVar("Row")


def _uncounted(_kind: str, _rows: int) -> None:
    return None


class ReconcileActivities:
    """Both are idempotent, and safe beside everything else that runs: each fix is judged again under its locks."""

    def __init__(self, pool: Pool, client: Client, residents: Residents, count: Count = _uncounted) -> None:
        self._pool = pool
        self._client = client
        self._residents = residents
        self._count = count

    @activity.defn
    async def reconcile_database(self) -> DatabaseReconciled:
        """Mend what contradicts itself."""
        done = await reconcile_database(self._pool, beat=activity.heartbeat)
        self._count_all(dict(done.fixed))
        return done

    @activity.defn
    async def reconcile_workflows(self) -> WorkflowFixes:
        """Start what should run, and finish what was cancelled."""
        counts: Counter[str] = Counter()
        counts["residents"] = await self._start_residents()
        counts += await self._each(rows.open_requests(self._pool), self._mend_request)
        counts += await self._each(rows.open_batches(self._pool), self._mend_batch)
        self._count_all(counts)
        return WorkflowFixes(**counts)

    def _count_all(self, counts: dict[str, int]) -> None:
        for kind, mended in counts.items():
            if mended:
                self._count(kind, mended)

    async def _start_residents(self) -> int:
        started = [await self._start_resident(start) for start in await self._residents()]
        return sum(started)

    async def _start_resident(self, start: ResidentStart) -> bool:
        activity.heartbeat()
        try:
            await self._client.start_workflow(
                "Resident",
                start,
                id=resident_workflow_id(start.role, start.shard),
                task_queue=activity.info().task_queue,
                id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                static_summary=f"resident {start.role}/{start.shard}",
            )
        except WorkflowAlreadyStartedError:
            return False
        log.warning("resident %s/%d did not run; started", start.role, start.shard)
        return True

    async def _each(self, found: AsyncIterator[Row], mend: Callable[[Row], Awaitable[Counter[str]]]) -> Counter[str]:
        """Every row through `mend`, some at once; the counts by kind. One that fails is logged, and the next run's."""
        room = asyncio.Semaphore(AT_ONCE)
        counts: Counter[str] = Counter()

        async def one(row: Row) -> None:
            try:
                counts.update(await mend(row))
            except RPCError as error:
                log.warning("%s is the next run's: %s", row, error)
            finally:
                room.release()

        async with asyncio.TaskGroup() as group:
            async for row in found:
                activity.heartbeat()
                await room.acquire()
                group.create_task(one(row))
        return counts

    # --- requests --------------------------------------------------------------------------------------------

    async def _mend_request(self, found: OpenRequest) -> Counter[str]:
        start = found.start
        workflow_id = collect_now_workflow_id(start.request_id)
        needed = remedy(await self._ask(workflow_id), cancelled=found.cancelled)
        if needed is Remedy.NOTHING or not await rows.is_request_open(self._pool, start.request_id):
            return Counter()
        if needed is Remedy.FINISH:
            return _one_if("cancelled_requests", await rows.finish_cancelled_request(self._pool, found))
        await self._start("CollectNow", start, workflow_id, f"collect-now of brand {start.brand_id}, taken up again")
        await rows.record_started(self._pool, "request_workflows", start.tenant_id, f"request {start.request_id}")
        return Counter(request_workflows=1)

    # --- batches ---------------------------------------------------------------------------------------------

    async def _mend_batch(self, found: OpenBatch) -> Counter[str]:
        start = found.start
        needed = remedy(await self._ask(found.workflow_id), cancelled=found.cancelled)
        if needed is Remedy.NOTHING or not await rows.is_batch_open(self._pool, start.batch_id):
            return Counter()
        if needed is Remedy.FINISH:
            return _one_if("cancelled_batches", await rows.finish_cancelled_batch(self._pool, found))
        summary = f"batch of brand {start.brand_id}, {start.business_date}, taken up again"
        await self._start("ScheduledBatch", start, found.workflow_id, summary)
        await rows.record_started(self._pool, "batch_workflows", start.tenant_id, f"batch {start.batch_id}")
        return Counter(batch_workflows=1)

    # --- Temporal --------------------------------------------------------------------------------------------

    async def _ask(self, workflow_id: str) -> Process:
        """The newest run of the workflow. Raises RPCError when Temporal does not answer."""
        try:
            status = (await self._client.get_workflow_handle(workflow_id).describe()).status
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return Process.MISSING
            raise
        return _process(status)

    async def _start(self, workflow: str, argument: Any, workflow_id: str, summary: str) -> None:
        await self._client.start_workflow(
            workflow,
            argument,
            id=workflow_id,
            task_queue=activity.info().task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            static_summary=summary,
        )
        log.warning("workflow %s did not run; started", workflow_id)


def _process(status: WorkflowExecutionStatus | None) -> Process:
    if status in (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.CONTINUED_AS_NEW):
        return Process.RUNNING
    return Process.CANCELLED if status is WorkflowExecutionStatus.CANCELED else Process.OVER


def _one_if(kind: str, touched: int) -> Counter[str]:
    return Counter({kind: 1}) if touched else Counter()
