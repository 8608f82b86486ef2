"""One socket from hello to its end: frames in, acknowledgements and heartbeats out (2-desktop §2.1)."""

import asyncio
import logging
import time
from collections import OrderedDict
from random import Random
from typing import Final, Protocol

import msgspec
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from desktop.config import Timings
from desktop.events import Moment
from desktop.naps import NapWatch
from domain import protocol
from domain.ids import new_uuid
from domain.protocol import (
    AnyServerFrame,
    ClientAck,
    ClientFrame,
    ErrorFrame,
    Heartbeat,
    Hello,
    ServerAck,
    Snapshot,
    Sync,
    TaskAvailable,
    TaskControl,
)

log = logging.getLogger(__name__)

# Heartbeats whose reply may still come.
REMEMBERED_HEARTBEATS: Final = 8


class Link(Protocol):
    """What a session asks of the desktop behind it, and tells it."""

    def hello(self) -> Hello: ...

    def heartbeat(self) -> Heartbeat: ...

    def sync(self) -> Sync: ...

    def idle(self) -> bool: ...

    def received(self, frame: AnyServerFrame, at: Moment) -> None: ...

    def heartbeat_taken(self, heartbeat: Heartbeat) -> None: ...

    def replied(self, ref: str | None, code: str | None) -> None: ...


class Session:
    """Speaks the protocol on one open socket. `ready` is set once a whole snapshot has come, at `ready_at`.

    `ready_at` is in seconds of the monotonic clock.
    """

    def __init__(self, socket: ClientConnection, link: Link, timings: Timings, rng: Random) -> None:
        self._socket = socket
        self._link = link
        self._timings = timings
        self._rng = rng
        self._hello = _in_version(link.hello(), socket.subprotocol)
        self._heartbeats: OrderedDict[str, Heartbeat] = OrderedDict()
        self._last_news = time.monotonic()
        self._answered = asyncio.Event()
        self.ready = asyncio.Event()
        self.ready_at: float | None = None

    async def run(self) -> None:
        """Serve until the socket ends; raises ConnectionClosed then."""
        beating = asyncio.create_task(self._beat())
        try:
            await self.send(self._hello)
            while True:
                text = await self._socket.recv(decode=False)
                await self._take(text, Moment())
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)

    async def send(self, frame: ClientFrame) -> None:
        """Write one frame; raises ConnectionClosed."""
        await self._socket.send(protocol.encode(frame))

    async def _take(self, text: bytes | str, at: Moment) -> None:
        try:
            frame = protocol.decode_server_frame(text)
        except msgspec.DecodeError as error:
            # A newer server may send kinds that this version does not know.
            log.warning("a frame was ignored: %s", error)
            return
        self._handle(frame, at)
        if isinstance(frame, TaskAvailable | TaskControl):
            await self.send(ClientAck(id=str(new_uuid()), ref=frame.id))

    def _handle(self, frame: AnyServerFrame, at: Moment) -> None:
        if isinstance(frame, ServerAck):
            if (heartbeat := self._heartbeats.pop(frame.ref, None)) is not None:
                self._link.heartbeat_taken(heartbeat)
            else:
                self._link.replied(frame.ref, None)
            return
        if isinstance(frame, ErrorFrame):
            self._refused(frame)
            return
        self._last_news = at.monotonic
        self._link.received(frame, at)
        if isinstance(frame, Snapshot) and frame.last:
            # The first one answers hello, in the hub's own name if it had to be late.
            self._answered.set()
            self.ready_at = self.ready_at or at.monotonic
            self.ready.set()

    def _refused(self, error: ErrorFrame) -> None:
        self._link.replied(error.ref, error.code)
        log.warning("the hub could not follow %s: %s (%s)", error.ref, error.code, error.message)
        if error.ref == self._hello.id:
            # Its database is away: the snapshot follows, and leaving would only add a herd to the trouble.
            self._answered.set()

    async def _beat(self) -> None:
        try:
            await self._beat_once_answered()
        except ConnectionClosed:
            pass
        except Exception:
            # A desktop that falls silent on an open socket would be lost to the server and never know.
            log.exception("heartbeats failed: this desktop connects again")
            self._socket.transport.abort()

    async def _beat_once_answered(self) -> None:
        if not await self._answered_in_time():
            await self._socket.close(reason="hello was not answered")
            return
        # At once: what the snapshot brought is queued here now. Then at a moment of its own in the interval, so that
        # desktops that were greeted together do not beat together.
        await self._heartbeat()
        await self._beat_every(self._timings.heartbeat)

    async def _beat_every(self, interval: float) -> None:
        naps = NapWatch()
        await asyncio.sleep(self._rng.uniform(0.0, interval))
        while True:
            if naps.look() >= interval + self._timings.dead:
                # The hub has given this desktop up; its socket may look healthy here until somebody writes to it.
                log.warning("this desktop stood still for a while: it connects again")
                self._socket.transport.abort()
                return
            await self._heartbeat()
            if self._link.idle() and time.monotonic() - self._last_news >= self._timings.idle_sync:
                await self.send(self._link.sync())
            await asyncio.sleep(interval)

    async def _heartbeat(self) -> None:
        heartbeat = self._link.heartbeat()
        self._heartbeats[heartbeat.id] = heartbeat
        while len(self._heartbeats) > REMEMBERED_HEARTBEATS:
            self._heartbeats.popitem(last=False)
        await self.send(heartbeat)

    async def _answered_in_time(self) -> bool:
        try:
            async with asyncio.timeout(self._timings.snapshot):
                await self._answered.wait()
        except TimeoutError:
            return False
        return True


def _in_version(hello: Hello, agreed: str | None) -> Hello:
    """Naming the version that the handshake agreed on. Without one, the hub closes and says which it speaks."""
    return hello if agreed is None else msgspec.structs.replace(hello, protocol=agreed)
