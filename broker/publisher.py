"""Publishing with confirms, a timeout on every publish, and a new channel after every loss."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import uuid4
from weakref import WeakValueDictionary

import aiormq
from aio_pika import DeliveryMode, Message
from aio_pika.abc import AbstractChannel, HeadersType

from broker.connection import OPERATION_SECONDS, BrokerConnection, broker_errors, close_channel
from broker.topology import declare_topology
from domain.errors import BrokerUnavailable

log = logging.getLogger(__name__)

Headers = Mapping[str, str | int]


class Outcome(StrEnum):
    """What became of one message of `publish_many`."""

    ROUTED = "routed"
    # No queue is bound to its key.
    UNROUTABLE = "unroutable"
    # Not confirmed in time, refused by the broker, or no broker: publish it again.
    FAILED = "failed"
    # Cannot be expressed in AMQP, now or later.
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One message to publish. A missing `message_id` means a fresh one for this try."""

    exchange: str
    routing_key: str
    body: bytes
    message_id: str | None = None
    headers: Headers = field(default_factory=dict)
    persistent: bool = True


class Publisher:
    """Publishes on one channel in confirm mode; publishes that run at once are pipelined.

    The topology is declared on every new channel, so that a broker that lost its data is set up again.
    """

    def __init__(self, connection: BrokerConnection, *, prefix: str = "", shards: int = 8) -> None:
        self._connection = connection
        self._prefix = prefix
        self._shards = shards
        self._channel: AbstractChannel | None = None
        self._opening = asyncio.Lock()
        self._same_id: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def publish(
        self,
        exchange: str,
        routing_key: str,
        body: bytes,
        *,
        message_id: str | None = None,
        headers: Headers | None = None,
        mandatory: bool = True,
        persistent: bool = True,
        timeout: float = OPERATION_SECONDS,
    ) -> bool:
        """Publish and wait for the broker's confirm, at most `timeout` seconds. True if a queue took it.

        The exchange is named without the prefix. Raises BrokerUnavailable when there was no confirm (the message may
        be there all the same), ValueError for a key over 255 bytes.
        """
        message = Outgoing(exchange, routing_key, body, message_id, headers or {}, persistent)
        with broker_errors(f"publishing to {exchange}"):
            async with asyncio.timeout(timeout):
                return await self._send(message, mandatory)

    async def publish_many(self, messages: Sequence[Outgoing], *, timeout: float = OPERATION_SECONDS) -> list[Outcome]:
        """Publish at once, confirms pipelined; the outcome of each, in order. Never raises for the broker's sake.

        `timeout`: seconds for all of it, a reconnect included.
        """
        if not messages:
            return []
        ends = asyncio.get_running_loop().time() + timeout
        try:
            with broker_errors("opening a channel"):
                async with asyncio.timeout_at(ends):
                    await self._opened()
        except BrokerUnavailable as error:
            log.warning("%s", error.message)
            return [Outcome.FAILED] * len(messages)
        return await asyncio.gather(*(self._outcome(message, ends) for message in messages))

    async def _outcome(self, message: Outgoing, ends: float) -> Outcome:
        try:
            with broker_errors(f"publishing to {message.exchange}"):
                async with asyncio.timeout_at(ends):
                    return Outcome.ROUTED if await self._send(message, True) else Outcome.UNROUTABLE
        except BrokerUnavailable as error:
            log.warning("%s", error.message)
            return Outcome.FAILED
        except (ValueError, TypeError) as error:
            log.error("message for key %r cannot be published: %s", message.routing_key[:300], error)
            return Outcome.REFUSED

    async def _send(self, message: Outgoing, mandatory: bool) -> bool:
        message_id = message.message_id or uuid4().hex
        # aiormq finds the publish of a returned message by its id, so one id is in flight once at a time.
        async with self._same_id.setdefault(message_id, asyncio.Lock()):
            channel = await self._opened()
            exchange = await channel.get_exchange(self._prefix + message.exchange, ensure=False)
            confirmed = await exchange.publish(_amqp(message, message_id), message.routing_key, mandatory=mandatory)
            return isinstance(confirmed, aiormq.spec.Basic.Ack)

    async def _opened(self) -> AbstractChannel:
        async with self._opening:
            if self._channel is None or self._channel.is_closed:
                channel = await self._connection.channel(confirms=True)
                try:
                    await declare_topology(channel, self._shards, self._prefix)
                except BaseException:
                    await close_channel(channel)
                    raise
                self._channel = channel
            return self._channel

    async def renew(self) -> None:
        """Drop the channel: the next publish declares the topology again."""
        channel, self._channel = self._channel, None
        await close_channel(channel)


def _amqp(message: Outgoing, message_id: str) -> Message:
    headers: HeadersType = dict(message.headers)
    return Message(
        message.body,
        message_id=message_id,
        headers=headers,
        content_type="application/json",
        delivery_mode=DeliveryMode.PERSISTENT if message.persistent else DeliveryMode.NOT_PERSISTENT,
    )
