"""What one connection wants of the backend: its greeting, snapshots, leases, HTTP calls.

Nobody waits here: frames and hints only say what is wanted. One worker at a time, alive while something is, does it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol
from uuid import UUID

from domain.errors import GivewayError, Unauthorized
from domain.hub_port import ClientIdentity, GrantRequest, HubBackend
from domain.legacy import TaskId
from domain.protocol import CloseCode, ErrorCode, Feature, HeldAttempt, Hello, ProxyResponse, Sync, TaskAvailable
from hub.frames import ack, error_reply, snapshot_pages
from hub.granting import Granter
from hub.outgoing import FrameQueue
from hub.ports import NO_EPOCH, Limits
from hub.proxying import ProxyCalls
from hub.turns import Turns

log = logging.getLogger(__name__)

FIRST_PAUSE: Final = 0.2
# What somebody else holds is asked for again: a folded heartbeat holds its clients for some 10 ms.
BUSY_SECONDS: Final = 0.01


class Services(Protocol):
    """What errands need of the hub."""

    backend: HubBackend
    limits: Limits
    turns: Turns
    grants: Granter


class Connected(Protocol):
    """What errands need of their connection."""

    client: ClientIdentity
    epoch: int

    @property
    def is_over(self) -> bool:
        """Nothing reaches the client any more."""
        ...

    async def entered(self, epoch: int) -> None:
        """The greeting gave it its epoch; returns once what is published for the client arrives here."""
        ...

    async def rest(self, seconds: float) -> None:
        """Wait, but no longer than the connection lasts."""
        ...

    def close(self, code: CloseCode | int, reason: str) -> None:
        """Close with a code, without waiting."""
        ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """A snapshot to send; `ref` names the command it answers, None a snapshot of the hub's own accord.

    `first`: the one that a greeting ends with.
    """

    ref: str | None
    generation: int
    first: bool = False


class Errands:
    """Of one connection."""

    # There are 10,000 of them.
    __slots__ = (
        "_connection",
        "_generation",
        "_held",
        "_hello",
        "_hints",
        "_proxies",
        "_queue",
        "_services",
        "_told",
        "_wanted",
        "worker",
    )

    def __init__(self, connection: Connected, queue: FrameQueue, services: Services) -> None:
        self._connection = connection
        self._queue = queue
        self._services = services
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
        self.worker: asyncio.Task[None] | None = None

    # --- what is wanted -------------------------------------------------------------------------------------------

    @property
    def greeted(self) -> bool:
        """Whether hello has come; the greeting may be under way."""
        return self._hello is not None or self._connection.epoch != NO_EPOCH

    def greet(self, hello: Hello) -> None:
        """The client's first word."""
        self._hello, self._proxies = hello, Feature.PROXY in hello.features
        self.note_held(hello.held)
        self._wake()

    def note_held(self, held: Sequence[HeldAttempt]) -> None:
        """What the client says it has."""
        self._held = {attempt.task_id: attempt for attempt in held}

    def sync(self, sync: Sync) -> None:
        """The client wants a snapshot."""
        if self._wanted is not None and self._wanted.ref is not None:
            # The newer one's snapshot answers both.
            self._queue.put(ack(self._wanted.ref))
        self.note_held(sync.held)
        self._wanted = Wanted(sync.id, sync.highest_generation)
        self._wake()

    def resync(self) -> None:
        """Send a snapshot: hints may have been lost."""
        if self._connection.epoch != NO_EPOCH and self._wanted is None:
            self._wanted = Wanted(None, self._generation)
            self._wake()

    def taken_away(self, attempts: frozenset[UUID]) -> None:
        """The client lists attempts whose lease is over: a snapshot tells it, once. It may need a while to stop."""
        if not attempts <= self._told:
            self.resync()
        self._told = attempts

    def hint(self, task_id: TaskId) -> None:
        """A task waits for its lease; hints that come while a grant is in flight are fetched together by the next."""
        self._hints[task_id] = None
        self._wake()

    def proxy_hint(self, call_id: UUID) -> None:
        """An HTTP call waits for the client; before the greeting is done, the snapshot will bring it."""
        if self._connection.epoch != NO_EPOCH:
            self._calls().hint(call_id)
            self._wake()

    def answered(self, answer: ProxyResponse) -> bool:
        """What became of a call; False: the client sends more of them than are taken."""
        taken = self._calls().answered(answer)
        self._wake()
        return taken

    def _calls(self) -> ProxyCalls:
        if isinstance(self._proxies, bool):
            backend, client = self._services.backend, self._connection.client
            self._proxies = ProxyCalls(backend, client, self._queue, self._proxies)
        return self._proxies

    # --- the worker -----------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        if self.worker is None and not self._connection.is_over:
            self.worker = asyncio.create_task(self._work())

    def _next_step(self) -> Callable[[], Awaitable[None]] | None:
        if self._connection.is_over:
            return None
        if self._hello is not None:
            return self._greet
        if self._connection.epoch == NO_EPOCH:
            return None
        if self._wanted is not None:
            return self._snapshot
        # Before the grants, which may be asked for over and over while somebody else holds a task.
        if isinstance(self._proxies, ProxyCalls) and self._proxies.pending:
            return self._proxy
        return self._grant if self._hints else None

    async def _work(self) -> None:
        pause = FIRST_PAUSE
        try:
            while (step := self._next_step()) is not None:
                try:
                    await step()
                    pause = FIRST_PAUSE
                except Exception as error:
                    self._failed(error)
                    await self._connection.rest(pause)
                    pause = min(pause * 2, self._services.limits.longest_pause)
        finally:
            self.worker = None

    def _failed(self, error: Exception) -> None:
        """The command is answered with an error now; what it wanted follows once the backend is back."""
        if isinstance(error, Unauthorized):
            self._connection.close(CloseCode.REVOKED, "the token was revoked")
            return
        ref = self._hello.id if self._hello is not None else self._wanted.ref if self._wanted is not None else None
        code = self._code_of(error)
        if ref is not None:
            self._queue.put(error_reply(ref, code, "the snapshot follows as soon as possible"))
        if self._wanted is not None:
            self._wanted = replace(self._wanted, ref=None)

    def _code_of(self, error: Exception) -> ErrorCode:
        client_id = self._connection.client.client_id
        if isinstance(error, GivewayError | OSError | TimeoutError):
            log.warning("client %s waits for the backend: %r", client_id, error)
            return ErrorCode.of(error) if isinstance(error, GivewayError) else ErrorCode.DATABASE_UNAVAILABLE
        log.error("client %s: the backend failed", client_id, exc_info=error)
        return ErrorCode.INTERNAL_ERROR

    async def _greet(self) -> None:
        assert self._hello is not None
        hello = self._hello
        async with self._services.turns.take(begun=True):
            if self._connection.is_over:
                # It has not waited for its turn; whoever comes after it need not wait for its statements.
                return
            epoch = await self._services.backend.connected(self._connection.client, hello)
        self._hello, self._generation = None, hello.highest_generation
        self._wanted = Wanted(hello.id, hello.highest_generation, first=True)
        # Bound before the snapshot is read, so that nothing falls between the two.
        await self._connection.entered(epoch)

    async def _snapshot(self) -> None:
        assert self._wanted is not None
        # Taken before the read: a resync or sync that comes during it wants another one. The hints so far are covered.
        wanted, self._wanted = self._wanted, None
        self._hints = {}
        self._generation = wanted.generation
        client, epoch = self._connection.client, self._connection.epoch
        try:
            async with self._services.turns.take(begun=wanted.first):
                if self._connection.is_over:
                    return
                held = list(self._held.values())
                content = await self._services.backend.snapshot(client, epoch, held, wanted.generation)
        except Exception:
            self._want_again(wanted)
            raise
        if content.proxies:
            content = replace(content, proxies=self._calls().offered(content.proxies))
        for page in snapshot_pages(content, wanted.ref, epoch):
            await self._queue.room()
            self._queue.put(page, self._note_given(page.available))

    def _want_again(self, wanted: Wanted) -> None:
        newer, self._wanted = self._wanted, self._wanted or wanted
        if newer is not None and wanted.ref is not None:
            self._queue.put(ack(wanted.ref))

    async def _grant(self) -> None:
        hints, self._hints = self._hints, {}
        request = GrantRequest(self._connection.client, self._connection.epoch, tuple(hints))
        try:
            answer = await self._services.grants.ask(request)
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
        await self._calls().work(self._connection.epoch)

    def _note_given(self, frames: Sequence[TaskAvailable]) -> list[UUID]:
        """The execution tasks among the frames, which the client holds from now on; an offer gives it nothing yet."""
        given = [frame for frame in frames if not frame.is_offer]
        for frame in given:
            self._held[frame.task_id] = HeldAttempt(task_id=frame.task_id, attempt_id=frame.attempt_id, state="queued")
        return [UUID(frame.task_id) for frame in given]
