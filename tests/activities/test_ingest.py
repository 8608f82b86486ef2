"""Results into facts, whatever the queue: one effect a result, poison isolated, outages waited for (3-results §3.2)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from activities.ingest import IngestShard
from domain.errors import FencedOut
from domain.ids import new_uuid
from domain.transport import ResultMessage
from store.database import Pool
from store.raw_answers import RawAnswers, raw_answer_key
from store.residents import take
from tests.conftest import Servers
from tests.support.ingesting import NAME, ingesting
from tests.support.result_queues import SHARD, ListQueue, ResultQueue, rabbit_queue, until
from tests.support.results import chat_answer, encode, failure, result
from tests.support.world import BUSINESS_DATE, Desktop, Lease, World


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


@pytest.fixture
async def client(world: World) -> Desktop:
    return await world.client()


@pytest.fixture(params=["list", "rabbitmq"])
async def queue(request: pytest.FixtureRequest, servers: Servers) -> AsyncIterator[ResultQueue]:
    if request.param == "list":
        yield ListQueue()
        return
    async with rabbit_queue(servers.amqp_url) as opened:
        yield opened


@pytest.fixture
def raw(tmp_path: Path) -> RawAnswers:
    return RawAnswers(f"file://{tmp_path}/raw")


async def send(queue: ResultQueue, *messages: ResultMessage) -> None:
    for message in messages:
        await queue.publish(encode(message), message.attempt_id)


async def outcome(world: World, lease: Lease) -> str | None:
    found: str | None = (await world.attempt(lease.attempt_id))["outcome"]
    return found


async def all_ended(world: World, *leases: Lease) -> None:
    async def ended() -> bool:
        return all([await outcome(world, lease) is not None for lease in leases])

    await until(ended)


async def picture(pool: Pool) -> dict[str, list[Any]]:
    """Everything that a result may change."""
    tables = ("question_monitor_runs", "question_monitor_parse_results", "monitoring_citation_facts", "desktop_tasks",
              "desktop_task_attempts", "monitoring_collect_tasks", "monitoring_collect_requests", "scheduled_batches",
              "outbox")  # fmt: skip
    return {table: await pool.fetch(f"select * from {table} order by 1, 2") for table in tables}


async def test_an_answer_becomes_facts_and_closes_its_task(
    pool: Pool, world: World, client: Desktop, queue: ResultQueue, raw: RawAnswers
) -> None:
    lease = await world.leased(client, status="in_progress")
    message = result(world, lease, client)
    async with ingesting(pool, queue, raw, retry_pause=0):
        await send(queue, message)
        await all_ended(world, lease)
    run = await pool.fetchrow("select * from question_monitor_runs")
    assert run is not None
    assert (run["status"], run["attempt_id"]) == ("succeeded", lease.attempt_id)
    assert await pool.fetchval("select brand_mentioned from question_monitor_parse_results") is True
    assert (await world.business(lease.business_id))["status"] == "completed"
    assert message.raw is not None
    key = raw_answer_key(world.tenant_id, world.brand_id, BUSINESS_DATE, lease.attempt_id)
    assert run["raw_answer_key"] == key
    assert await raw.get(key) == message.raw.encode()


async def test_duplicates_and_redelivery_change_nothing(
    pool: Pool, world: World, client: Desktop, queue: ResultQueue, raw: RawAnswers
) -> None:
    batch = await world.batch()
    done, lost = [await world.leased(client, status="in_progress", batch_id=batch) for _ in range(2)]
    messages = [result(world, done, client), failure(world, lost, client)]
    async with ingesting(pool, queue, raw, retry_pause=0):
        await send(queue, *messages, *messages)
        await all_ended(world, done, lost)
        before = await picture(pool)
        last = await world.leased(client, status="in_progress")
        await send(queue, *messages, result(world, last, client))
        await all_ended(world, last)
    await pool.execute("delete from question_monitor_runs where attempt_id = $1", last.attempt_id)
    await pool.execute("delete from monitoring_collect_tasks where id = $1", last.business_id)
    assert await picture(pool) == before


async def test_a_batch_committed_before_a_crash_is_not_counted_again(
    pool: Pool, world: World, client: Desktop, queue: ResultQueue, raw: RawAnswers
) -> None:
    """The consumer dies between commit and acknowledgement; its successor gets the batch again."""
    lease = await world.leased(client, status="in_progress")
    await send(queue, result(world, lease, client))
    epoch = await take(pool, NAME, "dying")
    consumer = queue.consumer(SHARD)
    committed = asyncio.Event()

    async def die(_batch: object) -> None:
        committed.set()
        await asyncio.Event().wait()

    consumer.ack = die  # type: ignore[method-assign, assignment]
    first = asyncio.create_task(IngestShard(pool, lambda _: consumer, raw, queue.dead_letter).run(NAME, epoch, SHARD))
    await asyncio.wait_for(committed.wait(), 30)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    before = await picture(pool)
    later = await world.leased(client, status="in_progress")
    async with ingesting(pool, queue, raw, retry_pause=0):
        await send(queue, result(world, later, client))
        await all_ended(world, later)
    await pool.execute("delete from monitoring_collect_tasks where id = $1", later.business_id)
    await pool.execute("delete from question_monitor_runs where attempt_id = $1", later.attempt_id)
    assert await picture(pool) == before


async def test_a_body_that_is_no_answer_is_a_failed_run_with_its_reason(
    pool: Pool, world: World, client: Desktop, queue: ResultQueue, raw: RawAnswers
) -> None:
    lease = await world.leased(client, status="in_progress")
    body = '{"error": {"code": "rate_limit_exceeded", "message": "slow down"}}'
    async with ingesting(pool, queue, raw, retry_pause=0):
        await send(queue, result(world, lease, client, raw=body))
        await all_ended(world, lease)
    run = await pool.fetchrow("select * from question_monitor_runs")
    assert run is not None
    assert (run["status"], run["failure_kind"]) == ("failed", "rate_limited")
    assert run["failure_reason"] == "qwen: rate_limit_exceeded: slow down"
    assert await outcome(world, lease) == "failed"
    assert (await world.business(lease.business_id))["dispatch_lane"] == "retry"


async def test_two_results_of_one_task_in_a_batch_settle_one_after_the_other(
    pool: Pool, world: World, client: Desktop, queue: ResultQueue, raw: RawAnswers
) -> None:
    lease = await world.leased(client, status="in_progress")
    older = new_uuid()
    await pool.execute(
        "insert into desktop_task_attempts (id, tenant_id, task_id, monitor_task_id, client_id, attempt, token_hash,"
        " leased_at, ended_at, outcome)"
        " values ($1, $2, null, $3, $4, 0, 'x', now() - interval '1 hour', now(), 'revoked')",
        older, world.tenant_id, lease.business_id, client.id,
    )  # fmt: skip
    late = result(
        world, Lease(lease.task_id, lease.business_id, older, ""), client, raw=chat_answer("Acme.", model="old")
    )
    await send(queue, late, result(world, lease, client))
    async with ingesting(pool, queue, raw, retry_pause=0):
        await all_ended(world, lease)
    assert await pool.fetchval("select array_agg(attempt_id) from question_monitor_runs") == [lease.attempt_id]


@pytest.mark.parametrize(
    "body", [b"not json", b'{"attempt_id": 7}', b"", b"\xff\xfe"], ids=["text", "wrong-shape", "empty", "bytes"]
)
async def test_an_unreadable_message_is_dead_lettered_and_its_attempt_failed(
    pool: Pool, world: World, client: Desktop, queue: ResultQueue, raw: RawAnswers, body: bytes
) -> None:
    poisoned, sound = [await world.leased(client, status="in_progress") for _ in range(2)]
    await queue.publish(body, str(poisoned.attempt_id))
    await send(queue, result(world, sound, client))
    async with ingesting(pool, queue, raw, retry_pause=0):
        await until(lambda: _has_reasons(queue, 1))
        await all_ended(world, sound, poisoned)
    assert (await outcome(world, sound), await outcome(world, poisoned)) == ("succeeded", "failed")
    assert (await world.attempt(poisoned.attempt_id))["error"].startswith("dead-lettered: ")
    assert (await world.business(poisoned.business_id))["dispatch_attempts"] == 1


async def _has_reasons(queue: ResultQueue, count: int) -> bool:
    return len(await queue.reasons()) == count


async def test_poison_is_isolated_with_its_reason_and_its_neighbours_are_ingested(
    pool: Pool, world: World, client: Desktop, queue: ResultQueue, raw: RawAnswers
) -> None:
    """The database refuses one message of a batch: the others commit, that one goes to the dead-letter queue."""
    before, poisoned, after = [await world.leased(client, status="in_progress") for _ in range(3)]
    await pool.execute(
        f"alter table question_monitor_runs add constraint refuse check (attempt_id <> '{poisoned.attempt_id}')"
    )
    await send(queue, *(result(world, lease, client) for lease in (before, poisoned, after)))
    async with ingesting(pool, queue, raw, retry_pause=0):
        await until(lambda: _has_reasons(queue, 1))
        await all_ended(world, before, poisoned, after)
    assert [await outcome(world, each) for each in (before, poisoned, after)] == ["succeeded", "failed", "succeeded"]
    [reason] = await queue.reasons()
    assert reason.startswith("CheckViolationError")


async def test_a_dead_letter_that_is_replayed_is_taken(
    pool: Pool, world: World, client: Desktop, queue: ResultQueue, raw: RawAnswers
) -> None:
    lease = await world.leased(client, status="in_progress")
    await pool.execute("alter table question_monitor_runs add constraint refuse check (false) not valid")
    async with ingesting(pool, queue, raw, retry_pause=0):
        await send(queue, result(world, lease, client))
        await until(lambda: _has_reasons(queue, 1))
        await pool.execute("alter table question_monitor_runs drop constraint refuse")
        await send(queue, result(world, lease, client))

        async def taken() -> bool:
            return await outcome(world, lease) == "succeeded"

        await until(taken)
    assert (await world.business(lease.business_id))["status"] == "completed"


async def test_a_forged_tenant_touches_nothing_of_the_attempts_owner(
    pool: Pool, world: World, client: Desktop, queue: ResultQueue, raw: RawAnswers
) -> None:
    lease = await world.leased(client, status="in_progress")
    stranger = await World.create(pool, "Stranger")
    await send(queue, result(world, lease, client, tenant_id=stranger.tenant_id))
    async with ingesting(pool, queue, raw, retry_pause=0):
        await until(lambda: _has_reasons(queue, 1))
    assert await outcome(world, lease) is None
    assert await pool.fetchval("select count(*) from question_monitor_runs") == 0


async def test_a_replaced_consumer_writes_and_acknowledges_nothing(
    pool: Pool, world: World, client: Desktop, queue: ResultQueue, raw: RawAnswers
) -> None:
    lease = await world.leased(client, status="in_progress")
    epoch = await take(pool, NAME, "old")
    await take(pool, NAME, "new")
    await send(queue, result(world, lease, client))
    with pytest.raises(FencedOut):
        await IngestShard(pool, queue.consumer, raw, queue.dead_letter).run(NAME, epoch, SHARD)
    assert await outcome(world, lease) is None

    async def still_there() -> bool:
        return await queue.waiting() == 1

    await until(still_there)


async def test_results_of_two_hundred_tasks_are_each_ingested_once(
    pool: Pool, world: World, client: Desktop, queue: ResultQueue, raw: RawAnswers
) -> None:
    batch = await world.batch(expected=200)
    leases = [await world.leased(client, status="in_progress", batch_id=batch) for _ in range(200)]
    await send(queue, *(result(world, lease, client) for lease in leases))
    async with ingesting(pool, queue, raw, retry_pause=0):

        async def counted() -> bool:
            return bool((await world.row("scheduled_batches", batch))["completed_count"] == 200)

        await until(counted)
    assert await pool.fetchval("select count(*) from question_monitor_runs where status = 'succeeded'") == 200
    assert len(await world.outbox("progress")) <= 5
