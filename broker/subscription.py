"""One consumer on one channel, and its end: closed channel, lost connection, or a consumer cancelled by the broker."""

import asyncio

import aiormq
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

from broker.connection import OPERATION_SECONDS, broker_errors, close_channel
from domain.errors import BrokerUnavailable


class Subscription:
    """Messages in the order in which they arrived. It never comes back: its owner opens another on a new channel.

    `max_bytes`: it ends when the bodies that arrived and were not released are more. AMQP's own limit counts messages,
    whatever their size.
    """

    def __init__(self, channel: AbstractChannel, *, max_bytes: int | None = None) -> None:
        self.channel = channel
        # Of the bodies since `forget`.
        self.arrivals = 0
        self.largest = 0
        self.held = 0
        self._max_bytes = max_bytes
        self._arrived: asyncio.Queue[AbstractIncomingMessage | None] = asyncio.Queue()
        self._lost = False
        self._why = "it was closed"
        self._tag = ""

    async def start(self, queue: str, *, prefetch: int = 0, no_ack: bool = False) -> None:
        """Start to consume. `prefetch` is the most messages unacknowledged at once. Raises BrokerUnavailable."""
        with broker_errors(f"consuming from {queue}"):
            underlay = await self.channel.get_underlay_channel()
            underlay.on_consumer_cancel_callbacks.add(self._cancelled)
            self.channel.close_callbacks.add(self._channel_closed)
            if prefetch:
                await self.channel.set_qos(prefetch_count=prefetch, timeout=OPERATION_SECONDS)
            source = await self.channel.get_queue(queue, ensure=False)
            self._tag = await source.consume(self._deliver, no_ack=no_ack, timeout=OPERATION_SECONDS)

    async def stop(self) -> list[AbstractIncomingMessage]:
        """No more deliveries; what came and was not asked for. The channel stays, and with it what is unacknowledged.

        Raises BrokerUnavailable.
        """
        with broker_errors("cancelling a consumer"):
            underlay = await self.channel.get_underlay_channel()
            await underlay.basic_cancel(self._tag, timeout=OPERATION_SECONDS)
        # Deliveries that came before the answer are tasks that have not run yet.
        await asyncio.sleep(0)
        rest = [self._arrived.get_nowait() for _ in range(self._arrived.qsize())]
        return [message for message in rest if message is not None]

    async def _deliver(self, message: AbstractIncomingMessage) -> None:
        # aiormq starts one task a delivery, in order; without an await before it, the put keeps that order.
        if self._lost:
            return
        self.arrivals += 1
        self.largest = max(self.largest, message.body_size)
        # A single one passes, whatever its size, or it would never be looked at.
        if self._max_bytes is not None and self.held and self.held + message.body_size > self._max_bytes:
            self.end(f"over {self._max_bytes:,} bytes were on the way")
            return
        self.held += message.body_size
        self._arrived.put_nowait(message)

    def release(self, size: int) -> None:
        """So many bytes are the owner's no more."""
        self.held -= size

    def forget(self) -> None:
        """Begin to count arrivals, and to look for the largest, anew."""
        self.arrivals = self.largest = 0

    def _cancelled(self, _frame: aiormq.spec.Basic.Cancel) -> None:
        self.end("the broker cancelled the consumer")

    async def _channel_closed(self, _channel: object, _error: BaseException | None) -> None:
        self.end("the channel was closed")

    def end(self, why: str) -> None:
        """Whoever waits, or asks next, is told."""
        self._lost = True
        self._why = why
        self._arrived.put_nowait(None)

    @property
    def is_lost(self) -> bool:
        """Whether the consumer is gone; its unacknowledged messages will be delivered again."""
        return self._lost or self.channel.is_closed

    async def get(self) -> AbstractIncomingMessage:
        """The next message. Raises BrokerUnavailable once the subscription is over, whatever is still buffered."""
        message = await self._arrived.get()
        if message is None or self.is_lost:
            raise BrokerUnavailable(f"the subscription ended: {self._why}")
        return message

    async def close(self) -> None:
        """Close the channel; what was delivered and not acknowledged goes back to the queue."""
        self._lost = True
        await close_channel(self.channel)
