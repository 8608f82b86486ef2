"""A part that is away pauses the shard: nothing acknowledged, nothing dead-lettered, no try counted."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg
import pytest

from activities.ingest import IngestShard
from broker.consumer import Received
from domain.errors import BrokerUnavailable
from store.database import Pool
from store.raw_answers import RawAnswerRefused, RawAnswers, RawStoreUnavailable
from store.residents import take
from tests.conftest import Servers, database_named
from tests.support.ingesting import NAME, ingesting
from tests.support.result_queues import SHARD, ListQueue, until
from tests.support.results import encode, result
from tests.support.world import Lease, World


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


@pytest.fixture
def queue() -> ListQueue:
    return ListQueue()


async def send(world: World, queue: ListQueue) -> Lease:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    await queue.publish(encode(result(world, lease, client)), str(lease.attempt_id))
    return lease


def pauses(caplog: pytest.LogCaptureFixture, at_least: int) -> Callable[[], Awaitable[bool]]:
    async def paused() -> bool:
        return sum("waits" in record.message for record in caplog.records) >= at_least

    return paused


async def succeeded(world: World, lease: Lease) -> bool:
    return bool((await world.attempt(lease.attempt_id))["outcome"] == "succeeded")


async def test_an_object_store_that_is_down_leaves_everything_queued(
    pool: Pool, world: World, queue: ListQueue, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    raw = RawAnswers(f"file://{tmp_path}/raw")
    (tmp_path / "raw").rmdir()
    (tmp_path / "raw").touch()
    lease = await send(world, queue)
    async with ingesting(pool, queue, raw):
        # More pauses than a poison message has tries.
        await until(pauses(caplog, 6))
        assert (len(queue.messages), queue.dead) == (1, [])
        assert (await world.attempt(lease.attempt_id))["outcome"] is None
        (tmp_path / "raw").unlink()
        await until(lambda: succeeded(world, lease))
        await until(_empty(queue))
    assert queue.dead == []


def _empty(queue: ListQueue) -> Callable[[], Awaitable[bool]]:
    async def empty() -> bool:
        return not queue.messages

    return empty


async def test_a_database_that_is_away_leaves_everything_queued(
    pool: Pool, world: World, queue: ListQueue, tmp_path: Path, servers: Servers, database_url: str,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    caplog.set_level(logging.WARNING)
    lease = await send(world, queue)
    epoch = await take(pool, NAME, "test")
    name = database_url.rsplit("/", 1)[1]
    admin = await asyncpg.connect(database_named(servers.database_url, "postgres"))
    await admin.execute(f'alter database "{name}" allow_connections false')
    await admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = $1", name)
    shard = IngestShard(pool, queue.consumer, RawAnswers(f"file://{tmp_path}/raw"), queue.dead_letter)
    task = asyncio.create_task(shard.run(NAME, epoch, SHARD))
    await until(pauses(caplog, 6))
    assert (len(queue.messages), queue.dead) == (1, [])
    await admin.execute(f'alter database "{name}" allow_connections true')
    await admin.close()
    await until(_empty(queue))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert await succeeded(world, lease)
    assert queue.dead == []


async def test_a_poison_message_waits_for_a_broker_that_takes_it(
    pool: Pool, world: World, queue: ListQueue, tmp_path: Path
) -> None:
    refusals = iter([True, True, False])
    deliver = queue.dead_letter

    async def flaky(message: Received, reason: str, shard: int) -> None:
        if next(refusals):
            raise BrokerUnavailable("no confirm")
        await deliver(message, reason, shard)

    epoch = await take(pool, NAME, "test")
    await queue.publish(b"nonsense", None)
    shard = IngestShard(pool, queue.consumer, RawAnswers(f"file://{tmp_path}/raw"), flaky)
    task = asyncio.create_task(shard.run(NAME, epoch, SHARD))
    await until(_empty(queue))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(queue.dead) == 1


async def test_an_answer_that_can_never_be_stored_is_a_failed_run(
    pool: Pool, world: World, queue: ListQueue, tmp_path: Path
) -> None:
    raw = RawAnswers(f"file://{tmp_path}/raw", max_bytes=10)
    await send(world, queue)
    async with ingesting(pool, queue, raw):
        await until(_empty(queue))
    run = await pool.fetchrow("select * from question_monitor_runs")
    assert run is not None
    assert (run["status"], run["failure_kind"], run["raw_answer_key"]) == ("failed", "raw_store_refused", None)
    assert "at most 10 are stored" in run["failure_reason"]
    assert queue.dead == []


async def test_the_store_tells_a_bad_object_from_a_broken_store(tmp_path: Path) -> None:
    raw = RawAnswers(f"file://{tmp_path}/raw", max_bytes=4)
    await raw.put("1/2/2026-04-20/a", b"abcd")
    assert await raw.get("1/2/2026-04-20/a") == b"abcd"
    with pytest.raises(RawAnswerRefused):
        await raw.put("1/2/2026-04-20/b", b"abcde")
    with pytest.raises(RawAnswerRefused):
        await raw.put("1//b", b"a")
    (tmp_path / "raw" / "3").touch()
    with pytest.raises(RawStoreUnavailable):
        await raw.put("3/2/2026-04-20/a", b"a")


async def test_an_s3_store_that_does_not_answer_is_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_ENDPOINT": "http://127.0.0.1:9",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RawStoreUnavailable):
        await RawAnswers("s3://answers/raw").put("1/2/2026-04-20/a", b"a")
