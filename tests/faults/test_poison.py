"""Whatever arrives on a shard is taken or dead-lettered with its reason, and the shard goes on in order.

The real broker and the real database; every kind of poison stands between two sound results.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from activities.ingest import IngestShard
from domain.ids import new_uuid
from store.audit import Integrity, check_integrity
from store.database import Pool
from store.raw_answers import RawAnswers
from store.residents import take
from tests.conftest import Servers
from tests.support.result_queues import SHARD, RabbitQueue, rabbit_queue, until
from tests.support.results import chat_answer, encode, result
from tests.support.world import Desktop, Lease, World

NAME = "ingest/0"
DEEP = 20_000
MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Poison:
    """A message and its right outcome: a run's status, or `dead` with the kind of error in the reason."""

    name: str
    body: Callable[[World, Lease, Desktop], bytes]
    outcome: str
    reason: str = ""


def fields(**changes: Any) -> Callable[[World, Lease, Desktop], bytes]:
    """A sound message with some members exchanged."""

    def body(world: World, lease: Lease, client: Desktop) -> bytes:
        return json.dumps(json.loads(encode(result(world, lease, client))) | changes).encode()

    return body


def raw(text: str) -> Callable[[World, Lease, Desktop], bytes]:
    """A sound message around this provider body."""
    return lambda world, lease, client: encode(result(world, lease, client, raw=text))


def whole(body: bytes) -> Callable[[World, Lease, Desktop], bytes]:
    """A body that is none."""
    return lambda world, lease, client: body


KINDS = [
    Poison("not json", whole(b"\xff\xfe{"), "dead", "DecodeError"),
    Poison("empty", whole(b""), "dead", "DecodeError"),
    Poison("another type", whole(b"[null]"), "dead", "ValidationError"),
    Poison("missing members", whole(b"{}"), "dead", "ValidationError"),
    Poison("nested without end", whole(b'{"a":' * DEEP), "dead", "DecodeError"),
    Poison("nested deeply and closed", whole(b'{"a":' * DEEP + b"1" + b"}" * DEEP), "dead", "DecodeError"),
    Poison("an attempt that is no id", fields(attempt_id="7"), "dead", "ValueError"),
    Poison("an unknown attempt", fields(attempt_id=str(new_uuid())), "dead", "UnknownAttempt"),
    Poison("a tenant beyond bigint", fields(tenant_id=10**30), "dead", "DataError"),
    Poison("another tenant", fields(tenant_id=2_000_000_000), "dead", "UnknownAttempt"),
    Poison("a date that is none", fields(received_at="yesterday"), "dead", "ValidationError"),
    Poison("a number without end", whole(b'{"tenant_id": 1e999}'), "dead", "ValidationError"),
    Poison("NUL in a phase's name", fields(phase_times={"a\0b": 1.0}), "dead", "UntranslatableCharacterError"),
    Poison("the last year", fields(received_at="9999-12-31T23:59:59.999999Z"), "succeeded"),
    Poison("the first year", fields(received_at="0001-01-01T00:00:00Z"), "succeeded"),
    Poison("absurd numbers", fields(phase_times={"a": 1e308, "b": 5e-324}, monitor_task_id=-1), "succeeded"),
    Poison("NUL in every text", fields(model="a\0b", request_id="\0", error="\0"), "succeeded"),
    Poison("NUL in the answer", raw(chat_answer("Acme\0 is \u0001 best")), "succeeded"),
    Poison("half a surrogate pair", raw(chat_answer("Acme is best X").replace("X", "\\ud800")), "succeeded"),
    Poison("brackets without end", raw(chat_answer("Acme is best " + "[" * 50_000 + "(" * 50_000)), "succeeded"),
    Poison("a body of 3 MB", raw(chat_answer("Acme is best. " + "x" * 3 * MEGABYTE)), "succeeded"),
    Poison("a body of 5 MB", raw(chat_answer("Acme is best. " + "x" * 5 * MEGABYTE)), "failed"),
    Poison("an answer nested deeply", raw('{"a":' * DEEP + "1" + "}" * DEEP), "failed"),
    Poison("no answer at all", raw("\0" * 100), "failed"),
]  # fmt: skip


@pytest.fixture
async def queue(servers: Servers) -> AsyncIterator[RabbitQueue]:
    async with rabbit_queue(servers.amqp_url) as opened:
        yield opened


async def test_every_kind_of_poison_ends_as_it_should_and_its_neighbours_in_order(
    pool: Pool, queue: RabbitQueue, tmp_path: Path
) -> None:
    world = await World.create(pool)
    client = await world.client()
    poisoned = [await world.leased(client, status="in_progress") for _ in KINDS]
    sound = [await world.leased(client, status="in_progress") for _ in range(len(KINDS) + 1)]
    for kind, lease, neighbour in zip(KINDS, poisoned, sound, strict=False):
        await queue.publish(encode(result(world, neighbour, client)), str(neighbour.attempt_id))
        await queue.publish(kind.body(world, lease, client), None if kind.outcome == "dead" else str(lease.attempt_id))
    await queue.publish(encode(result(world, sound[-1], client)), None)
    epoch = await take(pool, NAME, "test")
    store = RawAnswers(f"file://{tmp_path}/raw")
    shard = IngestShard(pool, queue.consumer, store, queue.dead_letter, retry_pause=0)
    task = asyncio.create_task(shard.run(NAME, epoch, SHARD))

    async def last_is_in() -> bool:
        assert not task.done(), task.exception()
        return bool((await world.attempt(sound[-1].attempt_id))["outcome"])

    await until(last_is_in, seconds=60)
    dead = [kind for kind in KINDS if kind.outcome == "dead"]

    async def all_buried() -> bool:
        return len(await queue.reasons()) >= len(dead)

    await until(all_buried)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await _check(pool, world, poisoned, sound)
    reasons = [reason.partition(":")[0] for reason in await queue.reasons()]
    assert sorted(reasons) == sorted(kind.reason for kind in dead)
    assert await check_integrity(pool, world.tenant_id) == Integrity(0, 0, 0, 0)


async def _check(pool: Pool, world: World, poisoned: list[Lease], sound: list[Lease]) -> None:
    rows = await pool.fetch("select attempt_id, status from question_monitor_runs")
    runs = {row["attempt_id"]: row["status"] for row in rows}
    ends = {kind.name: runs.get(lease.attempt_id, "dead") for kind, lease in zip(KINDS, poisoned, strict=True)}
    assert ends == {kind.name: kind.outcome for kind in KINDS}
    assert {runs.get(lease.attempt_id) for lease in sound} == {"succeeded"}
    # In order: neighbours were written one after the other.
    written = await pool.fetch(
        "select attempt_id from question_monitor_runs where attempt_id = any($1::uuid[]) order by created_at, id",
        [lease.attempt_id for lease in sound],
    )  # fmt: skip
    assert [row["attempt_id"] for row in written] == [lease.attempt_id for lease in sound]
