"""Batches of results from one ingest shard (3-results §3.2)."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aio_pika.abc import AbstractIncomingMessage
from aiormq.abc import AbstractChannel as UnderlayChannel

from broker.connection import BrokerConnection, broker_errors
from broker.subscription import Subscription
from broker.topology import declare_ingest
from domain.errors import BrokerUnavailable
from domain.transport import ingest_queue

log = logging.getLogger(__name__)

MAX_MESSAGES: Final = 100
MAX_WAIT_SECONDS: Final = 0.05
# One transaction's worth: a result is rarely over 100 kB, and never over 4 MB.
MAX_BATCH_BYTES: Final = 8_000_000
# Of one shard in this process. What is over it waits in RabbitMQ.
MAX_HELD_BYTES: Final = 64_000_000
# A narrow window is widened after so many windows full of messages that would fit a wider one.
WINDOWS_OF_SMALL_ONES: Final = 4
LONGEST_PAUSE: Final = 2.0


@dataclass(frozen=True, slots=True)
class Received:
    """One message, not yet acknowledged.

    `deliveries` counts the earlier deliveries (`x-delivery-count`); 0 at the first.
    """

    body: bytes
    message_id: str | None
    deliveries: int
    headers: Mapping[str, Any]
    tag: int
    session: int


class IngestConsumer:
    """Consumes one shard. Of several on a shard one is active, in order; the others stand by at the broker.

    It outlives the loss of channel, connection, queue and consumer. What was delivered before a loss is delivered
    again after it: acknowledging such a message late is ignored, and ingest drops the repetition by its id.

    Memory is bounded by bytes, not by messages: where large ones would be more than `max_held_bytes`, it subscribes
    anew for so few of them at once that they fit, and for more when they have become small (ADR 0040).
    """

    def __init__(
        self,
        connection: BrokerConnection,
        shard: int,
        *,
        shards: int = 8,
        prefix: str = "",
        max_messages: int = MAX_MESSAGES,
        max_wait: float = MAX_WAIT_SECONDS,
        max_batch_bytes: int = MAX_BATCH_BYTES,
        max_held_bytes: int = MAX_HELD_BYTES,
    ) -> None:
        self._connection = connection
        self._shard = shard
        self._shards = shards
        self._prefix = prefix
        self._max_messages = max_messages
        self._max_wait = max_wait
        self._max_batch_bytes = max_batch_bytes
        self._max_held_bytes = max_held_bytes
        # One batch is worked on while the next fills.
        self._most = 2 * max_messages
        self._window = self._most
        self._session = 0
        # Tags of this session handed out and not settled, with their sizes.
        self._open: dict[int, int] = {}
        self._subscription: Subscription | None = None

    @property
    def held_bytes(self) -> int:
        """Bodies in this process that are not acknowledged."""
        return 0 if self._subscription is None else self._subscription.held

    @property
    def window(self) -> int:
        """How many messages may be here at once."""
        return self._window

    async def batches(self) -> AsyncGenerator[list[Received], None]:
        """Batches of at most `max_messages` or `max_batch_bytes`, or what came within `max_wait` seconds of the first.

        Ends only by being closed or cancelled; then the standby takes over at once. Close it with `aclosing`.
        """
        pause = 0.1
        try:
            while True:
                try:
                    subscription = await self._subscribe()
                    pause = 0.1
                    while True:
                        yield await self._collect(subscription)
                except BrokerUnavailable as error:
                    log.warning("shard %d: %s; again in %.1f s", self._shard, error.message, pause)
                await self._unsubscribe()
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
        finally:
            await self._unsubscribe()

    async def _subscribe(self) -> Subscription:
        channel = await self._connection.channel()
        self._subscription = subscription = Subscription(channel, max_bytes=self._max_held_bytes)
        self._session += 1
        self._open.clear()
        await declare_ingest(channel, self._shards, self._prefix)
        await subscription.start(self._prefix + ingest_queue(self._shard), prefetch=self._window)
        return subscription

    async def _unsubscribe(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            if subscription.largest:
                self._window = min(self._window, self._fitting(subscription))
            await subscription.close()

    def _fitting(self, subscription: Subscription) -> int:
        """How many messages like the largest that came lately may be here at once."""
        return min(max(self._max_held_bytes // max(subscription.largest, 1), 1), self._most)

    def _widen(self, subscription: Subscription) -> None:
        """Once messages have become small. The few that are here come again: that is what a narrow window costs."""
        if self._window == self._most or subscription.arrivals < WINDOWS_OF_SMALL_ONES * self._window:
            return
        fitting = self._fitting(subscription)
        subscription.forget()
        if fitting >= 2 * self._window:
            self._window = fitting
            subscription.end("there is room for more messages")

    async def _collect(self, subscription: Subscription) -> list[Received]:
        batch = [self._received(await subscription.get())]
        size = len(batch[0].body)
        try:
            async with asyncio.timeout(self._max_wait):
                while len(batch) < self._max_messages and size < self._max_batch_bytes:
                    batch.append(self._received(await subscription.get()))
                    size += len(batch[-1].body)
        except TimeoutError:
            pass
        return batch

    def _received(self, message: AbstractIncomingMessage) -> Received:
        assert message.delivery_tag is not None
        self._open[message.delivery_tag] = message.body_size
        headers: dict[str, Any] = dict(message.headers)
        count = headers.get("x-delivery-count")
        deliveries = count if isinstance(count, int) else 0
        return Received(message.body, message.message_id, deliveries, headers, message.delivery_tag, self._session)

    async def ack(self, batch: Iterable[Received]) -> None:
        """Acknowledge after commit. Messages of an earlier subscription are skipped: they come again."""
        tags = sorted(
            message.tag for message in batch if message.session == self._session and message.tag in self._open
        )
        if not tags:
            return
        self._close(tags)
        whole = not any(tag < tags[-1] for tag in self._open)
        # One frame for a whole batch: a quorum queue takes each as a command of its replicated log.
        await self._settle(lambda channel: _ack(channel, tags[-1:] if whole else tags, whole))
        if self._subscription is not None:
            self._widen(self._subscription)

    async def reject(self, message: Received, requeue: bool = False) -> None:
        """Give one message back to the queue, or without `requeue` to the dead-letter queue."""
        if message.session == self._session and message.tag in self._open:
            self._close([message.tag])
            await self._settle(lambda channel: channel.basic_reject(message.tag, requeue=requeue, wait=False))

    def _close(self, tags: Iterable[int]) -> None:
        sizes = [self._open.pop(tag) for tag in tags]
        if self._subscription is not None:
            self._subscription.release(sum(sizes))

    async def _settle(self, send: Callable[[UnderlayChannel], Awaitable[None]]) -> None:
        if self._subscription is None or self._subscription.is_lost:
            return
        try:
            with broker_errors("acknowledging"):
                await send(await self._subscription.channel.get_underlay_channel())
        except BrokerUnavailable as error:
            log.warning("shard %d: %s; the messages come again", self._shard, error.message)


async def _ack(channel: UnderlayChannel, tags: list[int], multiple: bool) -> None:
    for tag in tags:
        await channel.basic_ack(tag, multiple=multiple, wait=False)
