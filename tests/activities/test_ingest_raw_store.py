"""Ingest and the store of raw answers: what is away pauses the shard, what is refused fails its run alone."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from store.database import Pool
from store.raw_answers import RawAnswers
from tests.support.ingesting import ingesting
from tests.support.result_queues import ListQueue, until
from tests.support.results import chat_answer, encode, result
from tests.support.s3 import BUCKET, SECRET_KEY, S3Server, ScriptedStore, store_on
from tests.support.small_disk import small_disk
from tests.support.world import Lease, World


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[S3Server]:
    async with S3Server(tmp_path / "s3") as running:
        yield running


async def send(world: World, queue: ListQueue, text: str) -> Lease:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    await queue.publish(encode(result(world, lease, client, raw=chat_answer(text))), str(lease.attempt_id))
    return lease


async def outcome(world: World, lease: Lease) -> str | None:
    found: str | None = (await world.attempt(lease.attempt_id))["outcome"]
    return found


def ended(world: World, lease: Lease) -> Callable[[], Awaitable[bool]]:
    async def over() -> bool:
        return await outcome(world, lease) is not None

    return over


async def untouched(world: World, queue: ListQueue, lease: Lease, caplog: pytest.LogCaptureFixture) -> None:
    """The shard has paused, more than once, and the result is where it was."""

    async def paused() -> bool:
        return sum("raw_store" in record.message or "RawStore" in record.message for record in caplog.records) >= 2

    await until(paused)
    assert (await queue.waiting(), await queue.reasons()) == (1, [])
    assert await outcome(world, lease) is None


async def stop(server: S3Server) -> None:
    await server.stop()


async def lose_bucket(server: S3Server) -> None:
    (server.folder / BUCKET).rmdir()


async def change_secret(server: S3Server) -> None:
    server.secret = "another"
    await server.stop()
    await server.start()


async def mend(server: S3Server) -> None:
    """Whatever was wrong."""
    (server.folder / BUCKET).mkdir(exist_ok=True)
    server.secret = SECRET_KEY
    await server.stop()
    await server.start()


@pytest.mark.parametrize("fault", [stop, lose_bucket, change_secret])
async def test_a_store_that_is_away_pauses_the_shard_and_heals(
    pool: Pool, world: World, server: S3Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    fault: Callable[[S3Server], Awaitable[None]],
) -> None:  # fmt: skip
    caplog.set_level(logging.WARNING)
    raw, queue = store_on(server.endpoint, monkeypatch), ListQueue()
    await fault(server)
    lease = await send(world, queue, "Acme.")
    async with ingesting(pool, queue, raw):
        await untouched(world, queue, lease, caplog)
        await mend(server)
        await until(ended(world, lease))
    assert await outcome(world, lease) == "succeeded"
    key = await pool.fetchval("select raw_answer_key from question_monitor_runs")
    assert await raw.get(key) == chat_answer("Acme.").encode()
    assert queue.dead == []


@pytest.mark.parametrize("fault", ["full", "read-only"])
async def test_a_disk_that_takes_nothing_pauses_the_shard_and_heals(
    pool: Pool, world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    caplog.set_level(logging.WARNING)
    queue = ListQueue()
    with small_disk(tmp_path / "disk") as disk:
        raw = RawAnswers(disk.folder.as_uri())
        disk.fill() if fault == "full" else disk.read_only()
        lease = await send(world, queue, "Acme.")
        async with ingesting(pool, queue, raw):
            await untouched(world, queue, lease, caplog)
            disk.empty() if fault == "full" else disk.read_only(False)
            await until(ended(world, lease))
    assert (await outcome(world, lease), queue.dead) == ("succeeded", [])


async def test_a_store_that_asks_to_slow_down_pauses_the_shard(
    pool: Pool, world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    busy = True
    queue = ListQueue()
    async with ScriptedStore(lambda method, path, length: (503, "SlowDown") if busy else (200, "")) as scripted:
        lease = await send(world, queue, "Acme.")
        async with ingesting(pool, queue, store_on(scripted.endpoint, monkeypatch)):
            await untouched(world, queue, lease, caplog)
            busy = False
            await until(ended(world, lease))
    assert (await outcome(world, lease), queue.dead) == ("succeeded", [])


async def test_an_object_that_the_store_refuses_fails_its_run_and_the_shard_goes_on(
    pool: Pool, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = ListQueue()
    async with ScriptedStore(
        lambda _, path, length: (400, "EntityTooLarge") if length > 2_000 else (200, "")
    ) as scripted:
        large, small = await send(world, queue, "Acme. " * 2_000), await send(world, queue, "Acme.")
        async with ingesting(pool, queue, store_on(scripted.endpoint, monkeypatch)):
            await until(ended(world, large))
            await until(ended(world, small))
    assert [await outcome(world, large), await outcome(world, small)] == ["failed", "succeeded"]
    run = await pool.fetchrow("select * from question_monitor_runs where attempt_id = $1", large.attempt_id)
    assert run is not None
    assert (run["status"], run["failure_kind"], run["raw_answer_key"]) == ("failed", "raw_store_refused", None)
    assert queue.dead == []
