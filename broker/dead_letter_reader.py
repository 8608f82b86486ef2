"""Reading the dead-letter queue without taking from it: a consumer whose unacknowledged messages go back at the end.

(`basic.get` would do for one message. A quorum queue makes a consumer of each, and returns them shuffled.)
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Final

from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from aiormq.exceptions import ChannelLockedResource

from broker.connection import OPERATION_SECONDS, BrokerConnection, broker_errors, close_channel
from broker.dead_letters import DeadLetter, copy_letter, read_letter
from broker.publisher import Publisher
from broker.subscription import Subscription
from broker.topology import declare_ingest
from domain.errors import Conflict
from domain.transport import INGEST_DEAD_LETTER_QUEUE

log = logging.getLogger(__name__)

# Of one reading: what is not discarded stays unacknowledged at the broker until the end.
MOST_LETTERS: Final = 50_000
# At once in this process.
WINDOW: Final = 200
# Letters that are ready come at once. Fewer than counted: a reader that died still held some.
QUIET_SECONDS: Final = 2.0
LOCK_SECONDS: Final = 10.0


class LettersBusy(Conflict):
    """Another command reads the dead letters: two readers would each see a part of them."""

    code = "dead_letters_busy"


class LetterReader:
    """One reading. `count`: letters in the queue at its begin."""

    def __init__(self, channel: AbstractChannel, publisher: Publisher, queue: str, prefix: str, count: int) -> None:
        self.count = count
        self._channel = channel
        self._publisher = publisher
        self._queue = queue
        self._prefix = prefix
        self._claimed: set[int] = set()
        self._discards = False

    async def letters(self) -> AsyncGenerator[DeadLetter, None]:
        """At most 50,000, roughly the oldest first; those that die meanwhile are not among them.

        Raises BrokerUnavailable when the connection is lost in the middle; what was not discarded is still there.
        """
        left = min(self.count, MOST_LETTERS)
        async with aclosing(self._messages()) as messages:
            async for message in messages:
                letter = read_letter(message, self._prefix)
                yield letter
                if letter.is_worn and letter.tag not in self._claimed:
                    await self._renew(letter)
                left -= 1
                if left <= 0:
                    return

    async def _messages(self) -> AsyncGenerator[AbstractIncomingMessage, None]:
        """Window by window, each a consumer of its own: a single one would be sent everything at once."""
        while self.count:
            window = Subscription(self._channel)
            await window.start(self._queue, prefetch=WINDOW)
            for _ in range(WINDOW):
                try:
                    async with asyncio.timeout(QUIET_SECONDS):
                        message = await window.get()
                except TimeoutError:
                    return
                yield message
            for message in await window.stop():
                yield message

    def claim(self, letter: DeadLetter) -> None:
        """Before the next letter is read: this one's fate is the caller's, who discards it, or leaves it."""
        self._claimed.add(letter.tag)

    async def discard(self, letters: Iterable[DeadLetter]) -> None:
        """Take letters off the queue, for good after `flush`. Raises BrokerUnavailable: some may come again."""
        self._discards = True
        with broker_errors("acknowledging dead letters"):
            channel = await self._channel.get_underlay_channel()
            for letter in letters:
                await channel.basic_ack(letter.tag, wait=False)

    async def flush(self) -> None:
        """Have the broker take every acknowledgement before the channel closes. Raises BrokerUnavailable.

        Its channel sends a quorum queue 32 of them ahead, keeps the others until it hears of those, and drops them when
        it closes. A consumer's begin is answered behind the 32, its end behind the others.
        """
        if self._discards:
            passing = Subscription(self._channel)
            await passing.start(self._queue, prefetch=1)
            await passing.stop()

    async def _renew(self, letter: DeadLetter) -> None:
        """A copy takes the place of a letter that was read often; a crash in between leaves both."""
        if await copy_letter(self._publisher, letter):
            await self.discard([letter])
        else:
            log.warning("dead letter %s was read %d times and could not be renewed", letter.id, letter.deliveries)


@asynccontextmanager
async def open_letters(
    connection: BrokerConnection, publisher: Publisher, *, shards: int, prefix: str = ""
) -> AsyncIterator[LetterReader]:
    """The dead letters for one reader at a time; at the end everything that was not discarded goes back.

    Raises BrokerUnavailable; LettersBusy when another has not finished within 10 s.
    """
    name = prefix + INGEST_DEAD_LETTER_QUEUE
    async with _one_reader(connection, f"{name}.reader"):
        channel = await connection.channel()
        try:
            await declare_ingest(channel, shards, prefix)
            reader = LetterReader(channel, publisher, name, prefix, await _ready(channel, name))
            yield reader
            await reader.flush()
        finally:
            await close_channel(channel)


async def _ready(channel: AbstractChannel, name: str) -> int:
    with broker_errors("counting the dead letters"):
        queue = await channel.declare_queue(name, passive=True, timeout=OPERATION_SECONDS)
    return queue.declaration_result.message_count or 0


@asynccontextmanager
async def _one_reader(connection: BrokerConnection, name: str) -> AsyncIterator[None]:
    """An exclusive queue is a lock that the broker frees when its connection dies."""
    channel = await _locked(connection, name)
    try:
        yield
    finally:
        if not channel.is_closed:
            with suppress(Exception), broker_errors("unlocking the dead letters"):
                await channel.queue_delete(name, timeout=OPERATION_SECONDS)
        await close_channel(channel)


async def _locked(connection: BrokerConnection, name: str) -> AbstractChannel:
    ends = asyncio.get_running_loop().time() + LOCK_SECONDS
    while True:
        channel = await connection.channel()
        try:
            with broker_errors("locking the dead letters"):
                await channel.declare_queue(name, exclusive=True, timeout=OPERATION_SECONDS)
            return channel
        except Exception as error:
            await close_channel(channel)
            if not isinstance(error.__cause__, ChannelLockedResource):
                raise
            if asyncio.get_running_loop().time() >= ends:
                raise LettersBusy("another `giveway dlq` reads the dead letters; try again when it is done") from error
        await asyncio.sleep(0.2)
