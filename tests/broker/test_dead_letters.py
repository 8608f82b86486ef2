"""Dead letters can be read without being taken, are understood whoever wrote them, and keep their history."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

import pytest

from broker import dead_letter_reader
from broker.connection import BrokerConnection
from broker.consumer import IngestConsumer, Received
from broker.dead_letter_reader import LettersBusy, open_letters
from broker.dead_letters import (
    DEATHS_HEADER,
    FIRST_DIED_HEADER,
    REPLAYS_HEADER,
    SHARD_HEADER,
    WORN_AFTER,
    DeadLetter,
    dead_letter,
    replay,
)
from broker.publisher import Outcome, Outgoing, Publisher
from broker.topology import DELIVERY_LIMIT, INGEST_DEAD_LETTER_EXCHANGE
from domain.transport import INGEST_EXCHANGE
from tests.support.broker import SHARDS
from tests.support.tcp_proxy import TcpProxy


def died(number: int, **headers: int) -> Received:
    return Received(f"body {number}".encode(), f"message-{number}", 0, headers, 0, 0)


async def read(
    broker: BrokerConnection, publisher: Publisher, prefix: str, *, discarding: Sequence[str] = ()
) -> list[DeadLetter]:
    async with open_letters(broker, publisher, shards=SHARDS, prefix=prefix) as reader:
        letters = [letter async for letter in reader.letters()]
        await reader.discard(letter for letter in letters if letter.message_id in discarding)
        return letters


def names(letters: Sequence[DeadLetter]) -> list[str | None]:
    return [letter.message_id for letter in letters]


async def test_reading_takes_nothing_and_changes_nothing(
    publisher: Publisher, broker: BrokerConnection, prefix: str
) -> None:
    for number in range(40):
        await dead_letter(publisher, died(number), f"reason {number}", shard=1)
    first = await read(broker, publisher, prefix)
    second = await read(broker, publisher, prefix)
    assert names(first) == names(second) == [f"message-{number}" for number in range(40)]
    assert [letter.id for letter in first] == [letter.id for letter in second]
    assert len({letter.id for letter in first}) == 40
    assert (first[7].reason, first[7].shard, first[7].body) == ("reason 7", 1, b"body 7")
    assert first[7].died_at is not None


async def test_more_letters_than_one_window_are_read_once_each_also_while_some_are_discarded(
    publisher: Publisher, broker: BrokerConnection, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letter_reader, "WINDOW", 10)
    await asyncio.gather(*(dead_letter(publisher, died(number), "reason", shard=1) for number in range(55)))
    seen = []
    async with open_letters(broker, publisher, shards=SHARDS, prefix=prefix) as reader:
        async for letter in reader.letters():
            seen.append(letter.message_id)
            if len(seen) % 2:
                await reader.discard([letter])
    assert sorted(map(str, seen)) == sorted(f"message-{number}" for number in range(55))
    assert len(await read(broker, publisher, prefix)) == 27


async def test_what_is_discarded_is_gone_and_the_rest_stays(
    publisher: Publisher, broker: BrokerConnection, prefix: str
) -> None:
    for number in range(5):
        await dead_letter(publisher, died(number), "reason", shard=0)
    await read(broker, publisher, prefix, discarding=["message-1", "message-3"])
    assert sorted(map(str, names(await read(broker, publisher, prefix)))) == ["message-0", "message-2", "message-4"]


async def test_what_is_discarded_last_is_gone_too_however_much_it_is(
    publisher: Publisher, broker: BrokerConnection, prefix: str
) -> None:
    """The broker keeps acknowledgements back that come faster than a quorum queue takes them."""
    many = [f"message-{number}" for number in range(150)]
    await asyncio.gather(*(dead_letter(publisher, died(number), "reason", shard=1) for number in range(150)))
    assert sorted(map(str, names(await read(broker, publisher, prefix, discarding=many)))) == sorted(many)
    assert await read(broker, publisher, prefix) == []


@pytest.mark.parametrize("number", [2**62, -(2**62), 2**63 - 1])
async def test_a_letter_with_absurd_headers_is_one_letter_and_no_end_of_the_reading(
    publisher: Publisher, broker: BrokerConnection, prefix: str, number: int
) -> None:
    absurd = dict.fromkeys((FIRST_DIED_HEADER, DEATHS_HEADER, REPLAYS_HEADER, SHARD_HEADER), number)
    forged = Outgoing(INGEST_DEAD_LETTER_EXCHANGE, "", b"forged", "forged", absurd)
    assert await publisher.publish_many([forged]) == [Outcome.ROUTED]
    # One that died with them on its shard, before or after a replay.
    await dead_letter(publisher, died(1, **absurd), "reason", shard=1)
    letters = await read(broker, publisher, prefix)
    assert names(letters) == ["forged", "message-1"]
    assert [letter.deaths for letter in letters] == [1, 1]
    assert await replay(publisher, [(letter, 1) for letter in letters]) == [True, True]


async def test_a_letter_that_the_broker_wrote_says_where_and_why(
    publisher: Publisher, broker: BrokerConnection, prefix: str
) -> None:
    assert await publisher.publish(INGEST_EXCHANGE, "1", b"poison", message_id="m")
    consumer = IngestConsumer(broker, 1, shards=SHARDS, prefix=prefix)
    async with aclosing(consumer.batches()) as batches:
        for _ in range(DELIVERY_LIMIT + 1):
            async with asyncio.timeout(20):
                await consumer.reject((await anext(batches))[0], requeue=True)
    async with asyncio.timeout(20):
        while not (letters := await read(broker, publisher, prefix)):
            await asyncio.sleep(0.02)
    [letter] = letters
    assert (letter.shard, letter.deaths, letter.message_id, letter.body) == (1, 1, "m", b"poison")
    assert letter.reason.startswith("broker: delivery_limit")
    assert letter.died_at is not None
    # The copy that takes the place of a letter read often says the same.
    seen = [(await read(broker, publisher, prefix))[0] for _ in range(WORN_AFTER + 2)]
    assert min(each.deliveries for each in seen[-2:]) < WORN_AFTER
    assert {(each.id, each.reason, each.died_at, each.deaths, each.shard) for each in seen} == {
        (letter.id, letter.reason, letter.died_at, 1, 1)
    }


async def test_a_replayed_letter_that_dies_again_counts_both_deaths_and_keeps_its_first(
    publisher: Publisher, broker: BrokerConnection, prefix: str
) -> None:
    await dead_letter(publisher, died(1), "first", shard=1)
    [letter] = await read(broker, publisher, prefix, discarding=["message-1"])
    assert await replay(publisher, [(letter, 1)]) == [True]
    consumer = IngestConsumer(broker, 1, shards=SHARDS, prefix=prefix)
    async with aclosing(consumer.batches()) as batches, asyncio.timeout(20):
        [again] = await anext(batches)
        await dead_letter(publisher, again, "second", shard=1)
        await consumer.ack([again])
    [dead] = await read(broker, publisher, prefix)
    assert (dead.reason, dead.deaths, dead.replays, dead.body) == ("second", 2, 1, letter.body)
    assert dead.died_at == letter.died_at
    assert dead.id != letter.id


async def test_a_letter_that_was_read_often_is_renewed_before_a_broker_drops_it(
    publisher: Publisher, broker: BrokerConnection, prefix: str
) -> None:
    await dead_letter(publisher, died(1), "reason", shard=1)
    [first] = await read(broker, publisher, prefix)
    seen = [(await read(broker, publisher, prefix))[0] for _ in range(WORN_AFTER + 2)]
    assert max(letter.deliveries for letter in seen) == WORN_AFTER
    assert seen[-1].deliveries < WORN_AFTER
    assert {letter.id for letter in seen} == {first.id}
    assert (seen[-1].reason, seen[-1].deaths, seen[-1].died_at) == ("reason", 1, first.died_at)


async def test_one_reader_at_a_time_and_a_dead_one_frees_the_queue(
    publisher: Publisher, broker: BrokerConnection, proxied: BrokerConnection, proxy: TcpProxy, prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    await dead_letter(publisher, died(1), "reason", shard=1)
    async with open_letters(proxied, publisher, shards=SHARDS, prefix=prefix) as reader:
        assert [letter.message_id async for letter in reader.letters()] == ["message-1"]
        with monkeypatch.context() as patched:
            patched.setattr(dead_letter_reader, "LOCK_SECONDS", 0.0)
            with pytest.raises(LettersBusy):
                await read(broker, publisher, prefix)
        proxy.cut()
    assert names(await read(broker, publisher, prefix)) == ["message-1"]
