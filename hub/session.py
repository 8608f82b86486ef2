"""One desktop's connection after authentication: frames in, orders out, and its end.

The reader never waits for the backend: what takes a statement is an errand (`hub/errands.py`).
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol
from uuid import UUID

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State

from domain.hub_port import ClientIdentity, HeartbeatRecord
from domain.protocol import (
    Authenticate,
    ClientAck,
    CloseCode,
    ErrorCode,
    Heartbeat,
    Hello,
    ProxyResponse,
    Sync,
    TaskControl,
)
from hub.errands import Errands, Services
from hub.frames import FrameRefused, ack, error_reply, parse_client_frame
from hub.outgoing import FrameQueue
from hub.ports import NO_EPOCH

log = logging.getLogger(__name__)


class Surroundings(Services, Protocol):
    """What a session needs of its hub."""

    async def enter(self, session: "Session") -> None:
        """The session has its epoch: replace older ones, here and elsewhere, and bind the client."""
        ...

    def beat(self, record: HeartbeatRecord) -> None:
        """Fold a heartbeat."""
        ...

    def pushed(self, tasks: Sequence[UUID]) -> None:
        """Report frames that were written."""
        ...


class Session:
    """A client's connection; `epoch` is NO_EPOCH until the greeting is done."""

    # There are 10,000 of them.
    __slots__ = ("_closing", "_hub", "_queue", "_socket", "client", "epoch", "errands")

    def __init__(self, socket: ServerConnection, client: ClientIdentity, hub: Surroundings) -> None:
        self.client = client
        self.epoch = NO_EPOCH
        self._socket = socket
        self._hub = hub
        self._queue = FrameQueue(socket, hub.limits, self)
        self.errands = Errands(self, self._queue, hub)
        self._closing: asyncio.Task[None] | None = None

    # --- from the hub ---------------------------------------------------------------------------------------------

    def order(self, control: TaskControl) -> None:
        """Pass an order on at once."""
        if self.epoch != NO_EPOCH:
            self._queue.put(control)

    def close(self, code: CloseCode | int, reason: str) -> None:
        """Close with a code, without waiting; what is queued is dropped."""
        self._queue.close()
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(code, reason))

    async def _close(self, code: int, reason: str) -> None:
        try:
            async with asyncio.timeout(self._hub.limits.close_seconds):
                await self._socket.close(code, reason)
        except TimeoutError:
            # Its buffers are full, or it is gone: not even the close frame gets out.
            self._socket.transport.abort()

    # --- from its queue -------------------------------------------------------------------------------------------

    def written(self, tasks: Sequence[UUID]) -> None:
        """The frames of these tasks are out."""
        self._hub.pushed(tasks)

    def overflown(self) -> None:
        """More than the bound waits for the client."""
        log.warning("client %s does not read: closed", self.client.client_id)
        self.close(CloseCode.SLOW_CONSUMER, "reads too slowly")

    # --- from its errands -----------------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Nothing reaches the client any more."""
        return self._closing is not None or self._socket.state is not State.OPEN

    async def entered(self, epoch: int) -> None:
        """The greeting gave it its epoch; returns once what is published for the client arrives here."""
        self.epoch = epoch
        await self._hub.enter(self)

    async def rest(self, seconds: float) -> None:
        """Wait, but no longer than the connection lasts."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._socket.wait_closed()

    # --- from the client ------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Read until the connection ends, for whatever reason; what still runs then is waited for, or cancelled."""
        self._forget_the_handshake()
        loop = asyncio.get_running_loop()
        patience = loop.call_later(self._hub.limits.authentication_seconds, self._expect_hello)
        try:
            while self._closing is None:
                self._receive(await self._socket.recv())
        except ConnectionClosed:
            pass
        finally:
            patience.cancel()
            self._queue.close()
            await self._settle()

    def _forget_the_handshake(self) -> None:
        """Its headers are some 4 KB a connection for as long as it lasts, the token among them."""
        for message in (self._socket.request, self._socket.response):
            if message is not None:
                message.headers.clear()

    async def _settle(self) -> None:
        # A greeting in flight is waited for: its epoch must be known to be ended.
        tasks = [task for task in (self.errands.worker, self._closing) if task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=self._hub.limits.drain_seconds)
            for task in late:
                task.cancel()

    def _expect_hello(self) -> None:
        if not self.errands.greeted:
            self.close(CloseCode.AUTHENTICATION_TIMEOUT, "no hello came")

    def _receive(self, data: str | bytes) -> None:
        try:
            frame = parse_client_frame(data)
        except FrameRefused as refused:
            if refused.close is None:
                self._queue.put(error_reply(refused.ref, ErrorCode.INVALID_FRAME, refused.reason))
            else:
                self.close(refused.close, refused.reason)
            return
        match frame:
            case Hello():
                self._receive_hello(frame)
            case Heartbeat():
                self._receive_heartbeat(frame)
            case Sync() | ProxyResponse() if self.epoch == NO_EPOCH:
                self._queue.put(error_reply(frame.id, ErrorCode.HELLO_REQUIRED, "say hello first"))
            case Sync():
                self.errands.sync(frame)
            case ProxyResponse():
                if not self.errands.answered(frame):
                    self.close(CloseCode.TOO_MANY_FRAMES, "too many answers at once")
            case Authenticate():
                message = "this connection has its client"
                self._queue.put(error_reply(frame.id, ErrorCode.ALREADY_AUTHENTICATED, message))
            case ClientAck():
                pass

    def _receive_hello(self, hello: Hello) -> None:
        if hello.protocol != self._socket.subprotocol:
            self.close(CloseCode.PROTOCOL_VERSION, f"this connection speaks {self._socket.subprotocol}")
        elif self.errands.greeted:
            self._queue.put(error_reply(hello.id, ErrorCode.ALREADY_GREETED, "send sync for a snapshot"))
        else:
            self.errands.greet(hello)

    def _receive_heartbeat(self, beat: Heartbeat) -> None:
        self._queue.put(ack(beat.id))
        self.errands.note_held([*beat.running, *beat.queued])
        if self.epoch != NO_EPOCH:
            self._hub.beat(HeartbeatRecord(self.client.client_id, self.epoch, beat))
