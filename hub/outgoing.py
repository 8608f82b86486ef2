"""One bounded queue and at most one writer per connection (centrifuge's writer, in asyncio)."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from uuid import UUID

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from domain.protocol import ServerFrame, encode
from hub.ports import Limits

Queued = tuple[bytes, Sequence[UUID]]


class FrameQueue:
    """Frames of one socket on their way out. `put` never waits; nobody waits for a client that does not read.

    `written` hears of the tasks whose frames were handed to the socket; `overflown` is called once the queue passes
    its bound, and what was queued is dropped then. The writer is a task that lives only while there is something to
    write, so that an idle connection costs no memory for it.
    """

    def __init__(
        self,
        socket: ServerConnection,
        limits: Limits,
        written: Callable[[Sequence[UUID]], None],
        overflown: Callable[[], None],
    ) -> None:
        self._socket = socket
        self._limits = limits
        self._written = written
        self._overflown = overflown
        self._frames: deque[Queued] = deque()
        self._bytes = 0
        self._writer: asyncio.Task[None] | None = None
        self._progress: asyncio.Event | None = None
        self._closed = False

    def put(self, frame: ServerFrame, tasks: Sequence[UUID] = ()) -> None:
        """Queue a frame; `tasks` are reported as written with it."""
        if self._closed:
            return
        data = encode(frame).encode()
        self._bytes += len(data)
        self._frames.append((data, tasks))
        if len(self._frames) > self._limits.queue_frames or self._bytes > self._limits.queue_bytes:
            self.close()
            self._overflown()
        elif self._writer is None:
            self._writer = asyncio.create_task(self._write())

    async def room(self) -> None:
        """Wait until less than half of the bound is used: for a producer that can wait, such as a long snapshot."""
        while not self._closed and (
            len(self._frames) * 2 > self._limits.queue_frames or self._bytes * 2 > self._limits.queue_bytes
        ):
            self._progress = asyncio.Event()
            await self._progress.wait()

    def close(self) -> None:
        """Drop what is queued and take nothing more."""
        self._closed = True
        self._frames.clear()
        self._bytes = 0
        self._moved()

    async def _write(self) -> None:
        try:
            while self._frames:
                # It counts until it is written: the frame that hangs is the one that matters.
                data, tasks = self._frames[0]
                await self._socket.send(data, text=True)
                if self._closed:
                    return
                self._frames.popleft()
                self._bytes -= len(data)
                self._moved()
                if tasks:
                    self._written(tasks)
        except ConnectionClosed:
            self.close()
        finally:
            self._writer = None

    def _moved(self) -> None:
        if self._progress is not None:
            self._progress.set()
            self._progress = None
