"""A process that dies at any step between receiving and acknowledging leaves what an undisturbed one leaves.

The steps are those of the real shard on the real database: each statement, commit, stored body, dead letter and
acknowledgement, before it and after it. A few are drawn of some hundred; FAULT_SEED draws them again.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from activities.ingest import IngestShard
from broker.consumer import Received
from store.audit import Integrity, check_integrity
from store.database import Pool
from store.raw_answers import RawAnswers
from store.residents import take
from tests.support.result_queues import SHARD, ListQueue
from tests.support.results import chat_answer, encode, failure, result
from tests.support.world import Desktop, Lease, World

NAME = "ingest/0"
DRAWN = 10

ENDS = """
select t.status, t.dispatch_lane, t.dispatch_attempts, t.active_task_id is null as is_free, d.status as execution,
    a.outcome, a.error, r.status as run, r.failure_kind, r.raw_answer_key is not null as has_body,
    p.brand_mention_count, p.citation_count
from monitoring_collect_tasks t
join desktop_task_attempts a on a.monitor_task_id = t.id
join desktop_tasks d on d.id = a.task_id
left join question_monitor_runs r on r.attempt_id = a.id
left join question_monitor_parse_results p on p.run_id = r.id
where t.tenant_id = $1
order by t.id
"""
COUNTERS = """
select b.completed_count, b.failed_count, q.status, q.completed_task_count, q.failed_task_count,
    q.first_result_at is not null as has_first_result,
    (select array_agg(o.kind order by o.id) from outbox o where o.tenant_id = $1) as effects
from scheduled_batches b join monitoring_collect_requests q on q.tenant_id = b.tenant_id
where b.tenant_id = $1
"""


class Death(BaseException):
    """The end of the process: nothing of ours handles it."""


class Steps:
    """Counts the steps while something runs; the `fatal` one is its last."""

    def __init__(self) -> None:
        self.count = 0
        self.fatal = 0
        self.counting = False

    def watched(self, step: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def watch(*arguments: Any, **named: Any) -> Any:
            self._pass()
            answer = await step(*arguments, **named)
            self._pass()
            return answer

        return watch

    def _pass(self) -> None:
        if self.counting:
            self.count += 1
            if self.count == self.fatal:
                raise Death


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """The database's steps are watched already."""
    watched = Steps()
    for owner, name in (
        (asyncpg.connection.Connection, "fetch"),
        (asyncpg.connection.Connection, "fetchrow"),
        (asyncpg.connection.Connection, "copy_records_to_table"),
        (asyncpg.transaction.Transaction, "start"),
        (asyncpg.transaction.Transaction, "__aexit__"),
    ):
        monkeypatch.setattr(owner, name, watched.watched(getattr(owner, name)))
    return watched


async def messages(world: World, client: Desktop) -> list[tuple[bytes, str]]:
    """A batch of six and a request of three of them: every kind of end, some twice, poison in between."""
    batch = await world.batch(expected=6)
    request = await world.request(client_id=client.id, tasks=3, status="running")
    planned = [await world.leased(client, status="in_progress", batch_id=batch) for _ in range(3)]
    asked = [await world.leased(client, status="in_progress", batch_id=batch, request_id=request) for _ in range(3)]

    def sent(lease: Lease, make: Callable[..., Any] = result, **fields: Any) -> tuple[bytes, str]:
        return encode(make(world, lease, client, **fields)), str(lease.attempt_id)

    cited = sent(planned[0], raw=chat_answer("Acme.", urls=["https://example.com/1", "https://example.com/2"]))
    limited = sent(asked[1], raw='{"error": {"code": "rate_limit_exceeded", "message": "slow down"}}')
    unreadable = (b"\xff{", str(planned[1].attempt_id))
    poison = sent(asked[2], phase_times={"a\0b": 1.0})
    return [cited, unreadable, sent(planned[2], failure), sent(asked[0]), sent(asked[0]), limited, poison, cited]


async def ingest(pool: Pool, queue: ListQueue, raw: RawAnswers, steps: Steps) -> None:
    """One process: until nothing waits, or its death."""
    epoch = await take(pool, NAME, "test")
    consumer = queue.consumer(SHARD)
    consumer.ack = steps.watched(consumer.ack)  # type: ignore[method-assign, assignment]

    async def dead_letter(message: Received, reason: str, shard: int) -> None:
        await steps.watched(queue.dead_letter)(message, reason, shard)

    shard = IngestShard(pool, lambda _: consumer, raw, dead_letter, retry_pause=0)
    steps.counting = True
    running = asyncio.create_task(shard.run(NAME, epoch, SHARD))
    try:
        async with asyncio.timeout(30):
            while queue.messages and not running.done():
                await asyncio.wait({running}, timeout=0.005)
    finally:
        steps.counting = False
        running.cancel()
        [end] = await asyncio.gather(running, return_exceptions=True)
    if isinstance(end, Death):
        await ingest(pool, queue, raw, steps)


async def picture_after(pool: Pool, folder: Path, steps: Steps, fatal: int) -> dict[str, Any]:
    """What all of it leaves in a new world, when the process dies at this step (0: never) and is started again."""
    world = await World.create(pool)
    queue, raw = ListQueue(), RawAnswers(f"file://{folder}/raw")
    for body, message_id in await messages(world, await world.client()):
        await queue.publish(body, message_id)
    raw.put = steps.watched(raw.put)  # type: ignore[method-assign, assignment]
    steps.count, steps.fatal = 0, fatal
    await ingest(pool, queue, raw, steps)
    assert await check_integrity(pool, world.tenant_id) == Integrity(0, 0, 0, 0)
    return {
        "ends": [dict(row) for row in await pool.fetch(ENDS, world.tenant_id)],
        "counters": [dict(row) for row in await pool.fetch(COUNTERS, world.tenant_id)],
        # A death between dead letter and acknowledgement writes it twice.
        "dead": {reason.partition(":")[0] for reason in await queue.reasons()},
    }


async def test_a_death_at_any_step_leaves_what_an_undisturbed_run_leaves(
    pool: Pool, tmp_path: Path, steps: Steps, rng: random.Random
) -> None:
    undisturbed = await picture_after(pool, tmp_path, steps, fatal=0)
    assert undisturbed["dead"] == {"DecodeError", "UntranslatableCharacterError"}
    [counters] = undisturbed["counters"]
    assert (counters["completed_count"], counters["completed_task_count"], counters["has_first_result"]) == (2, 1, True)
    many = steps.count
    for fatal in sorted(rng.sample(range(1, many + 1), DRAWN)):
        assert await picture_after(pool, tmp_path, steps, fatal) == undisturbed, f"died at step {fatal} of {many}"
