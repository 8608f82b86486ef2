"""The scripted hub: one WebSocket address and one REST address for one client, and what scenarios do with them."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import msgspec
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from desktop.conformance.heard import HeardFrame, Record, Visit
from desktop.conformance.ledger import QUEUED, RUNNING, Ledger
from desktop.conformance.orders import TaskMaker, frame_id
from desktop.conformance.pace import ClientPace
from desktop.conformance.waiting import Signal
from domain import protocol
from domain.protocol import (
    AnyClientFrame,
    Authenticate,
    CloseCode,
    Control,
    ErrorFrame,
    Heartbeat,
    HeldTask,
    Hello,
    ServerAck,
    ServerFrame,
    Snapshot,
    Sync,
    TaskControl,
)

Greeting = Callable[[Hello], list[ServerFrame]]


@dataclass(frozen=True, slots=True)
class Address:
    """What a client needs to connect."""

    ws_url: str
    api_url: str
    client_id: str
    device_token: str


class Stage:
    """State of the scripted hub. Scenarios read `record`, change `ledger` and send frames."""

    def __init__(self, make: TaskMaker, device_token: str, pace: ClientPace) -> None:
        self.client_id = make.client_id
        self.device_token = device_token
        self.pace = pace
        self.make = make
        self.ledger = Ledger()
        self.record = Record()
        self.signal = Signal()
        self.address = Address("", "", make.client_id, device_token)
        # What happens to the next connection instead of the usual: a greeting, or a close code after the token.
        self.greeting: Greeting | None = None
        self.refuse_with: int | None = None
        self._sockets: dict[int, ServerConnection] = {}
        # Generations only grow, over all scenarios.
        self._generation = 100

    # --- what scenarios do ------------------------------------------------------------------------------------

    @property
    def visit(self) -> Visit | None:
        """The newest connection, if it is open and greeted."""
        newest = self.record.visits[-1] if self.record.visits else None
        return newest if newest is not None and newest.greeted_at and newest.closed_at is None else None

    def next_generation(self) -> int:
        """A generation that was never used."""
        self._generation += 10
        return self._generation

    async def send(self, frame: ServerFrame) -> None:
        """Write a frame to the newest connection; one that is gone gets the frame by its next snapshot."""
        await self.send_text(protocol.encode(frame))

    async def send_text(self, text: str) -> None:
        """The same with any text."""
        socket = self._newest()
        if socket is not None:
            try:
                await socket.send(text)
            except ConnectionClosed:
                return

    async def close(self, code: int, reason: str = "the conformance suite tries this") -> None:
        """Close the newest connection."""
        socket = self._newest()
        if socket is not None:
            await socket.close(code, reason)

    def lose(self) -> None:
        """Break the newest connection without a word."""
        socket = self._newest()
        if socket is not None:
            socket.transport.abort()

    def _newest(self) -> ServerConnection | None:
        return self._sockets[max(self._sockets)] if self._sockets else None

    def breach(self, sentence: str) -> None:
        """Note what no client may do."""
        if sentence not in self.record.breaches:
            self.record.breaches.append(sentence)
            self.signal.changed()

    # --- the WebSocket ----------------------------------------------------------------------------------------

    def check_path(self, connection: ServerConnection, request: Request) -> Response | None:
        """404 for every path but the hub's."""
        path = urlsplit(request.path).path
        if path == protocol.PATH:
            return None
        self.breach(f"connected to the path {path}")
        return connection.respond(HTTPStatus.NOT_FOUND, "No such path.\n")

    async def serve_socket(self, socket: ServerConnection) -> None:
        """One connection, to its end."""
        visit = self._enter(socket)
        try:
            if await self._admitted(socket, visit):
                async for text in socket:
                    await self._take(socket, visit, text)
        except ConnectionClosed:
            pass
        finally:
            visit.closed_at = time.monotonic()
            self._sockets.pop(visit.number, None)
            self.signal.changed()

    def _enter(self, socket: ServerConnection) -> Visit:
        request = socket.request
        assert request is not None
        offered = tuple(one.strip() for one in request.headers.get("Sec-WebSocket-Protocol", "").split(","))
        visit = Visit(len(self.record.visits) + 1, request.path, offered)
        self.record.visits.append(visit)
        self.signal.changed()
        return visit

    async def _admitted(self, socket: ServerConnection, visit: Visit) -> bool:
        request = socket.request
        assert request is not None
        header = request.headers.get("Authorization")
        if header is not None:
            visit.token_by = "header"
        if (code := self._refusal(socket, visit, header)) is not None:
            await socket.close(code)
            return False
        if header is not None:
            await self._trust(socket, visit)
        return True

    def _refusal(self, socket: ServerConnection, visit: Visit, header: str | None) -> int | None:
        if urlsplit(visit.path).query:
            return CloseCode.TOKEN_IN_URL
        if socket.subprotocol is None:
            return CloseCode.PROTOCOL_VERSION
        if header is not None and header != f"Bearer {self.device_token}":
            return CloseCode.UNAUTHENTICATED
        return self.refuse_with

    async def _trust(self, socket: ServerConnection, visit: Visit) -> None:
        visit.trusted_at = time.monotonic()
        older, self._sockets = dict(self._sockets), {visit.number: socket}
        for other in older.values():
            await other.close(CloseCode.REPLACED, "a newer connection of this client")

    async def _take(self, socket: ServerConnection, visit: Visit, text: str | bytes) -> None:
        frame = await self._read(socket, text)
        if frame is None:
            return
        if frame.id in visit.ids:
            self.breach(f"two frames of one connection had the id {frame.id!r}")
        visit.ids.add(frame.id)
        self.record.frames.append(HeardFrame(frame, visit.number))
        await self._answer(socket, visit, frame)
        self.signal.changed()

    async def _read(self, socket: ServerConnection, text: str | bytes) -> AnyClientFrame | None:
        if isinstance(text, bytes):
            self.breach("sent a binary frame")
            await socket.close(CloseCode.MALFORMED_FRAME)
            return None
        if len(text.encode()) > protocol.MAX_FRAME_BYTES:
            self.breach(f"sent a frame of {len(text.encode())} bytes")
        try:
            return protocol.decode_client_frame(text)
        except msgspec.DecodeError as error:
            self.breach(f"sent a frame that the protocol does not know ({error}): {text[:200]}")
            await socket.close(CloseCode.MALFORMED_FRAME)
            return None

    async def _answer(self, socket: ServerConnection, visit: Visit, frame: AnyClientFrame) -> None:
        match frame:
            case Authenticate():
                await self._authenticate(socket, visit, frame)
            case _ if visit.trusted_at is None:
                self.breach(f"its first frame without a token in the header was {type(frame).__name__}")
                await socket.close(CloseCode.UNAUTHENTICATED)
            case Hello():
                await self._greet(socket, visit, frame)
            case Sync():
                await self._say(socket, *self.snapshot(frame))
            case Heartbeat():
                await self._say(socket, ServerAck(id=frame_id(), ref=frame.id))
            case _:
                pass

    async def _authenticate(self, socket: ServerConnection, visit: Visit, frame: Authenticate) -> None:
        if visit.trusted_at is not None:
            self.breach("sent authenticate on a connection that had its token")
        elif frame.token != self.device_token or self.refuse_with is not None:
            await socket.close(self.refuse_with or CloseCode.UNAUTHENTICATED)
        else:
            visit.token_by = "frame"
            await self._trust(socket, visit)
            await self._say(socket, ServerAck(id=frame_id(), ref=frame.id))

    async def _greet(self, socket: ServerConnection, visit: Visit, hello: Hello) -> None:
        if visit.greeted_at is not None:
            self.breach("sent a second hello on one connection")
            error = ErrorFrame(id=frame_id(), ref=hello.id, code="already_greeted", message="send sync for a snapshot")
            await self._say(socket, error)
            return
        visit.greeted_at = time.monotonic()
        self.ledger.slots = hello.max_concurrent or self.ledger.slots
        self._end_what_is_not_named(hello)
        greeting, self.greeting = self.greeting, None
        await self._say(socket, *(greeting(hello) if greeting else self.snapshot(hello)))

    def _end_what_is_not_named(self, hello: Hello) -> None:
        named = {held.attempt_id for held in hello.held}
        for lease in self.ledger.leases.values():
            if lease.status == RUNNING and lease.frame.attempt_id not in named:
                lease.valid = False

    async def _say(self, socket: ServerConnection, *frames: ServerFrame) -> None:
        for frame in frames:
            await socket.send(protocol.encode(frame))

    # --- snapshots --------------------------------------------------------------------------------------------

    def snapshot(self, asked: Hello | Sync, *, pages: int = 1) -> list[ServerFrame]:
        """Everything the client should know, in so many pages."""
        named = {held.task_id for held in asked.held}
        available = [
            lease.frame for lease in self.ledger.leases.values()
            if lease.status == QUEUED and lease.valid and lease.frame.task_id not in named
        ]  # fmt: skip
        held = [self._verdict(one.task_id, one.attempt_id) for one in asked.held]
        return [
            self.page(
                asked.id,
                number,
                last=number == pages - 1,
                available=available[number::pages],
                held=held if number == 0 else [],
                controls=self._orders() if number == pages - 1 else [],
            )
            for number in range(pages)
        ]

    def page(self, ref: str | None, number: int, *, last: bool, **items: Any) -> Snapshot:
        """One page."""
        epoch = len(self.record.visits)
        return Snapshot(
            id=frame_id(),
            ref=ref,
            page=number,
            last=last,
            connection_epoch=epoch,
            generation=self._generation,
            **items,
        )

    def _verdict(self, task_id: str, attempt_id: str) -> HeldTask:
        return HeldTask(task_id=task_id, attempt_id=attempt_id, valid=self.ledger.verdict(task_id, attempt_id))

    def _orders(self) -> list[TaskControl]:
        return [
            self.make.order(lease.frame.task_id, Control.INTERRUPT_REQUESTED, lease.generation)
            for lease in self.ledger.leases.values()
            if lease.interrupted and lease.live
        ]
