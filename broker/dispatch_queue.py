"""The hub instance's own queue on the dispatch exchange: one binding for each client it holds (2-desktop §2.1)."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Final, Self
from uuid import UUID, uuid4

import msgspec
from aio_pika.abc import AbstractQueue

from broker.connection import OPERATION_SECONDS, BrokerConnection, broker_errors
from broker.publisher import Publisher
from broker.subscription import Subscription
from broker.topology import declare_dispatch
from domain.errors import BrokerUnavailable
from domain.transport import DISPATCH_EXCHANGE, ClientClosed, DispatchMessage

log = logging.getLogger(__name__)

LONGEST_PAUSE: Final = 2.0
# Of a hub that no longer reads. Dropped messages cost nothing that a snapshot does not bring.
MAX_LENGTH: Final = 100_000

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[DispatchMessage] = msgspec.json.Decoder(DispatchMessage)


def binding_of(client_id: UUID) -> str:
    """The binding key that catches everything for one client, whatever its lane."""
    return f"#.{client_id}"


async def publish_control(publisher: Publisher, message: ClientClosed) -> None:
    """Tell whichever hub holds the client. Nobody holding it is fine. Raises BrokerUnavailable."""
    key = f"control.{message.client_id}"
    await publisher.publish(DISPATCH_EXCHANGE, key, _encoder.encode(message), persistent=False)


class DispatchQueue:
    """Receives what is published for the bound clients, while it is entered.

    The queue is exclusive and dies with its connection. After a loss a new one is declared with all bindings, and
    then the stream carries one None: messages may have been lost, so every client needs a snapshot. The same goes for
    clients that were bound before there was a broker.
    """

    def __init__(self, connection: BrokerConnection, *, prefix: str = "") -> None:
        self._connection = connection
        self._prefix = prefix
        self._wanted: set[UUID] = set()
        self._binding = asyncio.Lock()
        self._queue: AbstractQueue | None = None
        self._subscription: Subscription | None = None
        self._stream: asyncio.Queue[DispatchMessage | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self.ready = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="dispatch-queue")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def messages(self) -> AsyncGenerator[DispatchMessage | None, None]:
        """What arrives, in order; None: some may be missing. For one reader, without an end."""
        while True:
            yield await self._stream.get()

    @property
    def bound(self) -> int:
        """For how many clients the queue is bound, or will be once there is a broker."""
        return len(self._wanted)

    async def bind(self, client_id: UUID) -> None:
        """Returns once messages for the client arrive here; without a broker, once it is noted for the reconnect."""
        self._wanted.add(client_id)
        await asyncio.shield(asyncio.create_task(self._apply(client_id)))

    async def unbind(self, client_id: UUID) -> None:
        """No more messages for the client, unless it is bound again meanwhile."""
        self._wanted.discard(client_id)
        await asyncio.shield(asyncio.create_task(self._apply(client_id)))

    async def _apply(self, client_id: UUID) -> None:
        # In a task of its own: cancelled in mid-call, aiormq would close the channel, and with it the queue of all.
        async with self._binding:
            if self._queue is None:
                return
            try:
                with broker_errors("changing a binding"):
                    await self._change(self._queue, client_id)
            except BrokerUnavailable as error:
                log.warning("%s; the queue is declared again", error.message)
                await self._give_up()

    async def _change(self, queue: AbstractQueue, client_id: UUID) -> None:
        exchange, key = self._prefix + DISPATCH_EXCHANGE, binding_of(client_id)
        if client_id in self._wanted:
            await queue.bind(exchange, key, timeout=OPERATION_SECONDS)
        else:
            await queue.unbind(exchange, key, timeout=OPERATION_SECONDS)

    async def _give_up(self) -> None:
        self._queue = None
        if self._subscription is not None:
            await self._subscription.close()

    async def _run(self) -> None:
        pause = 0.1
        try:
            while True:
                try:
                    subscription = await self._declare()
                    if self._wanted:
                        self._stream.put_nowait(None)
                    pause = 0.1
                    self.ready.set()
                    while True:
                        self._receive((await subscription.get()).body)
                except BrokerUnavailable as error:
                    log.warning("dispatch queue: %s; again in %.1f s", error.message, pause)
                self.ready.clear()
                await self._forget()
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
        finally:
            await self._forget()

    async def _declare(self) -> Subscription:
        channel = await self._connection.channel()
        self._subscription = subscription = Subscription(channel)
        await declare_dispatch(channel, self._prefix)
        async with self._binding:
            with broker_errors("declaring the dispatch queue"):
                queue = await channel.declare_queue(
                    f"{self._prefix}desktop.hub.{uuid4().hex}",
                    exclusive=True,
                    auto_delete=True,
                    arguments={"x-max-length": MAX_LENGTH},
                    timeout=OPERATION_SECONDS,
                )
                await self._bind_all(queue)
            await subscription.start(queue.name, no_ack=True)
            self._queue = queue
        return subscription

    async def _bind_all(self, queue: AbstractQueue) -> None:
        # Without waiting for each answer: 10,000 clients come back with one round trip. The broker works through a
        # channel in order, so the consume after it is the confirmation.
        underlay = await queue.channel.get_underlay_channel()
        for client_id in list(self._wanted):
            await underlay.queue_bind(queue.name, self._prefix + DISPATCH_EXCHANGE, binding_of(client_id), nowait=True)

    async def _forget(self) -> None:
        self._queue = None
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await subscription.close()

    def _receive(self, body: bytes) -> None:
        try:
            self._stream.put_nowait(_decoder.decode(body))
        except msgspec.DecodeError as error:
            log.error("dispatch message dropped: %s", error)
