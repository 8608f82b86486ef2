"""The load of the hub benchmark: many desktops in one lean process, on the library's protocol without its I/O.

They authenticate, greet, beat every 10 s, answer pings and note when a pushed frame came; they ask for nothing else, so
that measuring takes as little as possible from the machine that is measured.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final, cast

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from bench.hub_child import footprint, run_child, say, serve_questions
from bench.hub_frames import read_frame
from domain.protocol import HEARTBEAT_SECONDS, MAX_FRAME_BYTES, SUBPROTOCOL, Heartbeat, Hello, encode

# Connections under way at once, about what a listening socket's queue is for.
AT_ONCE: Final = 64
TICK_SECONDS: Final = 0.05
GREETED_SECONDS: Final = 120.0
SESSIONS: Final = {"openai": "healthy", "doubao": "healthy"}
HELLO: Final = encode(Hello(id="h1", version="bench", platform_sessions=SESSIONS)).encode()
BEAT: Final = encode(Heartbeat(id="b1", platform_sessions=SESSIONS)).encode()


class Arrivals:
    """When pushed frames came: orders with the publisher's stamp as milliseconds, tasks by id as the clock."""

    def __init__(self) -> None:
        self.milliseconds: defaultdict[str, list[float]] = defaultdict(list)
        self.tasks: dict[str, int] = {}

    def note(self, data: bytes) -> bool:
        """Note one; True for the end of a snapshot."""
        came, frame = time.monotonic_ns(), read_frame(data)
        if frame.type in ("task_control", "task_available"):
            if frame.reason is not None:
                self.milliseconds[frame.type].append((came - int(frame.reason)) / 1e6)
            elif frame.task_id is not None:
                self.tasks[frame.task_id] = came
        return frame.type == "snapshot" and frame.last


class Desk(asyncio.Protocol):
    """One desktop's socket."""

    __slots__ = ("_arrivals", "_protocol", "_token", "greeted", "transport")

    def __init__(self, url: str, token: str, arrivals: Arrivals) -> None:
        self._protocol = ClientProtocol(
            parse_uri(url), subprotocols=[Subprotocol(SUBPROTOCOL)], max_size=MAX_FRAME_BYTES
        )
        self._token = token
        self._arrivals = arrivals
        self.greeted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the upgrade."""
        # Not a subclass in uvloop.
        self.transport = cast(asyncio.Transport, transport)
        request = self._protocol.connect()
        request.headers["Authorization"] = f"Bearer {self._token}"
        self._protocol.send_request(request)
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Frames, and the answers to pings that the protocol gives by itself."""
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if isinstance(event, Response):
                self._upgraded()
            elif isinstance(event, Frame) and event.opcode is Opcode.TEXT and self._arrivals.note(bytes(event.data)):
                self._greeted()
        self._flush()

    def _upgraded(self) -> None:
        if self._protocol.handshake_exc is not None:
            self._fail(self._protocol.handshake_exc)
        else:
            self._protocol.send_text(HELLO)

    def _greeted(self) -> None:
        if not self.greeted.done():
            self.greeted.set_result(None)

    def _fail(self, error: Exception) -> None:
        if not self.greeted.done():
            self.greeted.set_exception(error)

    def connection_lost(self, error: Exception | None) -> None:
        """Before the greeting it fails it."""
        self.transport = None
        self._fail(ConnectionError(f"closed with {self._protocol.close_code}"))

    @property
    def is_open(self) -> bool:
        """Whether frames can be sent."""
        return self.transport is not None and not self.transport.is_closing()

    def beat(self) -> None:
        """Send a heartbeat, if the socket is still there."""
        if self.is_open and self.greeted.done():
            self._protocol.send_text(BEAT)
            self._flush()

    def _flush(self) -> None:
        assert self.transport is not None
        for data in self._protocol.data_to_send():
            if data:
                self.transport.write(data)


class Load:
    """All desktops of the process."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._url: str = given["url"]
        self._desks: list[Desk] = []
        self._arrivals = Arrivals()
        self._room = asyncio.Semaphore(AT_ONCE)

    async def open(self, given: dict[str, Any]) -> dict[str, float]:
        """Connect and greet one desktop for each of `tokens`; the seconds that it took."""
        began = time.perf_counter()
        async with asyncio.timeout(GREETED_SECONDS + len(given["tokens"]) / 20):
            self._desks += await asyncio.gather(*map(self._open, given["tokens"]))
        return {"seconds": time.perf_counter() - began}

    async def _open(self, token: str) -> Desk:
        desk = Desk(self._url, token, self._arrivals)
        where = parse_uri(self._url)
        async with self._room:
            await asyncio.get_running_loop().create_connection(lambda: desk, where.host, where.port)
            await desk.greeted
        return desk

    async def close(self, _: dict[str, Any]) -> dict[str, int]:
        """Cut them all."""
        desks, self._desks = self._desks, []
        for desk in desks:
            if desk.transport is not None:
                desk.transport.abort()
        return {"closed": len(desks)}

    async def arrivals(self, _: dict[str, Any]) -> dict[str, Any]:
        """What came since the last question, and how many sockets are open."""
        seen, self._arrivals = self._arrivals, Arrivals()
        for desk in self._desks:
            desk._arrivals = self._arrivals
        return {
            "milliseconds": seen.milliseconds,
            "tasks": seen.tasks,
            "open": sum(desk.is_open for desk in self._desks),
        }

    async def beat(self) -> None:
        """Every desktop each 10 s, evenly spread; a tick that is late sends what it missed."""
        loop = asyncio.get_running_loop()
        began, sent = loop.time(), 0.0
        turn = self._turns()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            passed = loop.time() - began
            began += passed
            sent += passed * len(self._desks) / HEARTBEAT_SECONDS
            while sent >= 1:
                sent -= 1
                next(turn)

    def _turns(self) -> Iterator[None]:
        place = 0
        while True:
            if self._desks:
                place = (place + 1) % len(self._desks)
                self._desks[place].beat()
            yield None


async def _main(given: dict[str, Any]) -> None:
    load = Load(given)
    beating = asyncio.create_task(load.beat())
    say("ready")
    answers = {"open": load.open, "close": load.close, "arrivals": load.arrivals, "footprint": footprint}
    try:
        await serve_questions(answers)
    finally:
        beating.cancel()


if __name__ == "__main__":
    run_child(_main)
