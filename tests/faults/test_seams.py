"""Between the effects: each seam where ingest may end, or be lied to, leaves one effect and nothing lost.

A seam is where one system has taken something and the other does not know yet: object store and database, database and
broker, or a commit that succeeds and still reports a failure.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from activities.ingest import IngestShard
from broker.connection import BrokerConnection
from broker.consumer import IngestConsumer, Received
from store.audit import Integrity, check_integrity
from store.database import Pool
from store.raw_answers import RawAnswers
from tests.conftest import Servers
from tests.support.ingesting import running
from tests.support.result_queues import SHARD, RabbitQueue, rabbit_queue, until
from tests.support.results import chat_answer, encode, failure, result
from tests.support.world import Desktop, Lease, World

SUCCEEDED = "select count(*) from question_monitor_runs where status = 'succeeded'"


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


@pytest.fixture
async def client(world: World) -> Desktop:
    return await world.client()


@pytest.fixture
async def queue(servers: Servers) -> AsyncIterator[RabbitQueue]:
    async with rabbit_queue(servers.amqp_url) as opened:
        yield opened


@pytest.fixture
def raw(tmp_path: Path) -> RawAnswers:
    return RawAnswers(f"file://{tmp_path}/raw")


async def send(queue: RabbitQueue, world: World, client: Desktop, count: int) -> list[Lease]:
    """A batch of so many results, every tenth of them a failure."""
    batch = await world.batch(expected=count)
    leases = [await world.leased(client, status="in_progress", batch_id=batch) for _ in range(count)]
    for number, lease in enumerate(leases):
        message = (failure if number % 10 == 9 else result)(world, lease, client)
        await queue.publish(encode(message), message.attempt_id)
    return leases


@asynccontextmanager
async def ingesting(
    pool: Pool, queue: RabbitQueue, raw: RawAnswers, consumer: IngestConsumer | None = None
) -> AsyncIterator[IngestConsumer]:
    """The shard's resident, with its consumer; at the end it dies at once, as a process does."""
    used = consumer or queue.consumer(SHARD)
    async with running(pool, IngestShard(pool, lambda _: used, raw, queue.dead_letter)) as task:
        yield used
        assert not task.done()


async def until_in(pool: Pool, queue: RabbitQueue, consumer: IngestConsumer, leases: Iterable[Lease]) -> None:
    """Every attempt is closed, and every message acknowledged."""
    wanted = [lease.attempt_id for lease in leases]
    query = "select count(*) from desktop_task_attempts where id = any($1::uuid[]) and ended_at is not null"

    async def all_in() -> bool:
        try:
            ended = await pool.fetchval(query, wanted)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            return False
        return ended == len(wanted) and await queue.waiting() == 0 and consumer.held_bytes == 0

    await until(all_in)


async def check(pool: Pool, queue: RabbitQueue, world: World, leases: list[Lease]) -> None:
    """One effect a result, whatever happened on the way."""
    assert await check_integrity(pool, world.tenant_id) == Integrity(0, 0, 0, 0)
    assert await pool.fetchval("select count(*) from question_monitor_runs") == len(leases)
    assert await pool.fetchval(SUCCEEDED) == len(leases) - len(leases) // 10
    batch = await pool.fetchrow("select completed_count, failed_count from scheduled_batches")
    assert batch is not None
    assert batch["completed_count"] == len(leases) - len(leases) // 10
    assert await pool.fetchval("select max(dispatch_attempts) from monitoring_collect_tasks") <= 1
    assert await queue.reasons() == []
    assert await queue.waiting() == 0


async def test_a_death_after_the_raw_answer_and_before_the_commit_stores_it_once(
    pool: Pool, world: World, client: Desktop, queue: RabbitQueue, raw: RawAnswers, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = await send(queue, world, client, 20)
    stored = asyncio.Event()
    put = raw.put

    async def put_and_hang(key: str, body: bytes) -> None:
        await put(key, body)
        stored.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patched:
        patched.setattr(raw, "put", put_and_hang)
        async with ingesting(pool, queue, raw):
            await asyncio.wait_for(stored.wait(), 30)
    assert await pool.fetchval("select count(*) from question_monitor_runs") == 0
    async with ingesting(pool, queue, raw) as consumer:
        await until_in(pool, queue, consumer, leases)
    await check(pool, queue, world, leases)


async def test_a_death_between_commit_and_acknowledgement_counts_nothing_twice(
    pool: Pool, world: World, client: Desktop, queue: RabbitQueue, raw: RawAnswers
) -> None:
    leases = await send(queue, world, client, 20)
    consumer, committed = queue.consumer(SHARD), asyncio.Event()

    async def hang(_batch: Iterable[Received]) -> None:
        committed.set()
        await asyncio.Event().wait()

    consumer.ack = hang  # type: ignore[method-assign]
    async with ingesting(pool, queue, raw, consumer):
        await asyncio.wait_for(committed.wait(), 30)
    assert await pool.fetchval("select count(*) from question_monitor_runs") > 0
    async with ingesting(pool, queue, raw) as consumer:
        await until_in(pool, queue, consumer, leases)
    await check(pool, queue, world, leases)


class LyingCommits:
    """Commits that do their work and then report that the connection was lost: the caller cannot know."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
        self.told = 0
        honest = asyncpg.transaction.Transaction.__aexit__

        async def lie(transaction: Any, kind: Any, error: Any, trace: Any) -> Any:
            answer = await honest(transaction, kind, error, trace)
            if kind is None and self.told < times:
                self.told += 1
                raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")
            return answer

        monkeypatch.setattr(asyncpg.transaction.Transaction, "__aexit__", lie)


async def test_a_commit_that_succeeds_and_reports_a_timeout_is_one_effect(
    pool: Pool, world: World, client: Desktop, queue: RabbitQueue, raw: RawAnswers, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = await send(queue, world, client, 30)
    lies = LyingCommits(monkeypatch, times=3)
    async with ingesting(pool, queue, raw) as consumer:
        await until_in(pool, queue, consumer, leases)
    assert lies.told >= 1
    await check(pool, queue, world, leases)


async def test_every_connection_of_the_database_ended_in_mid_batch_heals(
    pool: Pool, world: World, client: Desktop, queue: RabbitQueue, raw: RawAnswers, servers: Servers
) -> None:
    leases = await send(queue, world, client, 100)
    killer = await asyncpg.connect(servers.database_url)
    database = await pool.fetchval("select current_database()")
    killed = 0

    async def kill() -> None:
        nonlocal killed
        query = "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and state <> 'idle'"
        while killed < 5:
            killed += len(await killer.fetch(query, database))
            await asyncio.sleep(0)

    async with ingesting(pool, queue, raw) as consumer:
        await asyncio.wait_for(kill(), 30)
        await until_in(pool, queue, consumer, leases)
    await killer.close()
    assert killed >= 5
    await check(pool, queue, world, leases)


async def test_the_standby_goes_on_in_order_when_the_active_consumer_dies(
    pool: Pool, world: World, client: Desktop, queue: RabbitQueue, raw: RawAnswers
) -> None:
    leases = await send(queue, world, client, 60)
    first, standby, seen = queue.consumer(SHARD), queue.consumer(SHARD), asyncio.Event()
    acknowledge = first.ack

    async def ack_once(batch: Iterable[Received]) -> None:
        if seen.is_set():
            await asyncio.Event().wait()
        await acknowledge(batch)
        seen.set()

    first.ack = ack_once  # type: ignore[method-assign]
    async with AsyncExitStack() as active:
        await active.enter_async_context(ingesting(pool, queue, raw, first))
        await asyncio.wait_for(seen.wait(), 30)
        leases += await send(queue, world, client, 60)
        # It takes the lease as a successor does, and stands by at the broker.
        async with ingesting(pool, queue, raw, standby):
            await active.aclose()
            await until_in(pool, queue, standby, leases)
    assert await pool.fetchval("select array_agg(attempt_id order by id) from question_monitor_runs") == [
        lease.attempt_id for lease in leases
    ]
    assert await queue.reasons() == []


async def test_a_database_that_stands_leaves_results_in_the_broker_and_memory_bounded(
    pool: Pool, world: World, client: Desktop, queue: RabbitQueue, raw: RawAnswers
) -> None:
    leases = [await world.leased(client, status="in_progress") for _ in range(60)]
    for lease in leases:
        message = result(world, lease, client, raw=chat_answer("Acme. " + "x" * 50_000))
        await queue.publish(encode(message), message.attempt_id)
    async with BrokerConnection(queue.url, name="fault-test") as connection:
        consumer = IngestConsumer(
            connection, SHARD, shards=1, prefix=queue.prefix, max_messages=10, max_held_bytes=520_000
        )
        async with pool.acquire() as blocking, ingesting(pool, queue, raw, consumer):
            async with blocking.transaction():
                await blocking.execute("lock table question_monitor_runs in access exclusive mode")

                async def is_full() -> bool:
                    assert consumer.held_bytes <= 520_000
                    return consumer.window == 10 and consumer.held_bytes > 500_000 and await queue.waiting() == 50

                await until(is_full)
            await until_in(pool, queue, consumer, leases)
    assert await pool.fetchval(SUCCEEDED) == len(leases)
    assert await queue.reasons() == []
