"""Results into facts: one resident a shard, one transaction a batch (3-results §3.2, dispatch §12)."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Protocol
from uuid import UUID

from activities.ahead import Ahead
from activities.interpret import Outcome
from activities.outages import (
    FIRST_PAUSE,
    is_defect,
    is_outage,
    is_poison,
    longer,
    report_pause,
    through_outages,
)
from activities.preparation import (
    Letter,
    Preparation,
    UnknownAttempt,
    Unreadable,
    attempts_apart,
    decode,
    reason_of,
)
from broker.consumer import Received
from domain.errors import FencedOut
from domain.settlement import DUPLICATE
from store.database import Pool, transaction
from store.facts import write_facts
from store.raw_answers import RawAnswers
from store.residents import hold
from store.settlement import Ending, settle

log = logging.getLogger(__name__)

MAX_TRIES: Final = 5


class ResultBatches(Protocol):
    """The port to the shard's queue; `broker.consumer.IngestConsumer` is the real one."""

    def batches(self) -> AsyncGenerator[list[Received]]:
        """Batches of one shard in order; unacknowledged messages come again after a loss."""
        ...

    async def ack(self, batch: Iterable[Received]) -> None:
        """After commit. A message that is not ours any more is skipped: it comes again."""
        ...


# Puts a message on the dead-letter queue with its reason; BrokerUnavailable when that is not confirmed.
DeadLetter = Callable[[Received, str, int], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Seat:
    """Which resident writes: its name and epoch fence every transaction."""

    name: str
    epoch: int
    shard: int


@dataclass(frozen=True, slots=True)
class Part:
    """Messages that commit together, prepared; or the error that kept them from it. An empty one only takes a turn."""

    letters: Sequence[Letter] = ()
    outcomes: Sequence[Outcome] = ()
    error: Exception | None = None
    unreadable: Sequence[Unreadable] = ()


class IngestShard:
    """Consumes one shard until it is cancelled or fenced out; the next batch is prepared while one commits.

    A poison message never stops the shard: its batch is tried again one by one, and the message goes to the
    dead-letter queue after 5 tries of its own. A part that is away stops it without counting a try, and so does a
    defect of ours that no message of a batch escapes: nothing is acknowledged, nothing dead-lettered (ADR 0041).
    """

    def __init__(
        self,
        pool: Pool,
        consumers: Callable[[int], ResultBatches],
        raw_answers: RawAnswers,
        dead_letter: DeadLetter,
        *,
        retry_pause: float = 0.01,
    ) -> None:
        """`consumers`: shard → its queue. `retry_pause`: seconds before a poison message's second try, then doubled."""
        self._pool = pool
        self._consumers = consumers
        self._preparation = Preparation(pool, raw_answers)
        self._dead_letter = dead_letter
        self._retry_pause = retry_pause

    async def run(self, name: str, epoch: int, shard: int) -> None:
        """Ingest until cancelled; FencedOut when another holds the resident's lease."""
        seat = Seat(name, epoch, shard)
        consumer = self._consumers(shard)
        async with (
            aclosing(consumer.batches()) as batches,
            aclosing(self._parts(seat, batches)) as parts,
            Ahead(parts) as prepared,
        ):
            async for part in prepared:
                await self._take(seat, consumer, part, prepared)

    async def _parts(self, seat: Seat, batches: AsyncGenerator[list[Received]]) -> AsyncGenerator[Part]:
        before: set[UUID] = set()
        async for batch in batches:
            letters, unreadable = decode(batch)
            for part in attempts_apart(letters):
                attempts = {letter.attempt_id for letter in part}
                if not before.isdisjoint(attempts):
                    # When this empty one has had its turn, the part before it is committed, for the next one to see.
                    yield Part()
                before = attempts
                yield await self._prepared(seat, part)
            if unreadable:
                yield Part(unreadable=unreadable)

    async def _prepared(self, seat: Seat, letters: Sequence[Letter]) -> Part:
        # A message that several consumers have died on is not tried together with others.
        if any(letter.received.deliveries >= MAX_TRIES for letter in letters):
            return Part(letters, error=RuntimeError("a message was delivered often without being finished"))
        try:
            return Part(letters, await self._prepare(seat, letters))
        except Exception as error:
            return Part(letters, error=error)

    async def _prepare(self, seat: Seat, letters: Sequence[Letter]) -> list[Outcome]:
        return await through_outages(lambda: self._preparation.outcomes(letters), _name(seat))

    async def _take(self, seat: Seat, consumer: ResultBatches, part: Part, following: Ahead[Part]) -> None:
        await self._bury_unreadable(seat, consumer, part)
        if not part.letters:
            return
        error = part.error or await self._failure(self._commit(seat, part.outcomes))
        if error is None:
            await consumer.ack([letter.received for letter in part.letters])
            return
        log.warning("shard %d: a batch of %d is isolated: %r", seat.shard, len(part.letters), error)
        await self._isolate(seat, consumer, part.letters, following)

    async def _isolate(
        self, seat: Seat, consumer: ResultBatches, letters: Sequence[Letter], following: Ahead[Part]
    ) -> None:
        """One by one, until each is committed or dead-lettered.

        A defect that a neighbour escapes is brought about by the message. One that nobody escapes, whoever comes next
        included, is ours alone: it is waited out, for the operator's hand.
        """
        pause = FIRST_PAUSE
        while True:
            broken, committed = await self._each_alone(seat, consumer, letters)
            if not broken:
                return
            if committed:
                break
            report_pause(broken[0][1], _name(seat), pause)
            more = await following.within(pause) or Part()
            await self._bury_unreadable(seat, consumer, more)
            letters, pause = [*(letter for letter, _ in broken), *more.letters], longer(pause)
        for letter, error in broken:
            await self._bury(seat, consumer, letter.received, letter.attempt_id, reason_of(error))

    async def _each_alone(
        self, seat: Seat, consumer: ResultBatches, letters: Sequence[Letter]
    ) -> tuple[list[tuple[Letter, Exception]], int]:
        """Those that a defect stopped, and how many were committed; poison is dead-lettered on the way."""
        broken, committed = [], 0
        for letter in letters:
            error = await self._try_alone(seat, letter)
            if error is None:
                await consumer.ack([letter.received])
                committed += 1
            elif is_poison(error):
                attempt_id = None if isinstance(error, UnknownAttempt) else letter.attempt_id
                await self._bury(seat, consumer, letter.received, attempt_id, reason_of(error))
            else:
                broken.append((letter, error))
        return broken, committed

    async def _try_alone(self, seat: Seat, letter: Letter) -> Exception | None:
        """None once it is committed, else the error of the last of 5 tries."""
        failure: Exception | None = None
        for number in range(MAX_TRIES):
            if number > 0:
                await asyncio.sleep(self._retry_pause * 2 ** (number - 1))
            failure = await self._failure(self._whole(seat, letter))
            if failure is None:
                return None
        return failure

    async def _whole(self, seat: Seat, letter: Letter) -> None:
        await self._commit(seat, await self._prepare(seat, [letter]))

    async def _failure(self, step: Awaitable[None]) -> Exception | None:
        """How the step failed, None if it did not. FencedOut passes: there is nothing more to write."""
        try:
            await step
        except FencedOut:
            raise
        except Exception as error:
            return error
        return None

    async def _bury_unreadable(self, seat: Seat, consumer: ResultBatches, part: Part) -> None:
        for each in part.unreadable:
            await self._bury(seat, consumer, each.received, _attempt_id_of(each.received), each.reason)

    async def _bury(
        self, seat: Seat, consumer: ResultBatches, received: Received, attempt_id: UUID | None, reason: str
    ) -> None:
        """Close the attempt, then dead-letter, then acknowledge: after a crash between them it all happens again."""
        log.error("shard %d: message %s is dead-lettered: %s", seat.shard, received.message_id, reason)
        if attempt_id is not None:
            await self._patiently(seat, lambda: self._close_failed(seat, attempt_id, f"dead-lettered: {reason}"))
        await self._patiently(seat, lambda: self._dead_letter(received, reason, seat.shard))
        await consumer.ack([received])

    async def _close_failed(self, seat: Seat, attempt_id: UUID, reason: str) -> None:
        async with transaction(self._pool) as connection:
            await hold(connection, seat.name, seat.epoch)
            await settle(connection, [Ending(attempt_id, succeeded=False, error=reason)])

    async def _patiently(self, seat: Seat, step: Callable[[], Awaitable[None]]) -> None:
        """What is no message's fault at this point is waited for, whatever it is: the shard must not end of it."""
        await through_outages(step, _name(seat), waits_for=lambda error: is_outage(error) or is_defect(error))

    async def _commit(self, seat: Seat, outcomes: Sequence[Outcome]) -> None:
        await through_outages(lambda: self._commit_once(seat, outcomes), _name(seat))

    async def _commit_once(self, seat: Seat, outcomes: Sequence[Outcome]) -> None:
        async with transaction(self._pool) as connection:
            await hold(connection, seat.name, seat.epoch)
            for group in rounds(outcomes):
                rulings = await settle(connection, [outcome.ending for outcome in group])
                new = [each.fact for each in group if rulings.get(each.fact.attempt_id, DUPLICATE) != DUPLICATE]
                await write_facts(connection, new)


def rounds(outcomes: Sequence[Outcome]) -> list[list[Outcome]]:
    """Groups that hold each business task at most once: two results of one task settle one after the other."""
    groups: list[list[Outcome]] = []
    seen: dict[int, int] = {}
    for outcome in outcomes:
        number = seen.get(outcome.context.task_id, 0)
        seen[outcome.context.task_id] = number + 1
        if number == len(groups):
            groups.append([])
        groups[number].append(outcome)
    return groups


def _name(seat: Seat) -> str:
    return f"ingest shard {seat.shard}"


def _attempt_id_of(received: Received) -> UUID | None:
    """The AMQP message id is the attempt id, also where the body can't be read."""
    try:
        return UUID(received.message_id or "")
    except ValueError:
        return None
