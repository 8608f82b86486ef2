"""A client's end of one connection to the hub under test: it writes what it is told, also what no client should."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar
from uuid import uuid4

import msgspec
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from desktop.conformance.verdict import RuleBroken, expect
from domain import protocol
from domain.protocol import AnyServerFrame, ClientFrame, ErrorFrame, Heartbeat, HeldAttempt, Hello, ServerAck, Snapshot

F = TypeVar("F")


def fresh() -> str:
    """An id of a command."""
    return uuid4().hex


@dataclass(slots=True)
class Peer:
    """One open socket. `patience`: seconds for each answer. `seen`: frames that were read on the way to others."""

    socket: ClientConnection
    patience: float
    seen: list[AnyServerFrame] = field(default_factory=list)

    async def send(self, frame: ClientFrame) -> None:
        """A frame as it should be."""
        await self.socket.send(protocol.encode(frame))

    async def text(self, text: str) -> None:
        """Any text."""
        await self.socket.send(text)

    async def next(self, wanted: Callable[[AnyServerFrame], bool], expected: str) -> AnyServerFrame:
        """Read until such a frame comes; RuleBroken when the hub closes or says nothing."""
        try:
            async with asyncio.timeout(self.patience):
                while not wanted(frame := await self._read()):
                    self.seen.append(frame)
        except TimeoutError:
            raise RuleBroken(f"{expected} within {self.patience:g} s", self._told()) from None
        except ConnectionClosed:
            raise RuleBroken(expected, f"the connection closed with {self.socket.close_code}") from None
        return frame

    async def _read(self) -> AnyServerFrame:
        text = await self.socket.recv()
        try:
            return protocol.decode_server_frame(text)
        except msgspec.DecodeError as error:
            raise RuleBroken("frames as the protocol says", f"{error}: {text[:200]!r}") from None

    def _told(self) -> str:
        kinds = sorted({type(frame).__name__ for frame in self.seen})
        return f"only {', '.join(kinds)}" if kinds else "nothing"

    async def reply(self, ref: str) -> AnyServerFrame:
        """The frame that answers a command."""
        return await self.next(lambda frame: getattr(frame, "ref", None) == ref, f"a reply with ref {ref}")

    async def acknowledged(self, ref: str) -> None:
        """The command is answered by an ack."""
        reply = await self.reply(ref)
        expect(isinstance(reply, ServerAck), "an ack", _name(reply))

    async def refused(self, ref: str, code: str) -> None:
        """The command is answered by an error of this code, and the connection stays open."""
        reply = await self.reply(ref)
        expect(isinstance(reply, ErrorFrame), f"an error {code}", _name(reply))
        assert isinstance(reply, ErrorFrame)
        expect(reply.code == code, f"the error code {code}", reply.code)
        await self.still_open()

    async def still_open(self) -> None:
        """A heartbeat is acknowledged."""
        beat = Heartbeat(id=fresh())
        await self.send(beat)
        await self.acknowledged(beat.id)

    async def hello(self, *held: HeldAttempt, slots: int | None = 2, generation: int = 0) -> list[Snapshot]:
        """Say hello; the pages of the snapshot."""
        hello = Hello(
            id=fresh(), version="conformance", max_concurrent=slots, highest_generation=generation, held=list(held)
        )
        await self.send(hello)
        return await self.pages(hello.id)

    async def pages(self, ref: str) -> list[Snapshot]:
        """The whole snapshot that answers a command."""
        found: list[Snapshot] = []
        while not found or not found[-1].last:
            frame = await self.reply(ref)
            expect(isinstance(frame, Snapshot), "a snapshot", _name(frame))
            assert isinstance(frame, Snapshot)
            found.append(frame)
        return found

    async def closed(self, code: int) -> None:
        """The hub closes with this code."""
        seen = await self.close_code(f"a close with {code}")
        expect(seen == code, f"a close with {code}", _closing(seen))

    async def close_code(self, expected: str) -> int | None:
        """Read to the end; the close code."""
        try:
            async with asyncio.timeout(self.patience):
                while True:
                    await self.socket.recv()
        except TimeoutError:
            raise RuleBroken(f"{expected} within {self.patience:g} s", "an open connection") from None
        except ConnectionClosed:
            return self.socket.close_code


def _name(frame: AnyServerFrame) -> str:
    return f"error {frame.code}" if isinstance(frame, ErrorFrame) else str(frame.__struct_config__.tag)


def _closing(code: int | None) -> str:
    return "the connection lost without a close frame" if code in (None, 1006) else str(code)
