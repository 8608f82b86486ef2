"""From a TCP connection to a known client: path, subprotocol, token, and the close codes of what is refused."""

import asyncio
import http
import logging
from typing import Any, Final
from urllib.parse import urlsplit

from websockets.asyncio.server import Server, ServerConnection
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode as Standard
from websockets.http11 import Request, Response
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from domain.hub_port import ClientIdentity, HubBackend
from domain.ids import new_uuid
from domain.protocol import MAX_FRAME_BYTES, PATH, SUBPROTOCOL, Authenticate, CloseCode, ServerAck, encode
from hub.frames import FrameRefused, parse_client_frame

log = logging.getLogger(__name__)

LONGEST_TOKEN: Final = 512

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


class HubConnection(ServerConnection):
    """The library's connection on `HubProtocol`."""

    def __init__(self, protocol: ServerProtocol, server: Server, **options: Any) -> None:
        own = HubProtocol(
            subprotocols=[Subprotocol(SUBPROTOCOL)],
            select_subprotocol=_select_subprotocol,
            max_size=MAX_FRAME_BYTES,
            logger=protocol.logger,
        )
        super().__init__(own, server, **options)


def _select_subprotocol(_protocol: ServerProtocol, offered: Any) -> Subprotocol | None:
    # Without it the handshake still succeeds, so that the client gets a close code and not a bare HTTP error.
    return Subprotocol(SUBPROTOCOL) if SUBPROTOCOL in offered else None


def check_path(connection: ServerConnection, request: Request) -> Response | None:
    """404 for every path but the hub's."""
    if urlsplit(request.path).path == PATH:
        return None
    return connection.respond(http.HTTPStatus.NOT_FOUND, "No such path.\n")


class Refused(Exception):
    """A socket that is not let in, with the code to close it."""

    def __init__(self, code: CloseCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


async def admit(socket: ServerConnection, backend: HubBackend, seconds: float) -> ClientIdentity | None:
    """The client behind a new socket, or None once the socket is closed with its code.

    The token comes in the Authorization header, or in the first frame within `seconds`.
    """
    try:
        return await _admit(socket, backend, seconds)
    except Refused as refused:
        await socket.close(refused.code, refused.reason)
    except ConnectionClosed:
        pass
    return None


async def _admit(socket: ServerConnection, backend: HubBackend, seconds: float) -> ClientIdentity:
    request = socket.request
    assert request is not None
    if urlsplit(request.path).query:
        raise Refused(CloseCode.TOKEN_IN_URL, "no query: the token goes into the Authorization header")
    if socket.subprotocol is None:
        raise Refused(CloseCode.PROTOCOL_VERSION, f"subprotocol {SUBPROTOCOL} is required")
    if "Authorization" in request.headers:
        return await _identify(backend, _bearer(request.headers))
    frame = await _first_frame(socket, seconds)
    client = await _identify(backend, frame.token)
    await socket.send(encode(ServerAck(id=str(new_uuid()), ref=frame.id)))
    return client


def _bearer(headers: Headers) -> str:
    values = headers.get_all("Authorization")
    scheme, _, token = values[0].partition(" ")
    return token.strip() if len(values) == 1 and scheme.lower() == "bearer" else ""


async def _first_frame(socket: ServerConnection, seconds: float) -> Authenticate:
    try:
        async with asyncio.timeout(seconds):
            frame = parse_client_frame(await socket.recv())
    except TimeoutError:
        raise Refused(CloseCode.AUTHENTICATION_TIMEOUT, "no token came") from None
    except FrameRefused as refused:
        raise Refused(refused.close or CloseCode.UNAUTHENTICATED, refused.reason) from None
    if not isinstance(frame, Authenticate):
        raise Refused(CloseCode.UNAUTHENTICATED, "authenticate first")
    return frame


async def _identify(backend: HubBackend, token: str) -> ClientIdentity:
    client = None
    try:
        if 0 < len(token) <= LONGEST_TOKEN:
            client = await backend.authenticate(token)
    except Exception as error:
        # Whatever it is, it says nothing about the token: the client is to come again.
        log.warning("authentication failed", exc_info=error)
        raise Refused(CloseCode.SERVER_ERROR, "try again") from error
    if client is None:
        raise Refused(CloseCode.UNAUTHENTICATED, "unknown or revoked token")
    return client
