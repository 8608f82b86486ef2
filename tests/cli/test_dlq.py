"""`giveway dlq`: letters are seen, read, replayed through their shard, and dropped only when told to."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from activities.ingest import IngestShard
from broker.connection import BrokerConnection
from broker.consumer import IngestConsumer, Received
from broker.dead_letters import dead_letter
from broker.publisher import Publisher
from commands.dlq import app
from domain.ids import shard_key, shard_of
from domain.transport import INGEST_EXCHANGE
from settings import load_settings
from store.database import Pool
from store.raw_answers import RawAnswers
from tests.conftest import Servers
from tests.support.broker import SHARDS
from tests.support.ingesting import running
from tests.support.result_queues import until
from tests.support.results import encode, result
from tests.support.world import BUSINESS_DATE, Lease, World

REPOSITORY = Path(__file__).resolve().parents[2]


class Command:
    """`giveway dlq …` beside the running test: in a thread, with an event loop of its own."""

    def __init__(self) -> None:
        self._runner = CliRunner()

    async def __call__(self, *arguments: str) -> tuple[int, str]:
        """Exit code, and what it printed."""
        done = await asyncio.to_thread(self._runner.invoke, app, arguments)
        return done.exit_code, f"{done.output}{done.exception or ''}"

    async def json(self, *arguments: str) -> Any:
        """The last line of a run that ended well."""
        code, printed = await self(*arguments, "--json")
        assert code == 0, printed
        return json.loads(printed.splitlines()[-1])


@pytest.fixture
def dlq(database_url: str, prefix: str, servers: Servers, monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    for name, value in {
        "DATABASE_URL": database_url, "AMQP_URL": servers.amqp_url, "AMQP_PREFIX": prefix, "INGEST_SHARDS": str(SHARDS),
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    load_settings.cache_clear()
    yield Command()
    load_settings.cache_clear()


@asynccontextmanager
async def ingesting(
    pool: Pool, broker: BrokerConnection, publisher: Publisher, prefix: str, folder: Path, shard: int
) -> AsyncIterator[None]:
    consumers = partial(IngestConsumer, broker, shards=SHARDS, prefix=prefix)
    raw = RawAnswers(f"file://{folder}/raw")
    ingest = IngestShard(pool, consumers, raw, partial(dead_letter, publisher), retry_pause=0)
    async with running(pool, ingest, shard):
        yield


async def a_result(pool: Pool) -> tuple[World, Lease, bytes, int]:
    """A world with a lease, the result of it, and the shard that it belongs to."""
    world = await World.create(pool)
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    shard = shard_of(shard_key(world.tenant_id, world.brand_id, BUSINESS_DATE), SHARDS)
    return world, lease, encode(result(world, lease, client)), shard


async def test_a_letter_whose_attempt_was_closed_as_failed_counts_after_its_replay(
    pool: Pool, broker: BrokerConnection, publisher: Publisher, prefix: str, tmp_path: Path, dlq: Command
) -> None:
    world, lease, body, shard = await a_result(pool)
    await pool.execute("alter table question_monitor_runs add constraint refuse check (false) not valid")
    assert await publisher.publish(INGEST_EXCHANGE, str(shard), body, message_id=str(lease.attempt_id))
    async with ingesting(pool, broker, publisher, prefix, tmp_path, shard):

        async def outcome(wanted: str) -> bool:
            return bool((await world.attempt(lease.attempt_id))["outcome"] == wanted)

        await until(lambda: outcome("failed"))
        listed = await dlq.json("list")
        [letter] = listed["letters"]
        assert (listed["total"], letter["queue"], letter["shard"], letter["tries"]) == (1, "ingest", shard, 1)
        assert (letter["attempt_id"], letter["size"]) == (str(lease.attempt_id), len(body))
        assert (letter["tenant_id"], letter["brand_id"]) == (world.tenant_id, world.brand_id)
        assert letter["reason"].startswith("CheckViolationError")

        shown = await dlq.json("show", letter["id"], "--raw", str(tmp_path / "body"))
        assert (tmp_path / "body").read_bytes() == body
        assert (shown["message"]["outcome"], shown["copies"]) == ("succeeded", 1)

        # While the cause lasts it dies again, and says so.
        assert (await dlq.json("replay", str(lease.attempt_id)))["replayed"] == 1
        await until(partial(_died_again, dlq))
        await pool.execute("alter table question_monitor_runs drop constraint refuse")
        assert await dlq.json("replay", "--all", "--reason", "CHECKviolation") == {
            "replayed": 1, "left": {}, "unknown": [],
        }  # fmt: skip
        await until(lambda: outcome("succeeded"))
    assert (await dlq.json("list"))["total"] == 0
    assert await pool.fetchval("select count(*) from question_monitor_runs where status = 'succeeded'") == 1
    assert (await world.business(lease.business_id))["status"] == "completed"
    audited = await pool.fetch("select tenant_id, subject from audit_events where action = 'dlq_replay'")
    assert [tuple(row) for row in audited] == [(world.tenant_id, str(lease.attempt_id))] * 2


async def _died_again(dlq: Command) -> bool:
    return [letter["tries"] for letter in (await dlq.json("list"))["letters"]] == [2]


async def test_a_parked_day_is_a_dead_letter_and_is_rebuilt_after_its_replay(
    pool: Pool, dlq: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await World.create(pool)
    await pool.execute(
        "insert into projection_rebuild_queue (tenant_id, brand_id, business_date, tries, not_before, last_error)"
        " values ($1, $2, $3, 8, 'infinity', 'division by zero')",
        world.tenant_id, world.brand_id, BUSINESS_DATE,
    )  # fmt: skip
    [letter] = (await dlq.json("list", "--queue", "projection"))["letters"]
    assert letter["id"] == f"{world.tenant_id}/{world.brand_id}/{BUSINESS_DATE}"
    assert (letter["reason"], letter["tries"]) == ("division by zero", 8)
    assert "division by zero" in (await dlq("show", letter["id"]))[1]
    # The broker is not asked: it may be what is away.
    monkeypatch.setenv("AMQP_URL", "amqp://guest:guest@127.0.0.1:9/")
    load_settings.cache_clear()
    assert (await dlq.json("show", letter["id"]))["reason"] == "division by zero"
    assert (await dlq.json("replay", letter["id"], "--queue", "projection"))["replayed"] == 1
    assert await pool.fetchval("select tries = 0 and not_before <= now() from projection_rebuild_queue")
    assert await pool.fetchval("select count(*) from audit_events where action = 'dlq_replay'") == 1


async def test_a_letter_is_dropped_only_when_told_and_what_is_unknown_is_said(
    pool: Pool, publisher: Publisher, dlq: Command
) -> None:
    await dead_letter(publisher, Received(b"\xff[bold]\x1b[2J", None, 0, {}, 0, 0), "no \x00result \ud800", shard=1)
    code, printed = await dlq("list")
    assert code == 0
    assert "1 of 1 dead letters" in printed
    [letter] = (await dlq.json("list"))["letters"]
    code, printed = await dlq("show", letter["id"])
    assert code == 0
    assert "\x1b" not in printed
    assert (await dlq("replay"))[0] == (await dlq("drop", letter["id"]))[0] == 2
    assert (await dlq("show", letter["id"], "--raw", "/no/such/folder/body"))[0] == 2
    for order in ("replay", "show"):
        code, printed = await dlq(order, "no-such-letter")
        assert code == 1
        assert "no dead letter no-such-letter" in printed
    assert (await dlq.json("drop", letter["id"], "--yes"))["dropped"] == 1
    assert (await dlq.json("list"))["total"] == 0
    assert await pool.fetchval("select detail ->> 'reason' from audit_events where action = 'dlq_drop'") is not None


def test_without_a_broker_the_program_says_what_to_do(database_url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cli", "dlq", "list"],
        cwd=REPOSITORY,
        env={**os.environ, "DATABASE_URL": database_url, "AMQP_URL": "amqp://guest:guest@127.0.0.1:9/"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "broker_unavailable" in done.stderr
    assert "giveway doctor" in done.stderr
    assert "Traceback" not in done.stderr
