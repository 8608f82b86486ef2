"""What becomes of results before their transaction: decoded, read, parsed, their raw bodies stored (3-results §3.2)."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import msgspec

from activities.interpret import Outcome, interpret, refused
from broker.consumer import Received
from broker.results import decode_result
from domain.errors import GivewayError
from domain.transport import ResultMessage
from store.database import Pool
from store.facts import AttemptContext, BrandNames, read_brands, read_contexts
from store.raw_answers import RawAnswerRefused, RawAnswers, raw_answer_key

RAW_PUTS_AT_ONCE: Final = 16
# Reading and parsing more than this at once would hold up the event loop for longer than 10 ms: it runs in a thread.
INLINE_CHARS: Final = 16_000


class UnknownAttempt(GivewayError):
    """The result names no attempt of that tenant: forged, or older than what is kept."""

    code = "unknown_attempt"
    http_status = 422


@dataclass(frozen=True, slots=True)
class Letter:
    """One message, decoded."""

    received: Received
    message: ResultMessage
    attempt_id: UUID


@dataclass(frozen=True, slots=True)
class Unreadable:
    """One message that cannot be decoded, and never will be."""

    received: Received
    reason: str


def decode(batch: Sequence[Received]) -> tuple[list[Letter], list[Unreadable]]:
    """The readable messages of a batch, and the others."""
    letters, unreadable = [], []
    for received in batch:
        try:
            message = decode_result(received.body)
            letters.append(Letter(received, message, UUID(message.attempt_id)))
        except (msgspec.DecodeError, ValueError) as error:
            unreadable.append(Unreadable(received, reason_of(error)))
    return letters, unreadable


def attempts_apart(letters: Sequence[Letter]) -> Iterator[list[Letter]]:
    """The letters in order, cut where an attempt comes again: its second result is judged after its first."""
    part: list[Letter] = []
    seen: set[UUID] = set()
    for letter in letters:
        if letter.attempt_id in seen:
            yield part
            part, seen = [], set()
        part.append(letter)
        seen.add(letter.attempt_id)
    if part:
        yield part


def reason_of(error: Exception) -> str:
    """What a dead letter says of its error, in text that any column and header holds."""
    text = f"{type(error).__name__}: {error}"
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")[:400]


class Preparation:
    """Everything about results that needs no transaction."""

    def __init__(self, pool: Pool, raw_answers: RawAnswers) -> None:
        self._pool = pool
        self._raw_answers = raw_answers

    async def outcomes(self, letters: Sequence[Letter]) -> list[Outcome]:
        """Read, parse and store the bodies; each attempt at most once. Safe to repeat.

        Raises UnknownAttempt, RawStoreUnavailable, and what the database raises.
        """
        contexts = await self._contexts(letters)
        brands = await read_brands(self._pool, {(each.tenant_id, each.brand_id) for each in contexts.values()})
        read = [await _interpreted(letter.message, contexts[letter.attempt_id], brands) for letter in letters]
        return await self._stored(letters, read)

    async def _contexts(self, letters: Sequence[Letter]) -> dict[UUID, AttemptContext]:
        asked = {(letter.attempt_id, letter.message.tenant_id) for letter in letters}
        contexts = await read_contexts(self._pool, asked)
        if missing := asked - {(key, context.tenant_id) for key, context in contexts.items()}:
            raise UnknownAttempt(f"no attempt {', '.join(str(each[0]) for each in missing)} of that tenant")
        return contexts

    async def _stored(self, letters: Sequence[Letter], outcomes: Sequence[Outcome]) -> list[Outcome]:
        """The outcomes with their bodies in the raw store; a body that never can be there makes a failed run."""
        room = asyncio.Semaphore(RAW_PUTS_AT_ONCE)

        async def store(letter: Letter, outcome: Outcome) -> Outcome:
            # What belongs to a result that was taken before is not overwritten by one that will not be.
            if letter.message.raw is None or not outcome.may_count:
                return outcome
            async with room:
                try:
                    await self._raw_answers.put(_raw_key(outcome.context), letter.message.raw.encode())
                except RawAnswerRefused as refusal:
                    return refused(outcome, refusal.message)
            return outcome

        pairs = zip(letters, outcomes, strict=True)
        # All of them to their end, so that none still writes when the batch is tried again.
        results = await asyncio.gather(*(store(*pair) for pair in pairs), return_exceptions=True)
        return [_unless_raised(result) for result in results]


def _unless_raised(result: Outcome | BaseException) -> Outcome:
    if isinstance(result, BaseException):
        raise result
    return result


async def _interpreted(message: ResultMessage, context: AttemptContext, brands: Mapping[int, BrandNames]) -> Outcome:
    """One after the other on the event loop, whose other work gets its turn in between; what is long, in a thread."""
    key = None if message.raw is None else _raw_key(context)
    brand = brands[context.brand_id]
    if len(message.raw or "") > INLINE_CHARS:
        return await asyncio.to_thread(interpret, message, context, brand, key)
    await asyncio.sleep(0)
    return interpret(message, context, brand, key)


def _raw_key(context: AttemptContext) -> str:
    return raw_answer_key(context.tenant_id, context.brand_id, context.business_date, context.attempt_id)
