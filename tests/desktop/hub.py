"""A small server that speaks the desktop's protocol over real sockets: `websockets` for the hub, uvicorn for REST.

It keeps leases in memory and answers as 2-desktop §2.2 says; the tests choose its troubles.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from domain import protocol
from domain.ids import new_uuid
from domain.protocol import (
    AnyClientFrame,
    ClientAck,
    ErrorFrame,
    Heartbeat,
    HeldTask,
    Hello,
    ProxyRequest,
    ProxyResponse,
    ServerAck,
    ServerFrame,
    Snapshot,
    Sync,
    TaskAvailable,
    TaskControl,
)
from tests.desktop.frames import NOON, interrupt
from tests.desktop.waiting import Signal

TOKEN = "device-token"


@dataclass
class Lease:
    """The server's side of one task."""

    frame: TaskAvailable
    status: str = "queued"
    generation: int = 0
    interrupted: bool = False
    valid: bool = True


@dataclass
class Call:
    """One REST call as it came."""

    task_id: str
    action: str
    body: dict[str, Any]
    size: int
    status: int = 0


@dataclass
class Hub:
    """State, troubles and the record of everything that came in."""

    leases: dict[str, Lease] = field(default_factory=dict)
    # Legacy tasks that a pull leases.
    offers: list[TaskAvailable] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    frames: list[AnyClientFrame] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)
    sockets: list[ServerConnection] = field(default_factory=list)
    connections: int = 0
    answers_hello: bool = True
    late_snapshot: bool = False
    acks_heartbeats: bool = True
    refuse_with: int | None = None
    controls: list[TaskControl] = field(default_factory=list)
    # HTTP calls that snapshots list, until they are answered.
    proxies: list[ProxyRequest] = field(default_factory=list)
    # Error codes to reply to answers with, first come first served; then acks.
    proxy_replies: list[str] = field(default_factory=list)
    # Answers to give instead of doing the call, by action, first come first served.
    troubles: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    signal: Signal = field(default_factory=Signal)
    ws_url: str = ""
    api_url: str = ""

    # --- what tests do ------------------------------------------------------------------------------------

    async def push(self, *frames: TaskAvailable) -> None:
        """Lease and push."""
        for frame in frames:
            self.leases[frame.task_id] = Lease(frame, generation=frame.interrupt_generation)
            await self.send(frame)

    async def offer(self, *frames: TaskAvailable) -> None:
        """Announce legacy tasks; a pull leases them with these frames."""
        for frame in frames:
            self.offers.append(frame)
            bare = msgspec.structs.replace(frame, attempt=0, attempt_id="", lease_token="", status="pending")
            await self.send(bare)

    async def order(self, order: TaskControl) -> None:
        """Note an interrupt in the lease and send it."""
        if (lease := self.leases.get(order.task_id)) is not None:
            lease.generation = max(lease.generation, order.interrupt_generation)
            lease.interrupted = order.control is protocol.Control.INTERRUPT_REQUESTED
        await self.send(order)

    async def send(self, frame: ServerFrame) -> None:
        await self.sockets[-1].send(protocol.encode(frame))

    async def connected(self, count: int = 1) -> None:
        await self.until(lambda: len(self.of(Hello)) >= count)

    async def until(self, condition: Callable[[], bool]) -> None:
        await self.signal.until(condition)

    def of(self, kind: type[Any]) -> list[Any]:
        return [frame for frame in self.frames if isinstance(frame, kind)]

    def called(self, action: str, task_id: str | None = None) -> list[Call]:
        return [call for call in self.calls if call.action == action and task_id in (None, call.task_id)]

    def trouble(self, action: str, *answers: tuple[int, str]) -> None:
        self.troubles.setdefault(action, []).extend(answers)

    # --- the hub ------------------------------------------------------------------------------------------

    async def serve_socket(self, socket: ServerConnection) -> None:
        self.connections += 1
        request = socket.request
        assert request is not None
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            await socket.close(protocol.CloseCode.UNAUTHENTICATED)
            return
        if self.refuse_with is not None:
            await socket.close(self.refuse_with)
            return
        self.sockets.append(socket)
        try:
            async for text in socket:
                await self._take(socket, protocol.decode_client_frame(text))
        except ConnectionClosed:
            pass

    async def _take(self, socket: ServerConnection, frame: AnyClientFrame) -> None:
        if isinstance(frame, Hello) and self.late_snapshot:
            error = ErrorFrame(id=str(new_uuid()), ref=frame.id, code="database_unavailable", message="later")
            await socket.send(protocol.encode(error))
        elif isinstance(frame, Hello | Sync) and self.answers_hello:
            for page in self._snapshot(frame):
                await socket.send(protocol.encode(page))
        if isinstance(frame, Heartbeat) and self.acks_heartbeats:
            await socket.send(protocol.encode(ServerAck(id=str(new_uuid()), ref=frame.id)))
        if isinstance(frame, ProxyResponse):
            await socket.send(protocol.encode(self._reply(frame)))
        self.frames.append(frame)
        self.signal.changed()

    def _reply(self, frame: ProxyResponse) -> ServerFrame:
        if self.proxy_replies:
            code = self.proxy_replies.pop(0)
            return ErrorFrame(id=str(new_uuid()), ref=frame.id, code=code, message="no")
        return ServerAck(id=str(new_uuid()), ref=frame.id)

    def _snapshot(self, asked: Hello | Sync) -> list[Snapshot]:
        """Two pages: what waits, then what is held and the pending orders."""
        listed = {held.task_id for held in asked.held}
        waiting = [x.frame for x in self.leases.values() if x.status == "queued" and x.frame.task_id not in listed]
        held = [HeldTask(task_id=h.task_id, attempt_id=h.attempt_id, valid=self._valid(h.task_id)) for h in asked.held]
        common: dict[str, Any] = {"ref": asked.id, "connection_epoch": self.connections, "generation": 0}
        return [
            Snapshot(id=str(new_uuid()), page=0, last=False, available=waiting, **common),
            Snapshot(
                id=str(new_uuid()), page=1, last=True, held=held, controls=self.controls, proxies=self.proxies, **common
            ),
        ]

    def _valid(self, task_id: str) -> bool:
        return task_id in self.leases and self.leases[task_id].valid

    # --- REST ---------------------------------------------------------------------------------------------

    async def call(self, task_id: str, action: str, request: Request) -> JSONResponse:
        raw = await request.body()
        call = Call(task_id, action, await request.json(), len(raw))
        answer = self._judge(call)
        call.status = answer.status_code
        self.calls.append(call)
        self.signal.changed()
        lease = self.leases.get(task_id)
        if call.status == 409 and action == "interrupt-ack" and lease is not None and lease.interrupted:
            await self.send(interrupt(task_id, lease.generation))
        return answer

    async def proxy(self, call_id: str, request: Request) -> JSONResponse:
        return await self.call(call_id, "proxy", request)

    async def pull(self, request: Request) -> JSONResponse:
        return await self.call("", "lease", request)

    def _lease_offers(self, count: int) -> JSONResponse:
        taken, self.offers = self.offers[:count], self.offers[count:]
        self.leases.update({frame.task_id: Lease(frame, generation=frame.interrupt_generation) for frame in taken})
        tasks = [msgspec.to_builtins(msgspec.structs.asdict(frame)) for frame in taken]
        return JSONResponse({"tasks": tasks, "remaining": len(self.offers)})

    def _judge(self, call: Call) -> JSONResponse:
        if self.troubles.get(call.action):
            return problem(*self.troubles[call.action].pop(0))
        if call.action == "lease":
            return self._lease_offers(call.body["count"])
        if call.action == "proxy":
            return JSONResponse({"call_id": call.task_id})
        lease = self.leases.get(call.task_id)
        token = call.body.get("lease_token")
        if call.action == "interrupt-ack" and token is None:
            return JSONResponse({"task_id": call.task_id, "result": "already_settled"})
        if lease is None:
            return problem(404, "not_found")
        if token != lease.frame.lease_token or not lease.valid:
            return problem(409, "lease_lost")
        return self._apply(call, lease)

    def _apply(self, call: Call, lease: Lease) -> JSONResponse:
        if call.action in ("start", "extend"):
            lease.status = "in_progress" if call.action == "start" else lease.status
            return JSONResponse(
                {
                    "task_id": call.task_id,
                    "status": lease.status,
                    "lease_expires_at": (NOON + timedelta(seconds=120)).isoformat(),
                    "interrupt_requested": lease.interrupted,
                    "interrupt_generation": lease.generation,
                }
            )
        if call.action == "result":
            return self._result(call, lease)
        if call.body["interrupt_generation"] < lease.generation:
            return problem(409, "stale_generation")
        requeued = lease.status == "queued"
        lease.status, lease.valid = "aborted", False
        return JSONResponse({"task_id": call.task_id, "result": "requeued" if requeued else "preempted"})

    def _result(self, call: Call, lease: Lease) -> JSONResponse:
        duplicate = lease.status == "done"
        if not duplicate:
            self.results.append(call.body)
        lease.status = "done"
        body = {"task_id": call.task_id, "attempt_id": call.body["attempt_id"], "duplicate": duplicate}
        return JSONResponse(body, status_code=202)


def problem(status: int, code: str) -> JSONResponse:
    """problem+json; the text names another code on purpose: nobody may read it."""
    body = {
        "type": f"urn:giveway:problem:{code}",
        "code": code,
        "title": "no",
        "status": status,
        "detail": "lease_lost no_slot stale_generation",
    }
    return JSONResponse(body, status_code=status, media_type="application/problem+json")


@asynccontextmanager
async def running_hub() -> AsyncIterator[Hub]:
    """The hub on two free ports."""
    hub = Hub()
    async with serve(
        hub.serve_socket, "127.0.0.1", 0, subprotocols=[Subprotocol(protocol.SUBPROTOCOL)], close_timeout=1
    ) as server:
        hub.ws_url = f"ws://127.0.0.1:{port_of(server)}{protocol.PATH}"
        async with _rest(hub) as api_url:
            hub.api_url = api_url
            yield hub


def port_of(server: Server) -> int:
    return int(next(iter(server.sockets)).getsockname()[1])


@asynccontextmanager
async def _rest(hub: Hub) -> AsyncIterator[str]:
    app = FastAPI()
    app.post("/api/desktop/tasks/lease")(hub.pull)
    app.post("/api/desktop/tasks/{task_id}/{action}")(hub.call)
    app.post("/api/desktop/proxy/{call_id}")(hub.proxy)
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
        listening.close()


__all__ = ["TOKEN", "ClientAck", "Hub", "problem", "running_hub"]
