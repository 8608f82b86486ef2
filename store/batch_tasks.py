"""What a batch consists of: its tasks, created slice by slice, and those that it takes over (1-dispatch §1.6).

Lock order: the tenant's lock, business tasks by id, batches by id.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import asyncpg

from domain.ids import shard_key
from domain.legacy import ExecutionOwner
from domain.messages import MaterialiseChunk, MaterialisedChunk
from store.database import Connection, Pool, transaction
from store.listen import DISPATCH, PROJECTION, wake
from store.rollout import path_of_new_work
from store.statements import statements

SQL, LOCKS = statements("batch_tasks"), statements("locks")


@dataclass(frozen=True, slots=True)
class _Slice:
    """What one chunk looked at: how many, where the list goes on, and what became of it."""

    size: int
    after: tuple[int, str] | None = None
    created: int = 0
    # Batches that lost tasks by it.
    former: Collection[int] = ()


async def materialise(pool: Pool, chunk: MaterialiseChunk) -> MaterialisedChunk:
    """Create the next slice of the batch's business tasks; running it twice creates nothing more.

    A task that a collect-now created before is the batch's too, and one that an earlier batch of the day, now over,
    left unanswered; what another batch answered, failed or still works on is that one's. A backfill creates nothing: it
    takes over what the cut-off of its batch expired. In a paused batch new tasks are held; a cancelled one gets none.
    """
    async with transaction(pool) as connection:
        await connection.execute(LOCKS["lock_tenant_requests"], chunk.tenant_id)
        batch = await connection.fetchrow(SQL["read_batch"], chunk.batch_id)
        if batch is None or not batch["takes_tasks"]:
            expected = 0 if batch is None else batch["expected_count"]
            return MaterialisedChunk(next_offset=chunk.offset, created=0, expected=expected, done=True)
        fill = _create if batch["backfill_of"] is None else _take_expired
        done = await fill(connection, chunk, batch)
        expected = await _recount(connection, chunk.batch_id, done.former)
        await connection.execute(SQL["mark_projection"], chunk.batch_id)
        await wake(connection, DISPATCH, PROJECTION)
    return MaterialisedChunk(
        next_offset=chunk.offset + done.size,
        after=done.after,
        created=done.created,
        expected=expected,
        done=done.size < chunk.size,
    )


async def _create(connection: Connection, chunk: MaterialiseChunk, batch: asyncpg.Record) -> _Slice:
    """The pairs after the cursor; by position only for a run that began before there was one."""
    question, platform = chunk.after or (None, None)
    offset = 0 if chunk.after else chunk.offset
    rows = await connection.fetch(SQL["read_slice"], chunk.batch_id, question, platform, offset, chunk.size)
    slice_of = (chunk.batch_id, [row["question_id"] for row in rows], [row["platform"] for row in rows])
    path = await path_of_new_work(connection, batch["tenant_id"])
    former = await _take_over(connection, *slice_of, path)
    key = shard_key(batch["tenant_id"], batch["brand_id"], batch["business_date"])
    created = await connection.fetchval(SQL["materialise"], *slice_of, key, path)
    last = (rows[-1]["question_id"], rows[-1]["platform"]) if rows else None
    return _Slice(len(rows), last, created, former)


async def _take_over(
    connection: Connection, batch_id: int, questions: Sequence[int], platforms: Sequence[str], path: ExecutionOwner
) -> set[int]:
    """Take in what exists of the slice and nobody works on; returns the batches that lost tasks by it."""
    rows = await connection.fetch(SQL["lock_takeable"], batch_id, questions, platforms)
    await connection.execute(SQL["take_unowned"], batch_id, [row["id"] for row in rows if row["former_id"] is None])
    left = [row for row in rows if row["former_id"] is not None]
    await connection.execute(SQL["take_over"], batch_id, [row["id"] for row in left], "normal", 100, path)
    return {row["former_id"] for row in left}


# Under the day's own retries (50): yesterday's answers wait for today's questions.
BACKFILL_LANE, BACKFILL_PRIORITY = "retry", 30


async def _take_expired(connection: Connection, chunk: MaterialiseChunk, batch: asyncpg.Record) -> _Slice:
    """What was taken is no longer found, so every slice is the first."""
    rows = await connection.fetch(SQL["lock_expired"], batch["backfill_of"], chunk.size)
    ids = [row["id"] for row in rows]
    path = await path_of_new_work(connection, chunk.tenant_id)
    await connection.execute(SQL["take_over"], chunk.batch_id, ids, BACKFILL_LANE, BACKFILL_PRIORITY, path)
    return _Slice(len(rows), created=len(rows))


async def _recount(connection: Connection, batch_id: int, former: Collection[int]) -> int:
    """Count this batch, and open ones that it took tasks from, under their locks; returns what this one expects."""
    ids = sorted({batch_id, *former})
    await connection.execute(SQL["lock_batches"], ids)
    rows = await connection.fetch(SQL["recount_batches"], ids, batch_id)
    return next((row["expected_count"] for row in rows if row["id"] == batch_id), 0)
