"""Results into facts: one resident a shard, one transaction a batch (3-results §3.2, dispatch §12)."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Protocol
from uuid import UUID

import msgspec

from activities.interpret import Outcome, interpret, refused
from activities.outages import through_outages
from broker.consumer import Received
from broker.results import decode_result
from domain.errors import FencedOut, GivewayError
from domain.settlement import DUPLICATE
from domain.transport import ResultMessage
from store.database import Pool, transaction
from store.facts import AttemptContext, BrandNames, read_brands, read_contexts, write_facts
from store.raw_answers import RawAnswerRefused, RawAnswers, raw_answer_key
from store.residents import hold
from store.settlement import Ending, settle

log = logging.getLogger(__name__)

MAX_TRIES: Final = 5
RAW_PUTS_AT_ONCE: Final = 16
# Parsing more than this much text at once would hold up the event loop: it runs in a thread.
INLINE_CHARS: Final = 32_000


class UnknownAttempt(GivewayError):
    """The result names no attempt of that tenant: forged, or older than what is kept."""

    code = "unknown_attempt"
    http_status = 422


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
class Letter:
    """One message, decoded."""

    received: Received
    message: ResultMessage
    attempt_id: UUID


class IngestShard:
    """Consumes one shard until it is cancelled or fenced out.

    A poison message never stops the shard: its batch is tried again one by one, and the message goes to the
    dead-letter queue after 5 tries of its own. A part that is away stops it without counting a try: nothing is
    acknowledged, nothing dead-lettered.
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
        self._raw_answers = raw_answers
        self._dead_letter = dead_letter
        self._retry_pause = retry_pause

    async def run(self, name: str, epoch: int, shard: int) -> None:
        """Ingest until cancelled; FencedOut when another holds the resident's lease."""
        seat = Seat(name, epoch, shard)
        consumer = self._consumers(shard)
        async with aclosing(consumer.batches()) as batches:
            async for batch in batches:
                await self._take(seat, consumer, batch)

    async def _take(self, seat: Seat, consumer: ResultBatches, batch: Sequence[Received]) -> None:
        letters, unreadable = _decode(batch)
        await self._take_letters(seat, consumer, letters)
        for received, reason in unreadable:
            await self._bury(seat, consumer, received, _attempt_id_of(received), reason)

    async def _take_letters(self, seat: Seat, consumer: ResultBatches, letters: Sequence[Letter]) -> None:
        # A message that several consumers have died on is not tried together with others.
        if any(letter.received.deliveries >= MAX_TRIES for letter in letters):
            await self._one_by_one(seat, consumer, letters)
            return
        try:
            await self._commit(seat, letters)
        except FencedOut:
            raise
        except Exception as error:
            log.warning("shard %d: a batch of %d is isolated: %r", seat.shard, len(letters), error)
            await self._one_by_one(seat, consumer, letters)
        else:
            await consumer.ack([letter.received for letter in letters])

    async def _one_by_one(self, seat: Seat, consumer: ResultBatches, letters: Sequence[Letter]) -> None:
        for letter in letters:
            error = await self._try_alone(seat, letter)
            if error is None:
                await consumer.ack([letter.received])
                continue
            attempt_id = None if isinstance(error, UnknownAttempt) else letter.attempt_id
            await self._bury(seat, consumer, letter.received, attempt_id, _reason(error))

    async def _try_alone(self, seat: Seat, letter: Letter) -> Exception | None:
        """None once it is committed, else the error of the last of 5 tries."""
        failure: Exception | None = None
        for number in range(MAX_TRIES):
            if number > 0:
                await asyncio.sleep(self._retry_pause * 2 ** (number - 1))
            try:
                await self._commit(seat, [letter])
            except FencedOut:
                raise
            except Exception as error:
                failure = error
            else:
                return None
        return failure

    async def _bury(
        self, seat: Seat, consumer: ResultBatches, received: Received, attempt_id: UUID | None, reason: str
    ) -> None:
        """Close the attempt, then dead-letter, then acknowledge: after a crash between them it all happens again."""
        log.error("shard %d: message %s is dead-lettered: %s", seat.shard, received.message_id, reason)
        if attempt_id is not None:
            await self._close_failed(seat, attempt_id, f"dead-lettered: {reason}")
        await self._through_outages(seat, lambda: self._dead_letter(received, reason, seat.shard))
        await consumer.ack([received])

    async def _close_failed(self, seat: Seat, attempt_id: UUID, reason: str) -> None:
        async def close() -> None:
            async with transaction(self._pool) as connection:
                await hold(connection, seat.name, seat.epoch)
                await settle(connection, [Ending(attempt_id, succeeded=False, error=reason)])

        await self._through_outages(seat, close)

    async def _commit(self, seat: Seat, letters: Sequence[Letter]) -> None:
        if letters:
            await self._through_outages(seat, lambda: self._commit_once(seat, letters))

    async def _through_outages(self, seat: Seat, step: Callable[[], Awaitable[None]]) -> None:
        await through_outages(step, f"ingest shard {seat.shard}")

    async def _commit_once(self, seat: Seat, letters: Sequence[Letter]) -> None:
        outcomes = await self._prepare(letters)
        async with transaction(self._pool) as connection:
            await hold(connection, seat.name, seat.epoch)
            for part in rounds(outcomes):
                rulings = await settle(connection, [outcome.ending for outcome in part])
                new = [each.fact for each in part if rulings.get(each.fact.attempt_id, DUPLICATE) != DUPLICATE]
                await write_facts(connection, new)

    async def _prepare(self, letters: Sequence[Letter]) -> list[Outcome]:
        """Everything that needs no transaction: names, raw bodies, reading and parsing."""
        contexts = await self._contexts(letters)
        owners = {(context.tenant_id, context.brand_id) for context in contexts.values()}
        brands = await read_brands(self._pool, owners)
        refusals = await self._store_raw(letters, contexts)
        outcomes = await _interpret_all(letters, contexts, brands)
        return [_stored(outcome, refusals.get(outcome.fact.attempt_id)) for outcome in outcomes]

    async def _contexts(self, letters: Sequence[Letter]) -> dict[UUID, AttemptContext]:
        asked = {(letter.attempt_id, letter.message.tenant_id) for letter in letters}
        contexts = await read_contexts(self._pool, asked)
        if missing := asked - {(key, context.tenant_id) for key, context in contexts.items()}:
            raise UnknownAttempt(f"no attempt {', '.join(str(each[0]) for each in missing)} of that tenant")
        return contexts

    async def _store_raw(
        self, letters: Sequence[Letter], contexts: dict[UUID, AttemptContext]
    ) -> dict[UUID, RawAnswerRefused]:
        """Store the bodies before the transaction; returns those that never can be. RawStoreUnavailable: wait."""
        room = asyncio.Semaphore(RAW_PUTS_AT_ONCE)

        async def put(letter: Letter) -> None:
            context = contexts[letter.attempt_id]
            # What belongs to a success that was taken before is not overwritten.
            if letter.message.raw is not None and not context.taken:
                async with room:
                    await self._raw_answers.put(_raw_key(context), letter.message.raw.encode())

        results = await asyncio.gather(*(put(letter) for letter in letters), return_exceptions=True)
        refusals = {}
        for letter, result in zip(letters, results, strict=True):
            if isinstance(result, RawAnswerRefused):
                refusals[letter.attempt_id] = result
            elif result is not None:
                raise result
        return refusals


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


async def _interpret_all(
    letters: Sequence[Letter], contexts: dict[UUID, AttemptContext], brands: dict[int, BrandNames]
) -> list[Outcome]:
    def work() -> list[Outcome]:
        return [_interpret(letter.message, contexts[letter.attempt_id], brands) for letter in letters]

    size = sum(len(letter.message.raw or "") for letter in letters)
    return await asyncio.to_thread(work) if size > INLINE_CHARS else work()


def _interpret(message: ResultMessage, context: AttemptContext, brands: dict[int, BrandNames]) -> Outcome:
    key = None if message.raw is None else _raw_key(context)
    return interpret(message, context, brands[context.brand_id], key)


def _raw_key(context: AttemptContext) -> str:
    return raw_answer_key(context.tenant_id, context.brand_id, context.business_date, context.attempt_id)


def _stored(outcome: Outcome, refusal: RawAnswerRefused | None) -> Outcome:
    return outcome if refusal is None else refused(outcome, refusal.message)


def _decode(batch: Sequence[Received]) -> tuple[list[Letter], list[tuple[Received, str]]]:
    """Readable letters, and the others with their reason: a body that cannot be decoded never will be."""
    letters, unreadable = [], []
    for received in batch:
        try:
            message = decode_result(received.body)
            letters.append(Letter(received, message, UUID(message.attempt_id)))
        except (msgspec.DecodeError, ValueError) as error:
            unreadable.append((received, _reason(error)))
    return letters, unreadable


def _attempt_id_of(received: Received) -> UUID | None:
    """The AMQP message id is the attempt id, also where the body can't be read."""
    try:
        return UUID(received.message_id or "")
    except ValueError:
        return None


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:400]
