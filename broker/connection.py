"""One AMQP connection that comes back after a loss, and what its failures are called.

aio-pika's robust connection replays its own idea of the topology in the background. Here whoever holds a channel
opens it again and declares what it needs, so that a restored consumer also knows that it was away.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Final, Self

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection
from aio_pika.exceptions import AMQPError
from pamqp.exceptions import PAMQPException

from domain.errors import BrokerUnavailable

log = logging.getLogger(__name__)

# aio-pika gives a silent connection up after 3 (s + 1) seconds, the broker after two missed beats.
HEARTBEAT_SECONDS: Final = 6
OPERATION_SECONDS: Final = 5.0


@contextmanager
def broker_errors(doing: str) -> Iterator[None]:
    """Turns every way in which the broker fails into `BrokerUnavailable`; our own cancellation and mistakes pass.

    A closing aiormq channel ends waiters with CancelledError, or with a bare Exception. Neither is the caller's own.
    """
    try:
        yield
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise BrokerUnavailable(f"RabbitMQ closed the channel while {doing}") from error
    except Exception as error:
        if not _from_broker(error):
            raise
        raise BrokerUnavailable(f"RabbitMQ failed while {doing}: {error!r}") from error


def _from_broker(error: Exception) -> bool:
    known = (AMQPError, PAMQPException, OSError, TimeoutError, RuntimeError)
    return isinstance(error, known) or type(error) is Exception


class BrokerConnection:
    """A connection opened at the first need and again after each loss. Safe to share between tasks.

    Channels belong to their opener, who notices that one is closed and opens another.
    """

    def __init__(self, url: str, *, name: str = "giveway") -> None:
        self._url = url
        self._name = name
        self._connection: AbstractConnection | None = None
        self._connecting = asyncio.Lock()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def is_connected(self) -> bool:
        """Whether the last known connection still stands."""
        transport = self._connection.transport if self._connection is not None else None
        # aio-pika hears of the loss later than the connection under it.
        return transport is not None and not transport.connection.is_closed

    async def channel(self, *, confirms: bool = False, timeout: float = OPERATION_SECONDS) -> AbstractChannel:
        """A new channel, connecting first if need be. `timeout` in seconds covers both.

        Raises BrokerUnavailable.
        """
        with broker_errors("opening a channel"):
            async with asyncio.timeout(timeout):
                connection = await self._connected(timeout)
                channel = connection.channel(publisher_confirms=confirms)
                await channel.initialize()
                return channel

    async def _connected(self, timeout: float) -> AbstractConnection:
        async with self._connecting:
            if self._closed:
                raise BrokerUnavailable("this process has closed its connection to RabbitMQ")
            if self._connection is None or not self.is_connected:
                self._connection = await aio_pika.connect(
                    self._url,
                    timeout=timeout,
                    client_properties={"connection_name": self._name},
                    heartbeat=HEARTBEAT_SECONDS,
                )
                log.info("connected to RabbitMQ as %s", self._name)
            return self._connection

    async def close(self) -> None:
        """Close for good; channels of this connection end."""
        self._closed = True
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(BrokerUnavailable), broker_errors("closing"):
                async with asyncio.timeout(OPERATION_SECONDS):
                    await connection.close()


async def close_channel(channel: AbstractChannel | None) -> None:
    """Close a channel if it still stands; a broker that does not answer is not waited for."""
    if channel is None or channel.is_closed:
        return
    with suppress(BrokerUnavailable), broker_errors("closing a channel"):
        async with asyncio.timeout(OPERATION_SECONDS):
            await channel.close()
