"""The reconnecting WebSocket of one desktop (2-desktop §2.1).

Every end of a socket leads to a new one after a jittered wait, except the close codes 4500–4999 and a refused token,
which say that trying again is useless.
"""

import asyncio
import logging
import time
from contextlib import suppress
from datetime import UTC, datetime
from http import HTTPStatus
from ipaddress import ip_address
from random import Random
from typing import Final
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.typing import Subprotocol

from desktop.config import DesktopConfig
from desktop.events import EventKind, Reporter
from desktop.reconnect import Ended, Reconnect, retry_after
from desktop.session import Link, Session
from domain import protocol
from domain.protocol import ClientFrame, CloseCode
from domain.protocol_catalogue import FINAL_CODES

log = logging.getLogger(__name__)

FINAL_STATUSES: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
LOST: Final = 1006


class ConnectionRefused(Exception):
    """The hub does not want this desktop: do not connect again. `code` is the close code, or the HTTP status."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code} {name_of(code)}: {reason}")
        self.code = code
        self.reason = reason


class Connection:
    """One desktop's socket; `run` keeps it open until `close` or a refusal."""

    def __init__(self, config: DesktopConfig, link: Link, reporter: Reporter, rng: Random) -> None:
        self._config = config
        self._link = link
        self._reporter = reporter
        self._rng = rng
        self._reconnect = Reconnect(config.timings, rng)
        self._session: Session | None = None
        self._closing = asyncio.Event()

    async def run(self) -> None:
        """Connect, and connect again. Returns after `close`; raises ConnectionRefused."""
        while not self._closing.is_set():
            ended = await self._until_closed()
            if ended.code in FINAL_CODES or ended.code in FINAL_STATUSES:
                self._reporter.emit(EventKind.REFUSED, detail=name_of(ended.code))
                raise ConnectionRefused(ended.code, ended.reason)
            await self._wait(ended)

    def close(self) -> None:
        """Close the socket with 1000 and stop connecting."""
        self._closing.set()

    async def sync(self) -> None:
        """Ask for a snapshot now. Without a connection nothing is lost: the next hello brings one."""
        with suppress(ConnectionClosed):
            if self._session is not None:
                await self._session.send(self._link.sync())

    async def send(self, frame: ClientFrame) -> bool:
        """Write a frame; False without a connection."""
        try:
            if self._session is None or not self._session.ready.is_set():
                return False
            await self._session.send(frame)
        except ConnectionClosed:
            return False
        return True

    async def _until_closed(self) -> Ended:
        """One socket, from the handshake to its end."""
        session: Session | None = None
        code, reason = LOST, ""
        try:
            async with self._open() as socket:
                session = Session(socket, self._link, self._config.timings, self._rng)
                await self._serve(session, socket)
        except ConnectionClosed as closed:
            code, reason = (LOST, "connection lost") if closed.rcvd is None else (closed.rcvd.code, closed.rcvd.reason)
        except InvalidStatus as error:
            asked = retry_after(error.response.headers.get("Retry-After"), datetime.now(UTC))
            return Ended(error.response.status_code, "handshake refused", asked=asked)
        except (OSError, TimeoutError, InvalidHandshake) as error:
            code, reason = LOST, type(error).__name__
        return Ended(code, reason, lasted=_lasted(session))

    async def _serve(self, session: Session, socket: ClientConnection) -> None:
        helpers = [
            asyncio.create_task(self._note_ready(session)),
            asyncio.create_task(self._close_on_demand(socket)),
        ]
        self._session = session
        try:
            await session.run()
        finally:
            self._session = None
            await _cancelled(helpers)

    def _open(self) -> connect:
        timings = self._config.timings
        return connect(
            self._config.ws_url,
            subprotocols=[Subprotocol(version) for version in protocol.SUPPORTED],
            additional_headers={"Authorization": f"Bearer {self._config.token}"},
            compression=None,
            proxy=None if is_loopback(self._config.ws_url) else True,
            ping_interval=timings.ping,
            ping_timeout=max(timings.dead - timings.ping, 1.0),
            close_timeout=2.0,
            # The hub's snapshot pages may be larger than what it takes from us.
            max_size=16 * protocol.MAX_FRAME_BYTES,
        )

    async def _note_ready(self, session: Session) -> None:
        await session.ready.wait()
        self._reporter.emit(EventKind.CONNECTED)

    async def _close_on_demand(self, socket: ClientConnection) -> None:
        await self._closing.wait()
        await socket.close()

    async def _wait(self, ended: Ended) -> None:
        if self._closing.is_set():
            return
        delay, why = self._reconnect.delay(ended), name_of(ended.code)
        log.info("desktop %s: %s %s, again in %.1f s", self._config.client_id, why, ended.reason, delay)
        self._reporter.emit(EventKind.RECONNECTING, detail=why, interval_ms=delay * 1000)
        with suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._closing.wait()


def _lasted(session: Session | None) -> float:
    return 0.0 if session is None or session.ready_at is None else time.monotonic() - session.ready_at


def name_of(code: int) -> str:
    """The close code's name in lower case, else its number."""
    try:
        return CloseCode(code).name.lower()
    except ValueError:
        return str(code)


def is_loopback(url: str) -> bool:
    """Whether the address is this machine: a proxy of the environment must not be asked for it."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _cancelled(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
