"""Open requests and batches, whose workflows reconcile asks for (1-dispatch §1.8)."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from domain.messages import BatchRef, BatchStart, CollectNowStart, RequestRef
from store import batches, requests
from store.batch_starts import start_of
from store.database import Pool
from store.reconcile_audit import Fix, record_fixes
from store.statements import statements

SQL = statements("reconcile")

PAGE: Final = 200


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """A request that is not over. `cancelled`: it waits for what runs, and for nothing else."""

    start: CollectNowStart
    cancelled: bool
    # Past its hard end.
    overdue: bool


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """A batch that is not over. `cancelled`: it waits for what runs, and for nothing else."""

    start: BatchStart
    workflow_id: str
    cancelled: bool


async def open_requests(pool: Pool) -> AsyncIterator[OpenRequest]:
    """Every open request, read in pages."""
    after = UUID(int=0)
    while rows := await pool.fetch(SQL["find_open_requests"], after, PAGE):
        for row in rows:
            start = CollectNowStart(
                request_id=row["id"], tenant_id=row["tenant_id"], brand_id=row["brand_id"], resume=True
            )
            yield OpenRequest(start, row["cancelled"], row["overdue"])
        after = rows[-1]["id"]


async def open_batches(pool: Pool) -> AsyncIterator[OpenBatch]:
    """Every open batch that no scan is about to start, read in pages."""
    after = 0
    while rows := await pool.fetch(SQL["find_open_batches"], after, PAGE):
        for row in rows:
            yield OpenBatch(start_of(row), row["workflow_id"], row["cancelled"])
        after = rows[-1]["id"]


async def is_request_open(pool: Pool, request_id: UUID) -> bool:
    """Whether it is still open: it may have ended together with its workflow."""
    found: bool = await pool.fetchval(SQL["is_request_open"], request_id)
    return found


async def is_batch_open(pool: Pool, batch_id: int) -> bool:
    """Whether it is still open: it may have ended together with its workflow."""
    found: bool = await pool.fetchval(SQL["is_batch_open"], batch_id)
    return found


async def finish_cancelled_request(pool: Pool, open_request: OpenRequest) -> int:
    """The end that the cancel began, as its workflow would have brought it; how many rows it touched."""
    ref = RequestRef(request_id=open_request.start.request_id, tenant_id=open_request.start.tenant_id)
    touched = (await requests.cancel_request(pool, ref)).touched
    if open_request.overdue:
        touched += (await requests.end_request(pool, ref)).touched
    return await _record(pool, "cancelled_requests", ref.tenant_id, f"request {ref.request_id}", touched)


async def finish_cancelled_batch(pool: Pool, open_batch: OpenBatch) -> int:
    """What waits is skipped, what runs finishes, and the batch closes with the last; how many rows it touched."""
    start = open_batch.start
    ref = BatchRef(batch_id=start.batch_id, tenant_id=start.tenant_id)
    touched = 0 if open_batch.cancelled else 1
    touched += (await batches.cancel_batch(pool, ref)).touched
    touched += (await batches.finish_batch(pool, ref)).touched
    return await _record(pool, "cancelled_batches", ref.tenant_id, f"batch {ref.batch_id}", touched)


async def record_started(pool: Pool, kind: str, tenant_id: int, subject: str) -> None:
    """A workflow was started for it."""
    await _record(pool, kind, tenant_id, subject, 1)


async def _record(pool: Pool, kind: str, tenant_id: int, subject: str, touched: int) -> int:
    if not touched:
        return 0
    async with pool.acquire() as connection:
        return await record_fixes(connection, kind, [Fix(tenant_id, subject, {"touched": touched})])
