"""The hub: serves the WebSocket and holds everything together."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID

from websockets.asyncio.server import Server, ServerConnection, serve

from domain.errors import GivewayError
from domain.hub_port import HeartbeatRecord, HubBackend
from domain.protocol import CloseCode
from domain.transport import ClientClosed
from hub.dispatch import dispatch
from hub.folding import Folder
from hub.handshake import HubConnection, admit, check_path
from hub.ports import DispatchSource, Limits, PublishControl
from hub.registry import Registry
from hub.session import NO_EPOCH, Session
from telemetry.metrics import hub_connections

log = logging.getLogger(__name__)

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
        self.greetings = asyncio.Semaphore(self.limits.greetings_at_once)
        self._source = dispatch_source
        self._publish_control = publish_control
        self._registry = Registry()
        self._beats: Folder[UUID, HeartbeatRecord] = Folder(
            "heartbeats", self._hand_over_beats, delay=self.limits.heartbeat_fold_seconds
        )
        self._pushes: Folder[UUID, None] = Folder("pushed", self._hand_over_pushes)
        self._announcements: Folder[UUID, int] = Folder("announcements", self._announce)
        self._server: Server | None = None
        self._dispatcher: asyncio.Task[None] | None = None

    @property
    def connections(self) -> int:
        """Clients that are connected and greeted."""
        return len(self._registry)

    @property
    def port(self) -> int:
        """The port it listens on, also when 0 was asked for."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

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
        self._server = await serve(
            self._handle,
            host,
            port,
            process_request=check_path,
            create_connection=HubConnection,
            # A deflate context costs more memory than everything else of a connection.
            compression=None,
            open_timeout=self.limits.authentication_seconds,
            ping_interval=self.limits.ping_interval,
            ping_timeout=self.limits.ping_timeout,
            close_timeout=self.limits.close_seconds,
            logger=_socket_log,
        )
        self._dispatcher = asyncio.create_task(dispatch(self._source.messages(), self._registry), name="hub-dispatch")

    async def stop(self) -> None:
        """Close every connection with 1012 and hand over what is folded, within `drain_seconds`. Idempotent."""
        server, self._server = self._server, None
        if server is None:
            return
        deadline = asyncio.get_running_loop().time() + self.limits.drain_seconds
        if self._dispatcher is not None:
            self._dispatcher.cancel()
            await asyncio.gather(self._dispatcher, return_exceptions=True)
        server.close(code=CloseCode.SERVICE_RESTART, reason="service restart")
        await _until(deadline, server)
        for folder in (self._pushes, self._beats, self._announcements):
            await folder.finish(max(0.0, deadline - asyncio.get_running_loop().time()))

    # --- connections ----------------------------------------------------------------------------------------------

    async def _handle(self, socket: ServerConnection) -> None:
        client = await admit(socket, self.backend, self.limits.authentication_seconds)
        if client is None:
            return
        session = Session(socket, client, self)
        try:
            await session.run()
        finally:
            await self._leave(session)

    async def enter(self, session: Session) -> None:
        """A session has its epoch: it replaces older ones, here and at the other hubs, and its client is bound."""
        replaced = self._registry.enter(session)
        hub_connections.set(len(self._registry))
        if replaced is not None:
            replaced.close(CloseCode.REPLACED, "a newer connection of this client")
        if replaced is not session:
            self._announcements.add(session.client.client_id, session.epoch)
            await self._source.bind(session.client.client_id)

    async def _leave(self, session: Session) -> None:
        if session.epoch == NO_EPOCH:
            return
        client_id = session.client.client_id
        left = self._registry.leave(session)
        hub_connections.set(len(self._registry))
        if left and self._server is not None:
            await self._source.unbind(client_id)
        try:
            async with self.greetings:
                await self.backend.disconnected(client_id, session.epoch, session.close_code)
        except Exception as error:
            # The sweeper sees the silence.
            log.warning("client %s could not be marked offline: %r", client_id, error)

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
                session.taken_away(attempts)

    async def _hand_over_pushes(self, tasks: Mapping[UUID, None]) -> None:
        await self.backend.pushed(list(tasks))

    async def _announce(self, epochs: Mapping[UUID, int]) -> None:
        orders = [
            ClientClosed(client_id=str(client_id), code=CloseCode.REPLACED, epoch=epoch)
            for client_id, epoch in epochs.items()
        ]
        await asyncio.gather(*map(self._publish_control, orders))


async def _until(deadline: float, server: Server) -> None:
    try:
        async with asyncio.timeout_at(deadline):
            await server.wait_closed()
    except TimeoutError:
        log.warning("%d connections did not end in time", len(server.handler_tasks))
        for connection in list(server.all_connections):
            connection.transport.abort()
        for task in list(server.handler_tasks):
            task.cancel()
