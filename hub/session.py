"""One desktop's connection after authentication.

The reader never waits for the backend: commands and hints only say what is wanted, and one worker at a time, alive
while something is, greets, takes snapshots and fetches grants, in this order.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Protocol
from uuid import UUID

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State

from domain.errors import GivewayError, Unauthorized
from domain.hub_port import ClientIdentity, GrantRequest, HeartbeatRecord, HubBackend
from domain.ids import new_uuid
from domain.legacy import TaskId
from domain.protocol import (
    Authenticate,
    ClientAck,
    CloseCode,
    ErrorCode,
    ErrorFrame,
    Feature,
    Heartbeat,
    HeldAttempt,
    Hello,
    ProxyResponse,
    ServerAck,
    Sync,
    TaskAvailable,
    TaskControl,
)
from hub.frames import FrameRefused, parse_client_frame, snapshot_pages
from hub.granting import Granter
from hub.outgoing import FrameQueue
from hub.ports import Limits
from hub.proxying import ProxyCalls
from hub.turns import Turns

log = logging.getLogger(__name__)

FIRST_PAUSE: Final = 0.2
# What somebody else holds is asked for again: a folded heartbeat holds its clients for some 10 ms.
BUSY_SECONDS: Final = 0.01
# Of a connection that has not been greeted: lower than every epoch.
NO_EPOCH: Final = 0


class Surroundings(Protocol):
    """What a session needs of its hub."""

    backend: HubBackend
    limits: Limits
    turns: Turns
    grants: Granter

    async def enter(self, session: "Session") -> None:
        """The session has its epoch: replace older ones, here and elsewhere, and bind the client."""
        ...

    def beat(self, record: HeartbeatRecord) -> None:
        """Fold a heartbeat."""
        ...

    def pushed(self, tasks: Sequence[UUID]) -> None:
        """Report frames that were written."""
        ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """A snapshot to send; `ref` names the command it answers, None a snapshot of the hub's own accord.

    `first`: the one that a greeting ends with.
    """

    ref: str | None
    generation: int
    first: bool = False


class Session:
    """A client's connection; `epoch` is NO_EPOCH until the greeting is done."""

    # There are 10,000 of them.
    __slots__ = (
        "_closing",
        "_generation",
        "_held",
        "_hello",
        "_hints",
        "_hub",
        "_proxies",
        "_queue",
        "_socket",
        "_told",
        "_wanted",
        "_worker",
        "client",
        "epoch",
    )

    def __init__(self, socket: ServerConnection, client: ClientIdentity, hub: Surroundings) -> None:
        self.client = client
        self.epoch = NO_EPOCH
        self._socket = socket
        self._hub = hub
        self._queue = FrameQueue(socket, hub.limits, self)
        self._hello: Hello | None = None
        self._wanted: Wanted | None = None
        self._hints: dict[TaskId, None] = {}
        # What the client has, as far as it said or was told since.
        self._held: dict[str, HeldAttempt] = {}
        # Attempts that the server ended and this client was told of.
        self._told: frozenset[UUID] = frozenset()
        # Whether the client can be asked, until it has to be; then its calls.
        self._proxies: ProxyCalls | bool = False
        self._generation = 0
        self._worker: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    @property
    def close_code(self) -> int | None:
        """The code that the connection ended with; None while it is open."""
        return self._socket.close_code

    # --- from the hub ---------------------------------------------------------------------------------------------

    def hint(self, task_id: TaskId) -> None:
        """A task waits for its lease; hints that come while a grant is in flight are fetched together by the next."""
        self._hints[task_id] = None
        self._wake()

    def order(self, control: TaskControl) -> None:
        """Pass an order on at once."""
        if self.epoch != NO_EPOCH:
            self._queue.put(control)

    def proxy_hint(self, call_id: UUID) -> None:
        """An HTTP call waits for the client; before the greeting is done, the snapshot will bring it."""
        if self.epoch != NO_EPOCH:
            self._calls().hint(call_id)
            self._wake()

    def resync(self) -> None:
        """Send a snapshot: hints may have been lost."""
        if self.epoch != NO_EPOCH and self._wanted is None:
            self._wanted = Wanted(None, self._generation)
            self._wake()

    def taken_away(self, attempts: frozenset[UUID]) -> None:
        """The client lists attempts whose lease is over: a snapshot tells it, once. It may need a while to stop."""
        if not attempts <= self._told:
            self.resync()
        self._told = attempts

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

    def written(self, tasks: Sequence[UUID]) -> None:
        """The frames of these tasks are out."""
        self._hub.pushed(tasks)

    def overflown(self) -> None:
        """More than the bound waits for the client."""
        log.warning("client %s does not read: closed", self.client.client_id)
        self.close(CloseCode.SLOW_CONSUMER, "reads too slowly")

    # --- from the client ------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Read until the connection ends, for whatever reason; returns when nothing of it runs any more."""
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
        """Its headers are 2 KB a connection for as long as it lasts, the token among them."""
        for message in (self._socket.request, self._socket.response):
            if message is not None:
                message.headers.clear()

    async def _settle(self) -> None:
        # A greeting in flight is waited for: its epoch must be known to be ended.
        tasks = [task for task in (self._worker, self._closing) if task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=self._hub.limits.drain_seconds)
            for task in late:
                task.cancel()

    def _expect_hello(self) -> None:
        if self._hello is None and self.epoch == NO_EPOCH:
            self.close(CloseCode.AUTHENTICATION_TIMEOUT, "no hello came")

    def _receive(self, data: str | bytes) -> None:
        try:
            frame = parse_client_frame(data)
        except FrameRefused as refused:
            if refused.close is None:
                self._error(refused.ref, ErrorCode.INVALID_FRAME, refused.reason)
            else:
                self.close(refused.close, refused.reason)
            return
        match frame:
            case Hello():
                self._receive_hello(frame)
            case Sync():
                self._receive_sync(frame)
            case Heartbeat():
                self._receive_heartbeat(frame)
            case Authenticate():
                self._error(frame.id, ErrorCode.ALREADY_AUTHENTICATED, "this connection has its client")
            case ProxyResponse():
                self._receive_answer(frame)
            case ClientAck():
                pass

    def _receive_hello(self, hello: Hello) -> None:
        if hello.protocol != self._socket.subprotocol:
            self.close(CloseCode.PROTOCOL_VERSION, f"this connection speaks {self._socket.subprotocol}")
        elif self._hello is not None or self.epoch != NO_EPOCH:
            self._error(hello.id, ErrorCode.ALREADY_GREETED, "send sync for a snapshot")
        else:
            self._hello, self._proxies = hello, Feature.PROXY in hello.features
            self._note_held(hello.held)
            self._wake()

    def _receive_sync(self, sync: Sync) -> None:
        if self.epoch == NO_EPOCH:
            self._error(sync.id, ErrorCode.HELLO_REQUIRED, "say hello first")
            return
        if self._wanted is not None and self._wanted.ref is not None:
            # The newer one's snapshot answers both.
            self._queue.put(ServerAck(id=_id(), ref=self._wanted.ref))
        self._note_held(sync.held)
        self._wanted = Wanted(sync.id, sync.highest_generation)
        self._wake()

    def _receive_heartbeat(self, beat: Heartbeat) -> None:
        self._queue.put(ServerAck(id=_id(), ref=beat.id))
        self._note_held([*beat.running, *beat.queued])
        if self.epoch != NO_EPOCH:
            self._hub.beat(HeartbeatRecord(self.client.client_id, self.epoch, beat))

    def _receive_answer(self, answer: ProxyResponse) -> None:
        if self.epoch == NO_EPOCH:
            self._error(answer.id, ErrorCode.HELLO_REQUIRED, "say hello first")
        elif self._calls().answered(answer):
            self._wake()
        else:
            self.close(CloseCode.TOO_MANY_FRAMES, "too many answers at once")

    def _calls(self) -> ProxyCalls:
        if isinstance(self._proxies, bool):
            self._proxies = ProxyCalls(self._hub.backend, self.client, self._queue, self._proxies)
        return self._proxies

    def _note_held(self, held: Sequence[HeldAttempt]) -> None:
        self._held = {attempt.task_id: attempt for attempt in held}

    def _error(self, ref: str | None, code: ErrorCode, message: str) -> None:
        self._queue.put(ErrorFrame(id=_id(), ref=ref, code=code, message=message))

    # --- the worker -----------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        if self._worker is None and self._closing is None:
            self._worker = asyncio.create_task(self._work())

    def _next_step(self) -> Callable[[], Awaitable[None]] | None:
        if self._is_over():
            return None
        if self._hello is not None:
            return self._greet
        if self.epoch == NO_EPOCH:
            return None
        if self._wanted is not None:
            return self._snapshot
        if self._hints:
            return self._grant
        return self._proxy if isinstance(self._proxies, ProxyCalls) and self._proxies.pending else None

    def _is_over(self) -> bool:
        return self._closing is not None or self._socket.state is not State.OPEN

    async def _work(self) -> None:
        pause = FIRST_PAUSE
        try:
            while (step := self._next_step()) is not None:
                try:
                    await step()
                    pause = FIRST_PAUSE
                except Exception as error:
                    self._failed(error)
                    await self._rest(pause)
                    pause = min(pause * 2, self._hub.limits.longest_pause)
        finally:
            self._worker = None

    async def _rest(self, seconds: float) -> None:
        """Wait, but no longer than the connection lasts."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._socket.wait_closed()

    def _failed(self, error: Exception) -> None:
        """The command is answered with an error now; what it wanted follows once the backend is back."""
        ref = self._hello.id if self._hello is not None else self._wanted.ref if self._wanted is not None else None
        if isinstance(error, Unauthorized):
            self.close(CloseCode.REVOKED, "the token was revoked")
            return
        if isinstance(error, GivewayError | OSError | TimeoutError):
            log.warning("client %s waits for the backend: %r", self.client.client_id, error)
            code = ErrorCode.of(error) if isinstance(error, GivewayError) else ErrorCode.DATABASE_UNAVAILABLE
        else:
            log.error("client %s: the backend failed", self.client.client_id, exc_info=error)
            code = ErrorCode.INTERNAL_ERROR
        if ref is not None:
            self._error(ref, code, "the snapshot follows as soon as possible")
        if self._wanted is not None:
            self._wanted = replace(self._wanted, ref=None)

    async def _greet(self) -> None:
        assert self._hello is not None
        hello = self._hello
        async with self._hub.turns.take(begun=True):
            if self._is_over():
                # It has not waited for its turn; whoever comes after it need not wait for its statements.
                return
            epoch = await self._hub.backend.connected(self.client, hello)
        self.epoch, self._hello, self._generation = epoch, None, hello.highest_generation
        self._wanted = Wanted(hello.id, hello.highest_generation, first=True)
        # Bound before the snapshot is read, so that nothing falls between the two.
        await self._hub.enter(self)

    async def _snapshot(self) -> None:
        assert self._wanted is not None
        # Taken before the read: a resync or sync that comes during it wants another one. The hints are covered.
        wanted, self._wanted = self._wanted, None
        covered, self._hints = self._hints, {}
        self._generation = wanted.generation
        try:
            async with self._hub.turns.take(begun=wanted.first):
                if self._is_over():
                    return
                content = await self._hub.backend.snapshot(
                    self.client, self.epoch, list(self._held.values()), wanted.generation
                )
        except Exception:
            self._hints = covered | self._hints
            self._want_again(wanted)
            raise
        if content.proxies:
            content = replace(content, proxies=self._calls().offered(content.proxies))
        for page in snapshot_pages(content, wanted.ref, self.epoch):
            await self._queue.room()
            self._queue.put(page, self._note_given(page.available))

    def _want_again(self, wanted: Wanted) -> None:
        newer, self._wanted = self._wanted, self._wanted or wanted
        if newer is not None and wanted.ref is not None:
            self._queue.put(ServerAck(id=_id(), ref=wanted.ref))

    async def _grant(self) -> None:
        hints, self._hints = self._hints, {}
        try:
            answer = await self._hub.grants.ask(GrantRequest(self.client, self.epoch, tuple(hints)))
        except Exception:
            # It may have been committed, its tokens lost with the answer: only a snapshot leases those tasks anew.
            self._wanted = self._wanted or Wanted(None, self._generation)
            raise
        for frame in answer.frames:
            self._queue.put(frame, self._note_given([frame]))
        if answer.busy:
            self._hints = dict.fromkeys(answer.busy) | self._hints
            await asyncio.sleep(BUSY_SECONDS)

    async def _proxy(self) -> None:
        await self._calls().work(self.epoch)

    def _note_given(self, frames: Sequence[TaskAvailable]) -> list[UUID]:
        """The execution tasks among the frames, which the client holds from now on; an offer gives it nothing yet."""
        given = [frame for frame in frames if not frame.is_offer]
        for frame in given:
            self._held[frame.task_id] = HeldAttempt(task_id=frame.task_id, attempt_id=frame.attempt_id, state="queued")
        return [UUID(frame.task_id) for frame in given]


def _id() -> str:
    return str(new_uuid())
