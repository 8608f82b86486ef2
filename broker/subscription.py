"""One consumer on one channel, and its end: closed channel, lost connection, or a consumer cancelled by the broker."""

import asyncio

import aiormq
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

from broker.connection import OPERATION_SECONDS, broker_errors, close_channel
from domain.errors import BrokerUnavailable


class Subscription:
    """Messages in the order in which they arrived. It never comes back: its owner opens another on a new channel."""

    def __init__(self, channel: AbstractChannel) -> None:
        self.channel = channel
        self._arrived: asyncio.Queue[AbstractIncomingMessage | None] = asyncio.Queue()
        self._lost = False

    async def start(self, queue: str, *, prefetch: int = 0, no_ack: bool = False) -> None:
        """Start to consume. `prefetch` is the most messages unacknowledged at once. Raises BrokerUnavailable."""
        with broker_errors(f"consuming from {queue}"):
            underlay = await self.channel.get_underlay_channel()
            underlay.on_consumer_cancel_callbacks.add(self._cancelled)
            self.channel.close_callbacks.add(self._channel_closed)
            if prefetch:
                await self.channel.set_qos(prefetch_count=prefetch, timeout=OPERATION_SECONDS)
            source = await self.channel.get_queue(queue, ensure=False)
            await source.consume(self._deliver, no_ack=no_ack, timeout=OPERATION_SECONDS)

    async def _deliver(self, message: AbstractIncomingMessage) -> None:
        # aiormq starts one task a delivery, in order; without an await before it, the put keeps that order.
        self._arrived.put_nowait(message)

    def _cancelled(self, _frame: aiormq.spec.Basic.Cancel) -> None:
        self._end()

    async def _channel_closed(self, _channel: object, _error: BaseException | None) -> None:
        self._end()

    def _end(self) -> None:
        self._lost = True
        self._arrived.put_nowait(None)

    @property
    def is_lost(self) -> bool:
        """Whether the consumer is gone; its unacknowledged messages will be delivered again."""
        return self._lost or self.channel.is_closed

    async def get(self) -> AbstractIncomingMessage:
        """The next message. Raises BrokerUnavailable once the subscription is over, whatever is still buffered."""
        message = await self._arrived.get()
        if message is None or self.is_lost:
            raise BrokerUnavailable("the subscription ended")
        return message

    async def close(self) -> None:
        """Close the channel; what was delivered and not acknowledged goes back to the queue."""
        self._lost = True
        await close_channel(self.channel)
