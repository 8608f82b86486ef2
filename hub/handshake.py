"""From a TCP connection to a known client: path, subprotocol, token, and the close codes of what is refused."""

import asyncio
import http
import logging
from typing import Final
from urllib.parse import urlsplit

from websockets.asyncio.server import ServerConnection
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.protocol import State

from domain.hub_port import ClientIdentity, HubBackend
from domain.ids import new_uuid
from domain.protocol import PATH, SUPPORTED, Authenticate, CloseCode, ServerAck, encode
from hub.door import refuse
from hub.frames import FrameRefused, parse_client_frame
from hub.turns import Turns

log = logging.getLogger(__name__)

LONGEST_TOKEN: Final = 512


def check_path(connection: ServerConnection, request: Request) -> Response | None:
    """404 for every path but the hub's."""
    if _path(request) == PATH:
        return None
    refuse("not_found")
    return connection.respond(http.HTTPStatus.NOT_FOUND, "No such path.\n")


def _path(request: Request) -> str | None:
    try:
        return urlsplit(request.path).path
    except ValueError:
        # No URL at all: the library would log a traceback for whoever sends one.
        return None


class Refused(Exception):
    """A socket that is not let in, with the code to close it."""

    def __init__(self, code: CloseCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Gone(Exception):
    """The other side has left meanwhile."""


async def admit(socket: ServerConnection, backend: HubBackend, seconds: float, turns: Turns) -> ClientIdentity | None:
    """The client behind a new socket, or None once the socket is closed with its code.

    The token comes in the Authorization header, or in the first frame within `seconds`; it is looked up when the
    socket has one of the `turns`, so that a herd leaves the database to those who are connected.
    """
    try:
        return await _admit(socket, backend, seconds, turns)
    except Refused as refused:
        await turn_back(socket, refused.code, refused.reason)
    except (ConnectionClosed, Gone):
        pass
    return None


async def turn_back(socket: ServerConnection, code: CloseCode, reason: str) -> None:
    """Close a socket that is not let in, and count it."""
    refuse(code.name.lower())
    await socket.close(code, reason)


async def _admit(socket: ServerConnection, backend: HubBackend, seconds: float, turns: Turns) -> ClientIdentity:
    request = socket.request
    assert request is not None
    if urlsplit(request.path).query:
        raise Refused(CloseCode.TOKEN_IN_URL, "no query: the token goes into the Authorization header")
    if socket.subprotocol is None:
        raise Refused(CloseCode.PROTOCOL_VERSION, f"this hub speaks {', '.join(SUPPORTED)}")
    if "Authorization" in request.headers:
        return await _in_turn(socket, backend, _bearer(request.headers), turns)
    frame = await _first_frame(socket, seconds)
    client = await _in_turn(socket, backend, frame.token, turns)
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


async def _in_turn(socket: ServerConnection, backend: HubBackend, token: str, turns: Turns) -> ClientIdentity:
    async with turns.take(begun=False):
        if socket.state is not State.OPEN:
            # It has not waited for its turn; whoever comes after it need not wait for its query.
            raise Gone
        return await _identify(backend, token)


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
