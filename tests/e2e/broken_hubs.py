"""Hubs that break one rule each: a proxy before the real one that changes a frame, a close code or an answer."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from domain.protocol import PATH, SUBPROTOCOL, CloseCode

Json = dict[str, Any]
ROOM = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Fault:
    """What is done wrong. `up` and `down` change a frame's object, or answer None to swallow it."""

    path: Callable[[str], str] = lambda path: path
    headers: Callable[[dict[str, str]], dict[str, str]] = lambda headers: headers
    versions: Callable[[list[str]], list[str]] = lambda versions: versions
    choose: Callable[[list[str], str | None], str | None] = lambda _offered, chosen: chosen
    up: Callable[[Json], Json | None] | None = None
    down: Callable[[Json], Json | None] | None = None
    # Sent to the client as the answer to such a frame, beside forwarding it.
    reply: Callable[[Json], Json | None] = lambda _frame: None
    close: Callable[[int], int] = lambda code: code
    close_delay: float = 0.0
    close_at_once: int | None = None
    close_on: str | None = None
    max_size: int = ROOM
    splits_fragments: bool = False
    answers_pings: bool = True
    rest: Callable[[httpx.Request, int, Json], tuple[int, Json]] = lambda _request, status, body: (status, body)


@dataclass(frozen=True, slots=True)
class BrokenHub:
    """Which check must notice which fault."""

    check: str
    how: str
    fault: Fault


class _Deaf(ServerProtocol):
    """Does not answer pings."""

    def recv_frame(self, frame: Frame) -> None:
        if frame.opcode is not Opcode.PING:
            super().recv_frame(frame)


class Proxy:
    """Before one hub, with one fault."""

    def __init__(self, upstream: str, fault: Fault) -> None:
        self._upstream = upstream
        self._fault = fault
        self._opened: dict[ServerConnection, ClientConnection] = {}

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        server = await serve(
            self._serve,
            "127.0.0.1",
            0,
            process_request=self._open_upstream,
            select_subprotocol=self._choose,
            create_connection=self._connection,
            compression=None,
            close_timeout=1,
        )
        async with server:
            yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}{PATH}"

    def _connection(self, protocol: ServerProtocol, server: Server, **options: Any) -> ServerConnection:
        kind = ServerProtocol if self._fault.answers_pings else _Deaf
        own = kind(
            subprotocols=[Subprotocol(SUBPROTOCOL)],
            select_subprotocol=lambda _protocol, offered: self._choose(connection, offered),
            max_size=self._fault.max_size,
        )
        connection = ServerConnection(own, server, **options)
        return connection

    async def _open_upstream(self, connection: ServerConnection, request: Request) -> Response | None:
        names = ("authorization",)
        headers = {name: value for name, value in request.headers.raw_items() if name.lower() in names}
        parts = urlsplit(request.path)
        if self._fault.path(request.path) != request.path and parts.query:
            headers = {"Authorization": "Bearer " + next(iter(parse_qs(parts.query).values()))[0]} | headers
        where = urlsplit(self._upstream)
        offered = self._fault.versions(_offered(request))
        try:
            self._opened[connection] = await connect(
                f"ws://{where.netloc}{self._fault.path(request.path)}",
                additional_headers=self._fault.headers(headers),
                subprotocols=[Subprotocol(one) for one in offered] or None,
                compression=None,
                max_size=ROOM,
                proxy=None,
            )
        except InvalidStatus as refused:
            return connection.respond(refused.response.status_code, "as the hub says\n")  # type: ignore[arg-type]
        return None

    def _choose(self, connection: ServerConnection, offered: Any) -> Subprotocol | None:
        upstream = self._opened.get(connection)
        chosen = self._fault.choose(list(offered), upstream.subprotocol if upstream else None)
        return None if chosen is None else Subprotocol(chosen)

    async def _serve(self, socket: ServerConnection) -> None:
        upstream = self._opened.pop(socket)
        if self._fault.close_at_once is not None:
            await socket.close(self._fault.close_at_once)
            await upstream.close()
            return
        back = asyncio.create_task(self._pump_down(socket, upstream))
        with suppress(ConnectionClosed):
            await self._pump_up(socket, upstream)
        await upstream.close()
        await back

    async def _pump_up(self, socket: ServerConnection, upstream: ClientConnection) -> None:
        while True:
            if self._fault.splits_fragments:
                async for piece in socket.recv_streaming():
                    await upstream.send(piece)
                continue
            data = await socket.recv()
            if self._fault.close_on is not None and isinstance(data, str) and self._fault.close_on in data:
                await socket.close(CloseCode.MALFORMED_FRAME)
            await self._forward(data, upstream, socket)

    async def _forward(self, data: str | bytes, upstream: ClientConnection, socket: ServerConnection) -> None:
        frame = _object(data)
        if frame is not None and (answer := self._fault.reply(frame)) is not None:
            await socket.send(json.dumps(answer))
        if frame is not None and self._fault.up is not None:
            changed = self._fault.up(frame)
            data = json.dumps(changed) if changed is not None else ""
        if data or frame is None:
            await upstream.send(data)

    async def _pump_down(self, socket: ServerConnection, upstream: ClientConnection) -> None:
        with suppress(ConnectionClosed):
            while True:
                data = await upstream.recv()
                frame = _object(data)
                if frame is None or self._fault.down is None:
                    await socket.send(data)
                elif (changed := self._fault.down(frame)) is not None:
                    await socket.send(json.dumps(changed))
        code = upstream.close_code or CloseCode.INTERNAL_ERROR
        await asyncio.sleep(self._fault.close_delay)
        await socket.close(self._fault.close(code if code not in (1005, 1006) else 1011))


class BrokenRest(httpx.AsyncHTTPTransport):
    """The real API with its answers changed."""

    def __init__(self, fault: Fault) -> None:
        # Building a TLS context takes longer than a check, and none is needed here.
        super().__init__(verify=False)
        self._fault = fault

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        body = await response.aread()
        with suppress(ValueError):
            status, changed = self._fault.rest(request, response.status_code, json.loads(body or b"{}"))
            body = json.dumps(changed).encode()
            kind = response.headers.get("content-type", "application/json")
            return httpx.Response(status, content=body, headers={"content-type": kind})
        return httpx.Response(response.status_code, content=body, headers={"content-type": "text/plain"})


def _offered(request: Request) -> list[str]:
    header = request.headers.get("Sec-WebSocket-Protocol", "")
    return [one.strip() for one in header.split(",") if one.strip()]


def _object(data: str | bytes) -> Json | None:
    try:
        found = json.loads(data)
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(data, str) else None


# --- faults -------------------------------------------------------------------------------------------------------


def closes(wrong: int, *right: int) -> Fault:
    """With another code."""
    return Fault(close=lambda code: wrong if code in right else code)


def swallows(kind: str) -> Fault:
    """Frames of a type never come."""
    return Fault(down=lambda frame: None if frame["type"] == kind else frame)


def forgives(code: str) -> Fault:
    """An ack instead of an error."""

    def down(frame: Json) -> Json:
        if frame["type"] == "error" and frame["code"] == code:
            return {"type": "ack", "id": "1", "ref": frame["ref"]}
        return frame

    return Fault(down=down)


def snapshot_with(**fields: Any) -> Fault:
    """Snapshots with other fields."""
    return Fault(down=lambda frame: {**frame, **fields} if frame["type"] == "snapshot" else frame)


def held_as(valid: bool) -> Fault:
    """The same verdict on everything."""

    def down(frame: Json) -> Json:
        return {**frame, "held": [{**one, "valid": valid} for one in frame.get("held", [])]}

    return Fault(down=lambda frame: down(frame) if frame["type"] == "snapshot" else frame)


def hello_as(**fields: Any) -> Fault:
    """What the client says in hello is not looked at."""
    return Fault(up=lambda frame: {**frame, **fields} if frame["type"] == "hello" else frame)


def task_with(**fields: Any) -> Fault:
    """Tasks with other fields."""

    def down(frame: Json) -> Json:
        if frame["type"] == "task_available":
            return {**frame, **fields}
        return {**frame, "available": [{**task, **fields} for task in frame["available"]]}

    return Fault(down=lambda frame: down(frame) if frame["type"] in ("task_available", "snapshot") else frame)


def answers(status: int, /, **body: Any) -> Callable[..., Fault]:
    """An answer of one status becomes another one, where the path ends so."""

    def of(wrong: int, path: str = "") -> Fault:
        def rest(request: httpx.Request, seen: int, found: Json) -> tuple[int, Json]:
            hit = seen == wrong and request.url.path.endswith(path)
            return (status, {**found, **body}) if hit else (seen, found)

        return Fault(rest=rest)

    return of


def lists_it_offline(request: httpx.Request, status: int, body: Json) -> tuple[int, Json]:
    return status, {**body, "items": [{**item, "online": False} for item in body["items"]]} if "items" in body else body


def always_new(_request: httpx.Request, status: int, body: Json) -> tuple[int, Json]:
    return status, {**body, "duplicate": False} if "duplicate" in body else body


LEASED = {"status": "in_progress", "lease_expires_at": "2999-01-01T00:00:00Z"}
CLOSE = CloseCode
BROKEN_HUBS = (
    BrokenHub("handshake.path", "takes any path", Fault(path=lambda _path: PATH)),
    BrokenHub("handshake.header", "names no version", Fault(choose=lambda _offered, _chosen: None)),
    BrokenHub("handshake.first_frame", "does not answer it", swallows("ack")),
    BrokenHub("handshake.token_in_url", "takes it", Fault(path=lambda path: path.partition("?")[0])),
    BrokenHub("handshake.no_token", "another code", closes(1008, CLOSE.UNAUTHENTICATED)),
    BrokenHub("handshake.wrong_token", "may come again", closes(CLOSE.SERVER_ERROR, CLOSE.UNAUTHENTICATED)),
    BrokenHub(
        "handshake.scheme",
        "takes any scheme",
        Fault(headers=lambda given: {name: value.replace("Basic", "Bearer") for name, value in given.items()}),
    ),
    BrokenHub("handshake.late_token", "another code", closes(1000, CLOSE.AUTHENTICATION_TIMEOUT)),
    BrokenHub("handshake.late_token", "no patience", Fault(close_at_once=CLOSE.AUTHENTICATION_TIMEOUT)),
    BrokenHub("handshake.late_hello", "no patience", Fault(close_at_once=CLOSE.AUTHENTICATION_TIMEOUT)),
    BrokenHub("version.none", "speaks it all the same", Fault(versions=lambda _versions: [SUBPROTOCOL])),
    BrokenHub("version.chosen", "takes the first", Fault(choose=lambda offered, _chosen: offered[0])),
    BrokenHub("version.hello", "does not look", hello_as(protocol=SUBPROTOCOL)),
    BrokenHub("pings.answered", "no pong", Fault(answers_pings=False)),
    BrokenHub("hello.snapshot", "counts pages from 1", snapshot_with(page=1)),
    BrokenHub("hello.snapshot", "never closes it", snapshot_with(last=False)),
    BrokenHub("hello.epoch", "always the same", snapshot_with(connection_epoch=1)),
    BrokenHub("hello.held", "believes anything", held_as(True)),
    BrokenHub("hello.held", "says nothing", snapshot_with(held=[])),
    BrokenHub("hello.twice", "acknowledges", forgives("already_greeted")),
    BrokenHub("hello.slots", "mends it", hello_as(max_concurrent=1)),
    BrokenHub("authenticate.twice", "acknowledges", forgives("already_authenticated")),
    BrokenHub("sync.early", "acknowledges", forgives("hello_required")),
    BrokenHub("sync.answered", "never closes it", snapshot_with(last=False)),
    BrokenHub("sync.overtaking", "forgets the older ones", swallows("ack")),
    BrokenHub("heartbeat.answered", "no answer", swallows("ack")),
    BrokenHub(
        "frames.receipt",
        "answers it",
        Fault(reply=lambda frame: {**frame, "ref": frame["id"]} if frame["type"] == "ack" else None),
    ),
    BrokenHub("frames.several", "forgets one", swallows("ack")),
    BrokenHub("frames.unknown_type", "another code", closes(CLOSE.MALFORMED_FRAME, CLOSE.UNKNOWN_TYPE)),
    BrokenHub("frames.malformed", "another code", closes(1007, CLOSE.MALFORMED_FRAME)),
    BrokenHub("frames.utf8", "the library's code", closes(1007, CLOSE.MALFORMED_FRAME)),
    BrokenHub("frames.binary", "another code", closes(1003, CLOSE.MALFORMED_FRAME)),
    BrokenHub("frames.too_large", "the library's code", closes(1009, CLOSE.FRAME_TOO_LARGE)),
    BrokenHub("frames.just_fits", "half the size", Fault(max_size=32 * 1024)),
    BrokenHub("frames.unknown_fields", "closes", Fault(close_on="field_of_tomorrow")),
    BrokenHub("frames.fragments", "takes each for a message", Fault(splits_fragments=True)),
    BrokenHub("frames.wrong_fields", "acknowledges", forgives("invalid_frame")),
    BrokenHub("frames.nul", "closes", Fault(close_on="\\u0000")),
    BrokenHub("client.replaced", "may come again", closes(CLOSE.SLOW_CONSUMER, CLOSE.REPLACED)),
    BrokenHub("client.stays_online", "marks it offline", Fault(rest=lists_it_offline)),
    BrokenHub("client.revoked", "another code", closes(CLOSE.REPLACED, CLOSE.REVOKED)),
    BrokenHub("client.revoked", "takes its time", Fault(close_delay=3.0)),
    BrokenHub("client.revoked_rest", "forbidden", answers(403)(401)),
    BrokenHub("rest.token", "another code", answers(401, code="go_away")(401)),
    BrokenHub("rest.unknown_task", "another status", answers(409)(404)),
    BrokenHub("rest.bodies", "another status", answers(400)(422)),
    BrokenHub("rest.bodies", "takes any type", answers(200)(415)),
    BrokenHub("rest.too_large", "another status", answers(422)(413)),
    BrokenHub("rest.no_answer", "takes it", answers(202)(422)),
    BrokenHub("rest.pull", "takes any count", answers(200)(422)),
    BrokenHub("rest.events", "is still there", answers(200)(410)),
    BrokenHub("lease.push", "another weight", task_with(lane_weight=0)),
    BrokenHub("lease.wrong_token", "takes any token", answers(200, **LEASED)(409)),
    BrokenHub("lease.result", "never a duplicate", Fault(rest=always_new)),
    BrokenHub("lease.unheld", "another word", answers(200, result="preempted")(200, "interrupt-ack")),
    BrokenHub("lease.cancel", "another word", answers(200, result="preempted")(200, "cancel")),
    BrokenHub("lease.reconnect", "leaves it out", snapshot_with(available=[])),
    BrokenHub("lease.held", "believes nothing", held_as(False)),
    BrokenHub("lease.late", "refuses it", answers(409)(202, "result")),
    BrokenHub("lease.no_slot", "has slots without end", answers(200, **LEASED)(409, "start")),
    BrokenHub("order.preempts", "follows stale ones", answers(200, result="preempted")(409, "interrupt-ack")),
)
