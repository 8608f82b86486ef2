"""The effects of the ScheduledBatch and ScanPlans workflows."""

from temporalio import activity
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from domain.messages import (
    BatchCounters,
    BatchRef,
    BatchStart,
    MaterialiseChunk,
    MaterialisedChunk,
    ScanResult,
    batch_workflow_id,
)
from store import batch_starts, batch_tasks, batches
from store.database import Pool


class BatchActivities:
    """Each method is idempotent: a chunk, a cut-off or a finish may run again."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @activity.defn
    async def materialise(self, chunk: MaterialiseChunk) -> MaterialisedChunk:
        """Create one slice of the batch's business tasks."""
        return await batch_tasks.materialise(self._pool, chunk)

    @activity.defn
    async def read_batch(self, ref: BatchRef) -> BatchCounters:
        """The batch as it stands."""
        return await batches.read_batch(self._pool, ref)

    @activity.defn
    async def pause_batch(self, ref: BatchRef) -> BatchCounters:
        """Hold what waits; what runs finishes."""
        return await batches.pause_batch(self._pool, ref)

    @activity.defn
    async def resume_batch(self, ref: BatchRef) -> BatchCounters:
        """Let go of what a pause held."""
        return await batches.resume_batch(self._pool, ref)

    @activity.defn
    async def expire_batch(self, ref: BatchRef) -> BatchCounters:
        """The cut-off: what still waits is expired."""
        return await batches.expire_batch(self._pool, ref)

    @activity.defn
    async def cancel_batch(self, ref: BatchRef) -> BatchCounters:
        """Skip what waits; what runs finishes."""
        return await batches.cancel_batch(self._pool, ref)

    @activity.defn
    async def rebalance_batch(self, ref: BatchRef) -> BatchCounters:
        """Unbind the waiting tasks from a client that does not resume."""
        return await batches.rebalance_batch(self._pool, ref)

    @activity.defn
    async def finish_batch(self, ref: BatchRef) -> BatchCounters:
        """Close the batch if everything is settled."""
        return await batches.finish_batch(self._pool, ref)


class PlanActivities:
    """Due plans become batches; every planned batch gets its workflow."""

    def __init__(self, pool: Pool, client: Client) -> None:
        self._pool = pool
        self._client = client

    @activity.defn
    async def scan_plans(self) -> ScanResult:
        """Claim what is due, then start what has no workflow yet; the next scan makes a crash in between good."""
        due = await batch_starts.claim_due_plans(self._pool)
        skipped: list[int] = []
        last = 0
        while page := await batch_starts.find_planned(self._pool, last):
            skipped += [skipped_slots for start, skipped_slots in page if await self._start(start)]
            last = page[-1][0].batch_id
        return ScanResult(due=due, started=len(skipped), skipped_slots=sum(skipped))

    async def _start(self, start: BatchStart) -> bool:
        """Whether this call started it: a second start is a no-op."""
        try:
            await self._client.start_workflow(
                "ScheduledBatch",
                start,
                id=batch_workflow_id(start.tenant_id, start.brand_id, start.business_date, start.slot),
                task_queue=activity.info().task_queue,
                id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                static_summary=f"batch of brand {start.brand_id}, {start.business_date}",
            )
        except WorkflowAlreadyStartedError:
            return False
        return True
