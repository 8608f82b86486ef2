"""Our own mistakes cost no good result (3-results §3.2, ADR 0041), and what is prepared ahead keeps every rule."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from asyncpg.exceptions import _base as asyncpg_base

from activities import ingest, interpret
from activities.outages import is_defect, is_outage, is_poison
from activities.preparation import UnknownAttempt
from domain.errors import BrokerUnavailable, FencedOut
from domain.transport import ResultMessage
from store.database import Connection, Pool
from store.facts import RunFact, write_facts
from store.raw_answers import RawAnswerRefused, RawAnswers, RawStoreUnavailable, raw_answer_key
from telemetry import metrics
from tests.support.ingesting import ingesting
from tests.support.result_queues import ListQueue, until
from tests.support.results import chat_answer, encode, failure, result
from tests.support.world import BUSINESS_DATE, Desktop, Lease, World


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


@pytest.fixture
async def client(world: World) -> Desktop:
    return await world.client()


@pytest.fixture
def queue() -> ListQueue:
    return ListQueue()


@pytest.fixture
def raw(tmp_path: Path) -> RawAnswers:
    return RawAnswers(f"file://{tmp_path}/raw")


async def send(queue: ListQueue, *messages: ResultMessage) -> None:
    for message in messages:
        await queue.publish(encode(message), message.attempt_id)


async def outcomes(world: World, *leases: Lease) -> list[str | None]:
    return [(await world.attempt(lease.attempt_id))["outcome"] for lease in leases]


async def drained(queue: ListQueue) -> None:
    async def empty() -> bool:
        return not queue.messages

    await until(empty)


async def paused(caplog: pytest.LogCaptureFixture, at_least: int) -> None:
    async def enough() -> bool:
        return sum("waits" in record.message for record in caplog.records) >= at_least

    await until(enough)


def key_of(world: World, lease: Lease) -> str:
    return raw_answer_key(world.tenant_id, world.brand_id, BUSINESS_DATE, lease.attempt_id)


async def test_a_parser_that_fails_on_an_answer_costs_that_run_alone(
    pool: Pool, world: World, client: Desktop, queue: ListQueue, raw: RawAnswers, monkeypatch: pytest.MonkeyPatch
) -> None:
    parse = interpret.parse_answer

    def fails_on_some(text: str, **given: Any) -> Any:
        if "unlucky" in text:
            raise TypeError("a rule of ours met what it did not foresee")
        return parse(text, **given)

    monkeypatch.setattr(interpret, "parse_answer", fails_on_some)
    before = metrics.parser_errors.value()
    before_it, unlucky, after_it = [await world.leased(client, status="in_progress") for _ in range(3)]
    body = chat_answer("An unlucky answer about Acme.")
    await send(queue, result(world, before_it, client), result(world, unlucky, client, raw=body))
    await send(queue, result(world, after_it, client))
    async with ingesting(pool, queue, raw, retry_pause=0):
        await drained(queue)
    assert await outcomes(world, before_it, unlucky, after_it) == ["succeeded", "failed", "succeeded"]
    run = await pool.fetchrow("select * from question_monitor_runs where attempt_id = $1", unlucky.attempt_id)
    assert run is not None
    assert (run["status"], run["failure_kind"]) == ("failed", "parser_error")
    assert "did not foresee" in run["failure_reason"]
    # What a reparse needs: the body is there, and people are told.
    assert await raw.get(run["raw_answer_key"]) == body.encode()
    cases = await pool.fetch("select run_id, reason from monitoring_parse_badcases")
    assert [tuple(case) for case in cases] == [(run["id"], "parser_error")]
    assert queue.dead == []
    assert metrics.parser_errors.value() == before + 1


async def test_a_defect_that_no_message_escapes_pauses_the_shard_and_loses_nothing(
    pool: Pool,
    world: World,
    client: Desktop,
    queue: ListQueue,
    raw: RawAnswers,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(connection: Connection, facts: Sequence[RunFact]) -> set[Any]:
        raise AttributeError("a column was renamed")

    monkeypatch.setattr(ingest, "write_facts", broken)
    before = metrics.resident_pauses.value("defect")
    leases = [await world.leased(client, status="in_progress") for _ in range(3)]
    await send(queue, *(result(world, lease, client) for lease in leases))
    with caplog.at_level(logging.WARNING):
        async with ingesting(pool, queue, raw, retry_pause=0):
            await paused(caplog, 3)
            assert (len(queue.messages), queue.dead) == (3, [])
            assert await outcomes(world, *leases) == [None] * 3
            monkeypatch.setattr(ingest, "write_facts", write_facts)
            await drained(queue)
    assert await outcomes(world, *leases) == ["succeeded"] * 3
    assert queue.dead == []
    assert metrics.resident_pauses.value("defect") >= before + 3
    # With its traceback, for whoever has to mend it.
    assert any(record.levelno == logging.ERROR and record.exc_info for record in caplog.records)


async def test_a_defect_that_one_message_brings_about_is_its_own(
    pool: Pool, world: World, client: Desktop, queue: ListQueue, raw: RawAnswers, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, poisoned, after = [await world.leased(client, status="in_progress") for _ in range(3)]

    async def broken_for_one(connection: Connection, facts: Sequence[RunFact]) -> set[Any]:
        if any(fact.attempt_id == poisoned.attempt_id for fact in facts):
            raise KeyError("nobody foresaw this answer")
        return await write_facts(connection, facts)

    monkeypatch.setattr(ingest, "write_facts", broken_for_one)
    await send(queue, *(result(world, lease, client) for lease in (before, poisoned, after)))
    async with ingesting(pool, queue, raw, retry_pause=0):
        await drained(queue)
    assert await outcomes(world, before, poisoned, after) == ["succeeded", "failed", "succeeded"]
    assert queue.dead == ["KeyError: 'nobody foresaw this answer'"]


async def test_a_message_that_meets_a_defect_alone_is_found_out_by_the_next_one(
    pool: Pool,
    world: World,
    client: Desktop,
    queue: ListQueue,
    raw: RawAnswers,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    poisoned, later = [await world.leased(client, status="in_progress") for _ in range(2)]

    async def broken_for_one(connection: Connection, facts: Sequence[RunFact]) -> set[Any]:
        if any(fact.attempt_id == poisoned.attempt_id for fact in facts):
            raise KeyError("nobody foresaw this answer")
        return await write_facts(connection, facts)

    monkeypatch.setattr(ingest, "write_facts", broken_for_one)
    await send(queue, result(world, poisoned, client))
    with caplog.at_level(logging.WARNING):
        async with ingesting(pool, queue, raw, retry_pause=0):
            await paused(caplog, 2)
            assert (len(queue.messages), queue.dead) == (1, [])
            await send(queue, result(world, later, client))
            await queue.publish(b"nor is this one a result", None)
            await drained(queue)
    assert await outcomes(world, poisoned, later) == ["failed", "succeeded"]
    assert sorted(reason.split(":")[0] for reason in queue.dead) == ["DecodeError", "KeyError"]


async def test_a_defect_met_while_a_dead_letter_is_closed_does_not_end_the_shard(
    pool: Pool,
    world: World,
    client: Desktop,
    queue: ListQueue,
    raw: RawAnswers,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settle = ingest.settle

    async def broken(*_given: object) -> Any:
        raise TypeError("a mistake")

    monkeypatch.setattr(ingest, "settle", broken)
    lease = await world.leased(client, status="in_progress")
    await queue.publish(b"not a result", str(lease.attempt_id))
    with caplog.at_level(logging.WARNING):
        async with ingesting(pool, queue, raw, retry_pause=0) as shard:
            await paused(caplog, 2)
            assert (queue.dead, len(queue.messages), shard.done()) == ([], 1, False)
            monkeypatch.setattr(ingest, "settle", settle)
            await drained(queue)
    assert len(queue.dead) == 1
    assert await outcomes(world, lease) == ["failed"]


async def test_what_the_driver_cannot_send_is_the_messages_fault(
    pool: Pool, world: World, client: Desktop, queue: ListQueue, raw: RawAnswers
) -> None:
    """An id that no bigint holds: waiting for it would stop the shard for ever."""
    absurd, sound = [await world.leased(client, status="in_progress") for _ in range(2)]
    await send(queue, result(world, absurd, client, tenant_id=2**70), result(world, sound, client))
    async with ingesting(pool, queue, raw, retry_pause=0):
        await drained(queue)
    assert await outcomes(world, absurd, sound) == ["failed", "succeeded"]
    [reason] = queue.dead
    assert reason.startswith("DataError")


async def test_the_next_batch_is_prepared_while_one_commits(
    pool: Pool, world: World, client: Desktop, queue: ListQueue, raw: RawAnswers, tmp_path: Path
) -> None:
    first, second = [await world.leased(client, status="in_progress") for _ in range(2)]

    async def stored(lease: Lease) -> bool:
        return (tmp_path / "raw" / key_of(world, lease)).exists()

    async with pool.acquire() as other, ingesting(pool, queue, raw, retry_pause=0):
        async with other.transaction():
            await other.execute(
                "select from monitoring_collect_tasks where id = $1 for no key update", first.business_id
            )
            await send(queue, result(world, first, client))
            await until(lambda: stored(first))
            await send(queue, result(world, second, client))
            await until(lambda: stored(second))
            assert await outcomes(world, first, second) == [None, None]
            assert len(queue.messages) == 2
        await drained(queue)
    assert await outcomes(world, first, second) == ["succeeded"] * 2


@pytest.mark.parametrize("together", [True, False], ids=["one batch", "two batches"])
async def test_the_stored_body_is_the_one_whose_facts_stand(
    pool: Pool, world: World, client: Desktop, queue: ListQueue, raw: RawAnswers, together: bool
) -> None:
    """A second result of the same attempt, in other words, changes neither the facts nor what a reparse would read."""
    lease = await world.leased(client, status="in_progress")
    first = result(world, lease, client, raw=chat_answer("Acme is the best.", model="first"))
    second = result(world, lease, client, raw=chat_answer("Globex is better.", model="second"))
    await send(queue, first, *((second,) if together else ()))
    async with pool.acquire() as other, ingesting(pool, queue, raw, retry_pause=0):
        async with other.transaction():
            # So that the second one is there before the first is committed.
            await other.execute(
                "select from monitoring_collect_tasks where id = $1 for no key update", lease.business_id
            )
            await send(queue, *(() if together else (second,)))
        await drained(queue)
    assert await pool.fetchval("select provider_model from question_monitor_runs") == "first"
    assert first.raw is not None
    assert await raw.get(key_of(world, lease)) == first.raw.encode()


async def test_a_failure_after_a_failure_does_not_replace_its_body(
    pool: Pool, world: World, client: Desktop, queue: ListQueue, raw: RawAnswers
) -> None:
    lease = await world.leased(client, status="in_progress")
    odd = result(world, lease, client, raw='{"what": 1}')
    async with ingesting(pool, queue, raw, retry_pause=0):
        await send(queue, odd)
        await drained(queue)
        await send(queue, result(world, lease, client, raw='{"what": 2}'), failure(world, lease, client))
        await drained(queue)
    assert await raw.get(key_of(world, lease)) == b'{"what": 1}'


OUTAGE, POISON, DEFECT, NEITHER = "outage", "poison", "defect", "neither"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError("connection refused"), OUTAGE),
        (TimeoutError(), OUTAGE),
        (asyncpg.InterfaceError("the connection is closed"), OUTAGE),
        (asyncpg.InternalClientError("cannot switch to state 15; another operation is in progress"), OUTAGE),
        (asyncpg.AdminShutdownError("terminating connection"), OUTAGE),
        (asyncpg.DeadlockDetectedError("deadlock"), OUTAGE),
        (asyncpg.UndefinedColumnError("not migrated yet"), OUTAGE),
        (asyncpg.DiskFullError("no space left"), OUTAGE),
        (BrokerUnavailable("no confirm"), OUTAGE),
        (RawStoreUnavailable("503"), OUTAGE),
        (asyncpg.CheckViolationError("new row violates"), POISON),
        (asyncpg.ForeignKeyViolationError("no such brand"), POISON),
        (asyncpg.UntranslatableCharacterError("\\u0000"), POISON),
        (asyncpg.ProgramLimitExceededError("index row size"), POISON),
        (asyncpg_base.DataError("value out of int64 range"), POISON),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"), POISON),
        (UnknownAttempt("forged"), POISON),
        (RawAnswerRefused("too large"), POISON),
        (TypeError("unsupported operand"), DEFECT),
        (KeyError("attempt_id"), DEFECT),
        (AssertionError(), DEFECT),
        (ValueError("zip() argument 2 is longer"), DEFECT),
        (asyncpg.CardinalityViolationError("a row a second time"), DEFECT),
        (asyncpg.RaiseError("P0001"), DEFECT),
        (FencedOut("replaced"), NEITHER),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value,
)
def test_every_error_is_an_outage_poison_or_a_defect(error: Exception, kind: str) -> None:
    assert (is_outage(error), is_poison(error), is_defect(error)) == (kind == OUTAGE, kind == POISON, kind == DEFECT)
