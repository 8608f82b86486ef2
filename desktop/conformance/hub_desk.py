"""A desktop's bookkeeping for the checks that need work: what it was given, and the calls about it."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack, suppress
from typing import Any, Final

import httpx
import msgspec
from websockets.exceptions import ConnectionClosed

from desktop.conformance.peer import Peer, fresh
from desktop.conformance.target import Target, ThrowAway, told
from desktop.conformance.verdict import CannotCheck, expect
from desktop.conformance.waiting import Signal
from domain import protocol
from domain.protocol import (
    AnyServerFrame,
    ClientAck,
    Control,
    Heartbeat,
    HeldAttempt,
    HeldTask,
    Hello,
    Snapshot,
    TaskAvailable,
    TaskControl,
)

SLOTS: Final = 2
BEAT: Final = protocol.HEARTBEAT_SECONDS / 2
# A body that any reader of answers takes for one.
ANSWER: Final = (
    '{"model":"conformance","choices":[{"index":0,"message":{"role":"assistant",'
    '"content":"This answer was written by the conformance suite."},"finish_reason":"stop"}]}'
)


def _any(_frame: TaskAvailable) -> bool:
    return True


class HubDesk:
    """One client on the hub under test, connected or not."""

    def __init__(self, target: Target, client: ThrowAway) -> None:
        self.client = client
        self.signal = Signal()
        # The newest lease of each task that waits here, by task id.
        self.waiting: dict[str, TaskAvailable] = {}
        self.running: dict[str, TaskAvailable] = {}
        self.controls: list[TaskControl] = []
        self.verdicts: dict[str, HeldTask] = {}
        self._target = target
        self._stack = AsyncExitStack()
        self._helpers: list[asyncio.Task[None]] = []

    # --- the connection ---------------------------------------------------------------------------------------

    async def connect(self, held: Iterable[TaskAvailable] = ()) -> list[Snapshot]:
        """Open a connection that names these attempts as held; the snapshot is noted."""
        self.verdicts.clear()
        peer = await self._stack.enter_async_context(self._target.peer(self.client.token))
        named = [self._held(frame) for frame in held]
        hello = Hello(id=fresh(), version="conformance", max_concurrent=SLOTS, held=named)
        await peer.send(hello)
        pages = await peer.pages(hello.id)
        for frame in [*peer.seen, *pages]:
            self._note(frame)
        self._helpers = [asyncio.create_task(self._read(peer)), asyncio.create_task(self._beat(peer))]
        return pages

    async def disconnect(self) -> None:
        """Close; nothing is given back."""
        helpers, self._helpers = self._helpers, []
        for helper in helpers:
            helper.cancel()
        await asyncio.gather(*helpers, return_exceptions=True)
        await self._stack.aclose()

    def _held(self, frame: TaskAvailable) -> HeldAttempt:
        running = frame.task_id in self.running
        state, phase = ("running", "WAITING") if running else ("queued", None)
        return HeldAttempt(task_id=frame.task_id, attempt_id=frame.attempt_id, state=state, phase=phase)

    async def _read(self, peer: Peer) -> None:
        with suppress(ConnectionClosed):
            while True:
                try:
                    frame = protocol.decode_server_frame(await peer.socket.recv())
                except msgspec.DecodeError:
                    # Of a later version, or broken: the checks of frames judge that.
                    continue
                self._note(frame)
                if isinstance(frame, TaskAvailable | TaskControl):
                    await peer.send(ClientAck(id=fresh(), ref=frame.id))

    async def _beat(self, peer: Peer) -> None:
        with suppress(ConnectionClosed):
            while True:
                running = [self._held(frame) for frame in self.running.values()]
                queued = [self._held(frame) for frame in self.waiting.values()]
                await peer.send(Heartbeat(id=fresh(), running=running, queued=queued))
                await asyncio.sleep(BEAT)

    def _note(self, frame: AnyServerFrame) -> None:
        match frame:
            case TaskAvailable():
                self._offered(frame)
            case TaskControl():
                self._ordered(frame)
            case Snapshot():
                for one in frame.available:
                    self._offered(one)
                for order in frame.controls:
                    self._ordered(order)
                self.verdicts |= {held.attempt_id: held for held in frame.held}
            case _:
                pass
        self.signal.changed()

    def _offered(self, frame: TaskAvailable) -> None:
        if not frame.is_offer and frame.task_id not in self.running:
            self.waiting[frame.task_id] = frame

    def _ordered(self, order: TaskControl) -> None:
        self.controls.append(order)
        if order.control is Control.CANCELED:
            self.waiting.pop(order.task_id, None)

    # --- work -------------------------------------------------------------------------------------------------

    async def next_task(self, what: str = "task", fits: Callable[[TaskAvailable], bool] = _any) -> TaskAvailable:
        """A task that waits here, once one does. CannotCheck when none comes."""

        def fitting() -> list[TaskAvailable]:
            return [frame for frame in self.waiting.values() if fits(frame)]

        seconds = self._target.pace.work
        if not await self.signal.comes(fitting, seconds):
            raise CannotCheck(f"no {what} came to the client within {seconds:g} s: is another desktop taking them?")
        return fitting()[0]

    async def tasks(self, count: int) -> list[TaskAvailable]:
        """So many tasks that wait here at once. CannotCheck when they do not come."""
        seconds = self._target.pace.work
        if not await self.signal.comes(lambda: len(self.waiting) >= count, seconds):
            why = f"{len(self.waiting)} of {count} tasks came to the client within {seconds:g} s"
            raise CannotCheck(f"{why}; it needs so many at once, on several platforms")
        return list(self.waiting.values())[:count]

    async def call(self, frame: TaskAvailable, action: str, **fields: Any) -> httpx.Response:
        """A call about the task with its lease token, unless the fields say otherwise."""
        body = {"lease_token": frame.lease_token, **fields}
        body = {name: value for name, value in body.items() if value is not None}
        return await self._target.task_call(self.client.token, f"{frame.task_id}/{action}", body)

    async def start(self, frame: TaskAvailable) -> dict[str, Any]:
        """Start it, which must succeed."""
        response = await self.call(frame, "start", phase="PREPARING")
        expect(response.status_code == 200, "200 to start", told(response))
        self.waiting.pop(frame.task_id, None)
        self.running[frame.task_id] = frame
        answer: dict[str, Any] = response.json()
        return answer

    async def answer(self, frame: TaskAvailable) -> httpx.Response:
        """Post a success; the task is off this desk."""
        response = await self.call(
            frame,
            "result",
            attempt_id=frame.attempt_id,
            outcome="succeeded",
            raw=ANSWER,
            content_type="application/json",
        )
        self.forget(frame)
        return response

    def forget(self, frame: TaskAvailable) -> None:
        """It is not here any more."""
        self.waiting.pop(frame.task_id, None)
        self.running.pop(frame.task_id, None)
