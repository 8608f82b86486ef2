"""The reconnecting WebSocket of one desktop (2-desktop §2.1).

Every end of a socket leads to a new one after a jittered wait, except the close codes 4500–4999 and a refused token,
which say that trying again is useless.
"""

import asyncio
import logging
from contextlib import suppress
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
from desktop.session import Link, Session
from domain import protocol
from domain.protocol import CloseCode

log = logging.getLogger(__name__)

FINAL_CODES: Final = range(4500, 5000)
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
        self._session: Session | None = None
        self._closing = asyncio.Event()
        self._failures = 0

    async def run(self) -> None:
        """Connect, and connect again. Returns after `close`; raises ConnectionRefused."""
        while not self._closing.is_set():
            code, reason = await self._until_closed()
            if code in FINAL_CODES or code in FINAL_STATUSES:
                self._reporter.emit(EventKind.REFUSED, detail=name_of(code))
                raise ConnectionRefused(code, reason)
            await self._wait(code, reason)

    def close(self) -> None:
        """Close the socket with 1000 and stop connecting."""
        self._closing.set()

    async def sync(self) -> None:
        """Ask for a snapshot now. Without a connection nothing is lost: the next hello brings one."""
        with suppress(ConnectionClosed):
            if self._session is not None:
                await self._session.send(self._link.sync())

    async def _until_closed(self) -> tuple[int, str]:
        """One socket, from the handshake to its end: close code (or HTTP status) and reason."""
        try:
            async with self._open() as socket:
                session = self._session = Session(socket, self._link, self._config.timings)
                helpers = [
                    asyncio.create_task(self._note_ready(session)),
                    asyncio.create_task(self._close_on_demand(socket)),
                ]
                try:
                    await session.run()
                finally:
                    self._session = None
                    await _cancelled(helpers)
        except ConnectionClosed as closed:
            return (LOST, "connection lost") if closed.rcvd is None else (closed.rcvd.code, closed.rcvd.reason)
        except InvalidStatus as error:
            return error.response.status_code, "handshake refused"
        except (OSError, TimeoutError, InvalidHandshake) as error:
            return LOST, type(error).__name__
        return LOST, ""

    def _open(self) -> connect:
        timings = self._config.timings
        return connect(
            self._config.ws_url,
            subprotocols=[Subprotocol(protocol.SUBPROTOCOL)],
            additional_headers={"Authorization": f"Bearer {self._config.token}"},
            compression=None,
            proxy=None if is_loopback(self._config.ws_url) else True,
            ping_interval=timings.ping,
            ping_timeout=timings.dead,
            close_timeout=2.0,
            # The hub's snapshot pages may be larger than what it takes from us.
            max_size=16 * protocol.MAX_FRAME_BYTES,
        )

    async def _note_ready(self, session: Session) -> None:
        await session.ready.wait()
        self._failures = 0
        self._reporter.emit(EventKind.CONNECTED)

    async def _close_on_demand(self, socket: ClientConnection) -> None:
        await self._closing.wait()
        await socket.close()

    async def _wait(self, code: int, reason: str) -> None:
        if self._closing.is_set():
            return
        delay = self._config.timings.reconnect.delay(self._failures, self._rng)
        self._failures += 1
        log.info("desktop %s: %s %s, again in %.1f s", self._config.client_id, name_of(code), reason, delay)
        self._reporter.emit(EventKind.RECONNECTING, detail=name_of(code), interval_ms=delay * 1000)
        with suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._closing.wait()


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
