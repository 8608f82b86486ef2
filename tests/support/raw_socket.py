"""A peer of the hub that misbehaves: writes whatever bytes it likes, reads or not, and ends as it likes."""

import asyncio
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Self
from urllib.parse import urlsplit
from uuid import uuid4

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from domain.protocol import SUBPROTOCOL, HeldAttempt, Hello, encode

# l_onoff and l_linger: close() sends a RST instead of what is left.
LINGER_NOT = struct.pack("ii", 1, 0)


class RawSocket:
    """One TCP connection, with the library's framing where a test wants it. Never answers a ping."""

    def __init__(self, url: str, connection: socket.socket, subprotocols: Sequence[str] = (SUBPROTOCOL,)) -> None:
        offered = [Subprotocol(version) for version in subprotocols]
        self._socket = connection
        self._protocol = ClientProtocol(parse_uri(url), subprotocols=offered, max_size=None)
        self._frames: list[Frame] = []

    @classmethod
    async def open(
        cls, url: str, *, receive_buffer: int | None = None, subprotocols: Sequence[str] = (SUBPROTOCOL,)
    ) -> Self:
        """Connected, and nothing said. `receive_buffer` in bytes: what the kernel takes for us while we do not read."""
        connection = socket.socket()
        connection.setblocking(False)
        if receive_buffer is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        where = urlsplit(url)
        await asyncio.get_running_loop().sock_connect(connection, (where.hostname, where.port))
        return cls(url, connection, subprotocols)

    @classmethod
    async def upgraded(cls, url: str, token: str | None, *, receive_buffer: int | None = None) -> Self:
        """After the handshake, with the token in the header or none."""
        peer = await cls.open(url, receive_buffer=receive_buffer)
        await peer.write(peer.handshake(token))
        await peer.answer()
        return peer

    def handshake(self, token: str | None = None) -> bytes:
        """The request's bytes."""
        request = self._protocol.connect()
        if token is not None:
            request.headers["Authorization"] = f"Bearer {token}"
        self._protocol.send_request(request)
        return b"".join(self._protocol.data_to_send())

    async def write(self, data: bytes) -> None:
        """These bytes, as they are."""
        await asyncio.get_running_loop().sock_sendall(self._socket, data)

    def framed(self, data: bytes, opcode: Opcode = Opcode.TEXT, *, fin: bool = True) -> bytes:
        """One masked frame."""
        return Frame(opcode, data, fin).serialize(mask=True)

    async def say(self, text: str) -> None:
        """One text frame."""
        await self.write(self.framed(text.encode()))

    async def hello(self, held: Sequence[HeldAttempt] = ()) -> None:
        """Send hello; does not wait."""
        await self.say(encode(Hello(id=uuid4().hex, held=list(held))))

    async def answer(self) -> Response:
        """The answer to the handshake; EOFError if the hub closed without one."""
        while (events := await self._events()) is not None:
            for number, event in enumerate(events):
                if isinstance(event, Response):
                    self._frames += [later for later in events[number:] if isinstance(later, Frame)]
                    return event
        raise EOFError("no answer came")

    async def text(self) -> str:
        """The next text frame; EOFError at the end."""
        return (await self.next(Opcode.TEXT)).decode()

    async def next(self, opcode: Opcode) -> bytes:
        """The content of the next frame of a kind; EOFError at the end."""
        async with asyncio.timeout(30):
            while (frame := await self._frame()) is not None:
                if frame.opcode is opcode:
                    return bytes(frame.data)
        raise EOFError("the hub closed")

    async def rest(self) -> bytes:
        """Everything that comes until the end, as bytes."""
        data, loop = b"", asyncio.get_running_loop()
        async with asyncio.timeout(30):
            with suppress(ConnectionError):
                while part := await loop.sock_recv(self._socket, 65536):
                    data += part
        return data

    async def closed(self) -> int | None:
        """Read to the end: the close code, None if the connection ended without one."""
        async with asyncio.timeout(30):
            while await self._frame() is not None:
                pass
        return self._protocol.close_rcvd.code if self._protocol.close_rcvd is not None else None

    async def _frame(self) -> Frame | None:
        while not self._frames:
            events = await self._events()
            if events is None:
                return None
            self._frames += [event for event in events if isinstance(event, Frame)]
        return self._frames.pop(0)

    async def _events(self) -> list[Any] | None:
        """What came with the next bytes, None at the end. Of what the library would answer, only a close goes out."""
        try:
            data = await asyncio.get_running_loop().sock_recv(self._socket, 65536)
        except ConnectionError:
            return None
        if not data:
            return None
        self._protocol.receive_data(data)
        answers = b"".join(self._protocol.data_to_send())
        if self._protocol.close_rcvd is not None:
            with suppress(ConnectionError):
                await self.write(answers)
        return self._protocol.events_received()

    def reset(self) -> None:
        """End with a RST."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
        self._socket.close()

    def close(self) -> None:
        """End in silence."""
        self._socket.close()
