"""The library's connection within the hub's bounds, from its first byte on; and which code ended it (ADR 0048)."""

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

from websockets.asyncio.server import Server, ServerConnection
from websockets.frames import CloseCode as Standard
from websockets.protocol import Event
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from domain.protocol import MAX_FRAME_BYTES, SUPPORTED, CloseCode, negotiate
from hub.door import Door, Pace, refusal, refuse

# Where the library closes by itself, the catalogue's own code says the same.
_CATALOGUE: Final[dict[int, CloseCode]] = {
    Standard.MESSAGE_TOO_BIG: CloseCode.FRAME_TOO_LARGE,
    Standard.INVALID_DATA: CloseCode.MALFORMED_FRAME,
    Standard.PROTOCOL_ERROR: CloseCode.MALFORMED_FRAME,
}


class HubProtocol(ServerProtocol):
    """Closes with the catalogue's codes."""

    def fail(self, code: Standard | int, reason: str = "") -> None:
        """As the library, but a frame that is too large or no UTF-8 gets our code."""
        super().fail(_CATALOGUE.get(code, code), reason)


@dataclass(frozen=True, slots=True)
class Entrance:
    """What all connections of a hub share before they have a client."""

    door: Door
    pace: Pace
    header_bytes: int


class HubConnection(ServerConnection):
    """The library's connection on `HubProtocol`, within the hub's bounds from its first byte on."""

    def __init__(self, entrance: Entrance, protocol: ServerProtocol, server: Server, **options: Any) -> None:
        own = HubProtocol(
            subprotocols=[Subprotocol(version) for version in SUPPORTED],
            select_subprotocol=_select_subprotocol,
            max_size=MAX_FRAME_BYTES,
            logger=protocol.logger,
        )
        super().__init__(own, server, **options)
        self._entrance = entrance
        self._header_bytes = 0
        self._frame_due = 0.0
        self._ending = False
        self._cutting: asyncio.TimerHandle | None = None
        self.opened_at = self.loop.time()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As the library, unless too many wait already: then without the library's task."""
        if self._entrance.door.enter(self):
            super().connection_made(transport)
        else:
            super(ServerConnection, self).connection_made(transport)
            self._turn_away("503 Service Unavailable")

    def connection_lost(self, exc: Exception | None) -> None:
        """As the library; a socket that never asked for anything is counted."""
        if self.request is None and not self._ending:
            refuse("no_request")
        self.authenticated()
        if self._cutting is not None:
            # Or the timer would keep everything of a socket that is gone for its seconds.
            self._cutting.cancel()
        super().connection_lost(exc)

    def authenticated(self) -> None:
        """The client is known: the socket no longer counts as one that waits."""
        self._entrance.door.leave(self)

    def data_received(self, data: bytes) -> None:
        """As the library, but the request has a bounded size, and who does not go after a failure is cut off."""
        if self.request is None and not self._fits(len(data)):
            return
        super().data_received(data)
        if self.close_deadline is not None and not self._ending:
            self._ending = True
            self._cutting = self.loop.call_at(self.close_deadline, self.cut)

    def _fits(self, size: int) -> bool:
        self._header_bytes += size
        if self._header_bytes <= self._entrance.header_bytes:
            return True
        if not self._ending:
            refuse("header_too_large")
            self._turn_away("431 Request Header Fields Too Large")
        return False

    def process_event(self, event: Event) -> None:
        """As the library, at the client's pace: every frame counts, pings and fragments too."""
        if self.request is not None and not self._in_pace():
            self.protocol.fail(CloseCode.TOO_MANY_FRAMES, "too many frames")
            self.send_data()
        else:
            super().process_event(event)

    def _in_pace(self) -> bool:
        due = self._entrance.pace.next(self._frame_due, self.loop.time())
        if due is None:
            return False
        self._frame_due = due
        return True

    def _turn_away(self, status: str) -> None:
        self._ending = True
        self.transport.write(refusal(status))
        self.transport.close()

    @property
    def opened(self) -> bool:
        """Whether its request has come."""
        return self.request is not None

    def cut(self) -> None:
        """End it at once, without a closing handshake."""
        self._ending = True
        self.transport.abort()


def connections_with(entrance: Entrance) -> type[ServerConnection]:
    """The factory that `websockets.serve` wants: it calls it, whatever its type says."""
    return cast(type[ServerConnection], partial(HubConnection, entrance))


def final_code(socket: ServerConnection) -> int:
    """The code that the first of the two sides closed with; 1006 without one."""
    protocol = socket.protocol
    ours = protocol.close_sent if not protocol.close_rcvd_then_sent else protocol.close_rcvd
    close = ours or protocol.close_rcvd
    return Standard.ABNORMAL_CLOSURE if close is None else close.code


def _select_subprotocol(_protocol: ServerProtocol, offered: Any) -> Subprotocol | None:
    # Without it the handshake still succeeds, so that the client gets a close code and not a bare HTTP error.
    version = negotiate(offered, SUPPORTED)
    return None if version is None else Subprotocol(version)
