"""Both dead-letter queues behind one counter: results in RabbitMQ, brand-days in `projection_rebuild_queue`."""

import getpass
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

import asyncpg

from broker.connection import BrokerConnection
from broker.dead_letter_reader import MOST_LETTERS, LetterReader, open_letters
from broker.dead_letters import DeadLetter, replay
from broker.publisher import Publisher
from commands.dead_letter_entries import Entry, Found, age, attempts_of, entry_of, entry_of_mark, owned, owner_of
from domain.errors import DatabaseUnavailable, NotFound
from domain.ids import shard_of
from settings import Settings
from store.database import Pool, open_pool
from store.dead_letters import LetterEvent, LetterOwner, audit_letters, find_owners
from store.projections import parked_marks, replay_mark

log = logging.getLogger(__name__)

CHUNK_LETTERS: Final = 100
CHUNK_BYTES: Final = 8_000_000


@dataclass(slots=True)
class Tally:
    """What became of the letters that a command chose. `left`: ids with why they are still there."""

    done: int = 0
    left: dict[str, str] = field(default_factory=dict)
    matched: set[str] = field(default_factory=set)

    def add(self, other: "Tally") -> None:
        """Both queues in one."""
        self.done += other.done
        self.left |= other.left
        self.matched |= other.matched


Owners = dict[UUID, LetterOwner]
Chosen = Callable[[Entry], bool]
# Letters looked at, of how many.
Advance = Callable[[int, int], None]
# What is done with letters before they are taken off: each one's hindrance, None where there was none.
Step = Callable[[Sequence[DeadLetter], Owners], Awaitable[list[str | None]]]


class Office:
    """Reads, replays and drops. `pool` None: the database does not answer, then letters can be looked at only."""

    def __init__(self, settings: Settings, connection: BrokerConnection, publisher: Publisher, pool: Pool | None):
        self._settings = settings
        self._connection = connection
        self._publisher = publisher
        self._pool = pool

    @property
    def has_database(self) -> bool:
        """Whether PostgreSQL answers: without it results can be looked at, and nothing else."""
        return self._pool is not None

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[LetterReader]:
        async with open_letters(
            self._connection, self._publisher, shards=self._settings.ingest_shards, prefix=self._settings.amqp_prefix
        ) as reader:
            yield reader

    async def ingest_entries(self) -> list[Entry]:
        """Every readable dead letter of ingest without its body, the oldest first."""
        async with self._reading() as reader:
            entries = [entry_of(letter) async for letter in reader.letters()]
        owners = await self._owners(entries)
        return sorted((owned(entry, owners) for entry in entries), key=age)

    async def projection_entries(self) -> list[Entry]:
        """The brand-days that were given up, the oldest first."""
        return sorted(map(entry_of_mark, await parked_marks(self._database(), MOST_LETTERS)), key=age)

    async def find(self, name: str) -> Found:
        """The letter with this id, or message id; NotFound where neither queue has one."""
        for entry in await self.projection_entries() if self.has_database else ():
            if entry.id == name:
                return Found(entry)
        async with self._reading() as reader:
            letters = [each async for each in reader.letters() if name in entry_of(each).names]
        if letters:
            entry = entry_of(letters[0])
            return Found(owned(entry, await self._owners([entry])), letters[0], len(letters))
        raise NotFound(f"there is no dead letter {name}; `giveway dlq list` shows those that are")

    async def replay_ingest(self, chosen: Chosen, advance: Advance) -> Tally:
        """Publish the chosen to their shards, then take them off. A crash in between repeats, which changes nothing."""
        return await self._settle(chosen, advance, "dlq_replay", self._published)

    async def drop_ingest(self, chosen: Chosen, advance: Advance) -> Tally:
        """Throw the chosen away. Their bodies are gone then."""
        return await self._settle(chosen, advance, "dlq_drop", _drop)

    async def replay_projections(self, chosen: Chosen) -> Tally:
        """Have the chosen brand-days rebuilt again."""
        pool, tally = self._database(), Tally()
        for mark in await parked_marks(pool, MOST_LETTERS):
            entry = entry_of_mark(mark)
            if chosen(entry):
                tally.matched |= {entry.id}
                if not await replay_mark(pool, mark.day):
                    tally.left[entry.id] = "it is not parked any more"
                    continue
                await audit_letters(pool, _actor(), "dlq_replay", [_event(entry)])
                tally.done += 1
        return tally

    async def _settle(self, chosen: Chosen, advance: Advance, action: str, step: Step) -> Tally:
        pool, tally, chunk = self._database(), Tally(), _Chunk()
        async with self._reading() as reader:
            looked = 0
            async for letter in reader.letters():
                looked += 1
                if chosen(entry_of(letter)):
                    reader.claim(letter)
                    chunk.add(letter)
                if chunk.is_full:
                    await self._settle_chunk(pool, reader, chunk.take(), action, step, tally)
                advance(looked, reader.count)
            await self._settle_chunk(pool, reader, chunk.take(), action, step, tally)
        return tally

    async def _settle_chunk(
        self,
        pool: Pool,
        reader: LetterReader,
        letters: Sequence[DeadLetter],
        action: str,
        step: Step,
        tally: Tally,
    ) -> None:
        if not letters:
            return
        entries = [entry_of(letter) for letter in letters]
        owners = await find_owners(pool, attempts_of(entries))
        hindrances = await step(letters, owners)
        done = [index for index, hindrance in enumerate(hindrances) if hindrance is None]
        await audit_letters(pool, _actor(), action, [_event(owned(entries[index], owners)) for index in done])
        await reader.discard(letters[index] for index in done)
        tally.done += len(done)
        for entry, hindrance in zip(entries, hindrances, strict=True):
            tally.matched |= entry.names
            if hindrance is not None:
                tally.left[entry.id] = hindrance

    async def _published(self, letters: Sequence[DeadLetter], owners: Owners) -> list[str | None]:
        """Each letter's hindrance; None: its shard has it."""
        shards = [self._shard(letter, owners) for letter in letters]
        known = [(letter, shard) for letter, shard in zip(letters, shards, strict=True) if shard is not None]
        confirmed = iter(await replay(self._publisher, known))
        return [_hindrance(None if shard is None else next(confirmed)) for shard in shards]

    def _shard(self, letter: DeadLetter, owners: Owners) -> int | None:
        """By its brand-day, as results are routed today; of an unknown attempt the one where it died."""
        owner = owner_of(entry_of(letter), owners)
        if owner is not None:
            return shard_of(owner.shard_key, self._settings.ingest_shards)
        return None if letter.shard is None else letter.shard % self._settings.ingest_shards

    async def _owners(self, entries: Iterable[Entry]) -> Owners:
        return {} if self._pool is None else await find_owners(self._pool, attempts_of(entries))

    def _database(self) -> Pool:
        if self._pool is None:
            raise DatabaseUnavailable("PostgreSQL does not answer, and this takes it; `giveway doctor` says more")
        return self._pool


@dataclass(slots=True)
class _Chunk:
    """Letters on their way together, bounded in number and bytes."""

    letters: list[DeadLetter] = field(default_factory=list)

    def add(self, letter: DeadLetter) -> None:
        self.letters.append(letter)

    @property
    def is_full(self) -> bool:
        return len(self.letters) >= CHUNK_LETTERS or sum(len(each.body) for each in self.letters) >= CHUNK_BYTES

    def take(self) -> list[DeadLetter]:
        taken, self.letters = self.letters, []
        return taken


@asynccontextmanager
async def open_office(settings: Settings) -> AsyncIterator[Office]:
    """Connected to the broker at the first need, and to the database if it answers."""
    async with AsyncExitStack() as stack:
        pool = await _pool(settings)
        if pool is not None:
            stack.push_async_callback(pool.close)
        # A memory alarm blocks a connection that publishes: letters can still be looked at by the other one.
        reading = await stack.enter_async_context(BrokerConnection(settings.amqp_url, name="giveway-dlq"))
        sending = await stack.enter_async_context(BrokerConnection(settings.amqp_url, name="giveway-dlq-replay"))
        publisher = Publisher(sending, prefix=settings.amqp_prefix, shards=settings.ingest_shards)
        yield Office(settings, reading, publisher, pool)


async def _pool(settings: Settings) -> Pool | None:
    try:
        return await open_pool(settings.database_url, size=2, name="giveway-dlq")
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        log.warning("the database does not answer, brands and days that were given up are not shown: %s", error)
        return None


async def _drop(letters: Sequence[DeadLetter], _owners: Owners) -> list[str | None]:
    return [None] * len(letters)


def _hindrance(confirmed: bool | None) -> str | None:
    if confirmed is None:
        return "it names no known attempt and no shard"
    return None if confirmed else "RabbitMQ did not confirm it"


def _event(entry: Entry) -> LetterEvent:
    detail = {"queue": entry.queue, "reason": entry.reason, "tries": entry.tries, "shard": entry.shard}
    return LetterEvent(entry.tenant_id, entry.attempt_id or entry.message_id or entry.id, {**detail, "id": entry.id})


def _actor() -> str:
    return f"cli:{getpass.getuser()}"
