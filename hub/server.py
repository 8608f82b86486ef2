"""The hub: serves the WebSocket and holds everything together."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.frames import CloseCode as Standard

from domain.errors import GivewayError
from domain.hub_port import ClientIdentity, ConnectionEnd, HeartbeatRecord, HubBackend
from domain.protocol import CloseCode
from domain.transport import ClientClosed
from hub.connection import Entrance, HubConnection, connections_with, final_code
from hub.dispatch import dispatch
from hub.door import Door, Pace
from hub.draining import HURRIED_SECONDS, Drain
from hub.folding import Folder
from hub.granting import Granter
from hub.handshake import admit, check_path, turn_back
from hub.outgoing import WRITE_LIMIT, bound_kernel_buffers
from hub.ports import NO_EPOCH, DispatchSource, HubState, HubStatus, Limits, PublishControl
from hub.registry import Registry
from hub.session import Session
from hub.turns import Turns
from telemetry.families import OTHER
from telemetry.metrics import hub_closes, hub_connections, hub_greeting_latency

log = logging.getLogger(__name__)

BACKLOG: Final = 4096
_KNOWN_CODES: Final = frozenset([*Standard, *CloseCode])

# The library logs whole requests at DEBUG, tokens included: never below WARNING, whatever the root logger says.
_socket_log: Final = logging.getLogger("hub.websockets")
_socket_log.setLevel(logging.WARNING)


class Hub:
    """One hub instance. `start` and `stop`, or `serve` as a context; any number of hubs may run side by side."""

    def __init__(
        self,
        backend: HubBackend,
        dispatch_source: DispatchSource,
        *,
        publish_control: PublishControl,
        limits: Limits | None = None,
    ) -> None:
        self.backend = backend
        self.limits = limits or Limits()
        self.turns = Turns(self.limits.greetings_at_once)
        self.grants = Granter(backend)
        self._source = dispatch_source
        self._publish_control = publish_control
        self._registry = Registry()
        self._beats: Folder[UUID, HeartbeatRecord] = Folder(
            "heartbeats", self._hand_over_beats, delay=self.limits.heartbeat_fold_seconds
        )
        self._pushes: Folder[UUID, None] = Folder(
            "pushed", self._hand_over_pushes, delay=self.limits.pushed_fold_seconds
        )
        self._announcements: Folder[UUID, int] = Folder("announcements", self._announce)
        # By client and epoch: the late end of an older connection must not hide that of the newer one.
        self._ends: Folder[tuple[UUID, int], ConnectionEnd] = Folder("disconnected", self._hand_over_ends)
        self._door = Door(self.limits.max_pending)
        self._arriving: dict[Session, float] = {}
        self._server: Server | None = None
        self._port: int | None = None
        self._dispatcher: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._draining = False

    @property
    def connections(self) -> int:
        """Clients that are connected and greeted."""
        return len(self._registry)

    @property
    def state(self) -> HubState:
        """Whether new clients are welcome, and how many there are."""
        return HubState(self._status(), self.connections, len(self._door))

    def _status(self) -> HubStatus:
        if self._draining or self._server is None:
            return HubStatus.DRAINING
        return HubStatus.FULL if self._is_full() else HubStatus.READY

    def _is_full(self) -> bool:
        """Those at the door do not count: nobody knows who they are, and they must not keep out who is known."""
        server = self._server
        return server is not None and len(server.all_connections) - len(self._door) >= self.limits.max_connections

    @property
    def port(self) -> int:
        """The port it listens on, or listened on, also when 0 was asked for."""
        assert self._port is not None
        return self._port

    @asynccontextmanager
    async def serve(self, host: str, port: int) -> AsyncIterator["Hub"]:
        """Serve while entered."""
        await self.start(host, port)
        try:
            yield self
        finally:
            await self.stop()

    async def start(self, host: str, port: int) -> None:
        """Listen. OSError when the port is taken."""
        pace = Pace(self.limits.frames_per_second, self.limits.frames_burst)
        entrance = Entrance(self._door, pace, self.limits.header_bytes)
        self._server = await serve(
            self._handle,
            host,
            port,
            # A herd connects within milliseconds; what does not fit would wait a second and more for its next try.
            backlog=BACKLOG,
            process_request=check_path,
            create_connection=connections_with(entrance),
            server_header=None,
            # A deflate context costs more memory than everything else of a connection.
            compression=None,
            write_limit=WRITE_LIMIT,
            open_timeout=self.limits.handshake_seconds,
            ping_interval=self.limits.ping_interval,
            ping_timeout=self.limits.ping_timeout,
            close_timeout=self.limits.close_seconds,
            logger=_socket_log,
        )
        self._port = self._server.sockets[0].getsockname()[1]
        bound_kernel_buffers(self._server.sockets)
        self._dispatcher = asyncio.create_task(dispatch(self._source.messages(), self._registry), name="hub-dispatch")

    def hurry(self) -> None:
        """Cut a stop short, also one that is yet to come: everybody is closed at once, and nobody is waited for."""
        self._hurry.set()

    async def stop(self) -> None:
        """Close every connection with 1012 and hand over what is folded, within `drain_seconds`. Idempotent.

        Nobody is let in any more; those who are connected are served until it is their turn to go.
        """
        server = self._server
        if server is None or self._draining:
            return
        self._draining = True
        deadline = asyncio.get_running_loop().time() + self.limits.drain_seconds
        server.close(close_connections=False)
        self._door.shut_unopened()
        await Drain(server, self.limits, self._hurry).run()
        await self._end_dispatch()
        await self._report_the_rest(deadline)

    async def _end_dispatch(self) -> None:
        if self._dispatcher is not None:
            self._dispatcher.cancel()
            await asyncio.gather(self._dispatcher, return_exceptions=True)

    async def _report_the_rest(self, deadline: float) -> None:
        left = max(0.0, deadline - asyncio.get_running_loop().time())
        seconds = min(left, HURRIED_SECONDS) if self._hurry.is_set() else left
        folders = (self._pushes, self._beats, self._ends, self._announcements)
        await asyncio.gather(*(folder.finish(seconds) for folder in folders))

    # --- connections ----------------------------------------------------------------------------------------------

    async def _handle(self, socket: ServerConnection) -> None:
        assert isinstance(socket, HubConnection)
        client = await self._admit(socket)
        if client is None:
            return
        socket.authenticated()
        session = Session(socket, client, self)
        self._arriving[session] = socket.opened_at
        try:
            await session.run()
        finally:
            self._arriving.pop(session, None)
            await self._leave(session, final_code(socket))

    async def _admit(self, socket: ServerConnection) -> ClientIdentity | None:
        client = None
        if not self._is_full():
            client = await admit(socket, self.backend, self.limits.authentication_seconds, self.turns)
            if client is None:
                return None
        # Others may have taken the last place meanwhile.
        if self._is_full():
            await turn_back(socket, CloseCode.HUB_FULL, "no room here")
            return None
        return client

    async def enter(self, session: Session) -> None:
        """A session has its epoch: it replaces older ones, here and at the other hubs, and its client is bound."""
        replaced = self._registry.enter(session)
        hub_connections.set(len(self._registry))
        if (opened_at := self._arriving.pop(session, None)) is not None:
            hub_greeting_latency.observe((asyncio.get_running_loop().time() - opened_at) * 1000)
        if replaced is not None:
            replaced.close(CloseCode.REPLACED, "a newer connection of this client")
        if replaced is not session:
            self._announcements.add(session.client.client_id, session.epoch)
            await self._source.bind(session.client.client_id)

    async def _leave(self, session: Session, code: int) -> None:
        hub_closes.add(1, _shown(code))
        if session.epoch == NO_EPOCH:
            return
        client_id = session.client.client_id
        left = self._registry.leave(session)
        hub_connections.set(len(self._registry))
        self._ends.add((client_id, session.epoch), ConnectionEnd(client_id, session.epoch, code))
        # The queue of a hub that stops goes as a whole.
        if left and not self._draining:
            await self._source.unbind(client_id)

    # --- reports --------------------------------------------------------------------------------------------------

    def beat(self, record: HeartbeatRecord) -> None:
        """Fold a heartbeat."""
        self._beats.add(record.client_id, record)

    def pushed(self, tasks: Sequence[UUID]) -> None:
        """Fold a report of written frames."""
        for task_id in tasks:
            self._pushes.add(task_id, None)

    async def _hand_over_beats(self, beats: Mapping[UUID, HeartbeatRecord]) -> None:
        """Never raises: the next beat of each client says the same again, and leases outlast several."""
        records = list(beats.values())
        try:
            await self._hand_over(records)
        except (GivewayError, OSError, TimeoutError) as error:
            log.warning("%d heartbeats lost: %r", len(records), error)
        except Exception:
            log.exception("%d heartbeats refused; each is tried alone", len(records))
            await self._hand_over_singly(records)

    async def _hand_over_singly(self, records: Sequence[HeartbeatRecord]) -> None:
        for record in records:
            try:
                await self._hand_over([record])
            except Exception as error:
                log.error("heartbeat of client %s refused: %r", record.client_id, error)

    async def _hand_over(self, records: Sequence[HeartbeatRecord]) -> None:
        for client_id, attempts in (await self.backend.heartbeats(records)).items():
            session = self._registry.find(client_id)
            if session is not None:
                session.errands.taken_away(attempts)

    async def _hand_over_ends(self, ends: Mapping[tuple[UUID, int], ConnectionEnd]) -> None:
        await self.backend.disconnected(list(ends.values()))

    async def _hand_over_pushes(self, tasks: Mapping[UUID, None]) -> None:
        await self.backend.pushed(list(tasks))

    async def _announce(self, epochs: Mapping[UUID, int]) -> None:
        orders = [
            ClientClosed(client_id=str(client_id), code=CloseCode.REPLACED, epoch=epoch)
            for client_id, epoch in epochs.items()
        ]
        await asyncio.gather(*map(self._publish_control, orders))


def _shown(code: int) -> str:
    """A close code as a metric's label: a client may choose any of thousands."""
    return str(code) if code in _KNOWN_CODES else OTHER
