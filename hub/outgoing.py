"""Frames on their way out: written at once while the client reads, one bounded queue and one writer when it does not.

The writer is centrifuge's, in asyncio. "Out" means taken by the kernel: hubs connect with `write_limit=0`, so that what
the transport still holds counts as ours.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from uuid import UUID

from websockets.asyncio.server import ServerConnection, broadcast
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State

from domain.protocol import ServerFrame, encode_bytes
from hub.ports import Limits
from telemetry.metrics import hub_frames_out, hub_overflows

# The transport's own buffer is used only for the rest of a frame that the kernel did not take whole.
WRITE_LIMIT: Final = 0
# Bytes that the kernel may hold for one client (Linux doubles it). By itself it takes megabytes for one that does not
# read: ten thousand of those would be a machine's memory, and each would look well for as long.
SEND_BUFFER: Final = 64 * 1024


def bound_kernel_buffers(listening: Iterable[socket.socket]) -> None:
    """Every connection that these sockets accept from now on gets SEND_BUFFER."""
    for each in listening:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)


class Owner(Protocol):
    """Who hears what became of the frames."""

    def written(self, tasks: Sequence[UUID]) -> None:
        """The frames of these tasks were handed to the kernel."""
        ...

    def overflown(self) -> None:
        """The queue has passed its bound; what was queued is dropped."""
        ...


@dataclass(frozen=True, slots=True)
class Queued:
    """A frame that is not out; `begun`: the transport has it, or the rest of it."""

    data: bytes
    tasks: Sequence[UUID]
    begun: bool = False


class FrameQueue:
    """Frames of one socket. `put` never waits; nobody waits for a client that does not read.

    An idle connection has neither queue nor writer, and one whose client reads never gets them: a frame that the
    kernel takes costs no task.
    """

    __slots__ = ("_bytes", "_closed", "_frames", "_limits", "_owner", "_progress", "_socket", "_writer")

    def __init__(self, socket: ServerConnection, limits: Limits, owner: Owner) -> None:
        self._socket = socket
        self._limits = limits
        self._owner = owner
        self._frames: deque[Queued] | None = None
        self._bytes = 0
        self._writer: asyncio.Task[None] | None = None
        self._progress: asyncio.Event | None = None
        self._closed = False

    def put(self, frame: ServerFrame, tasks: Sequence[UUID] = ()) -> None:
        """Send a frame, or queue it; `tasks` are reported as written with it."""
        if self._closed or self._socket.state is not State.OPEN:
            return
        data = encode_bytes(frame)
        hub_frames_out.add(1, str(frame.__struct_config__.tag))
        # A writer that ends has an empty queue, though it may still be there: order is kept either way.
        if not self._frames and self._is_out():
            self._write_at_once(data, tasks)
        else:
            self._keep(Queued(data, tasks))

    def _is_out(self) -> bool:
        return self._socket.transport.get_write_buffer_size() == 0

    def _write_at_once(self, data: bytes, tasks: Sequence[UUID]) -> None:
        try:
            # Despite its name: the library's way to write without waiting.
            broadcast((self._socket,), data, text=True, raise_exceptions=True)
        except ExceptionGroup:
            self.close()
            return
        if not self._is_out():
            self._keep(Queued(data, tasks, begun=True))
        elif tasks:
            self._owner.written(tasks)

    def _keep(self, queued: Queued) -> None:
        if self._frames is None:
            self._frames = deque()
        self._frames.append(queued)
        self._bytes += len(queued.data)
        if len(self._frames) > self._limits.queue_frames or self._bytes > self._limits.queue_bytes:
            self.close()
            hub_overflows.add(1)
            self._owner.overflown()
        elif self._writer is None:
            self._writer = asyncio.create_task(self._write())

    async def room(self) -> None:
        """Wait until less than half of the bound is used: for a producer that can wait, such as a long snapshot."""
        while self._frames and (
            len(self._frames) * 2 > self._limits.queue_frames or self._bytes * 2 > self._limits.queue_bytes
        ):
            self._progress = asyncio.Event()
            await self._progress.wait()

    def close(self) -> None:
        """Drop what is queued and take nothing more."""
        self._closed = True
        self._frames = None
        self._bytes = 0
        self._moved()

    async def _write(self) -> None:
        try:
            while self._frames:
                # It counts until it is out: the frame that hangs is the one that matters.
                head = self._frames[0]
                await self._send(head)
                if self._closed:
                    return
                self._frames.popleft()
                self._bytes -= len(head.data)
                self._moved()
                if head.tasks:
                    self._owner.written(head.tasks)
            self._frames = None
        except (ConnectionClosed, OSError):
            self.close()
        finally:
            self._writer = None

    async def _send(self, queued: Queued) -> None:
        """Returns once the kernel has all of it."""
        if queued.begun:
            await self._socket.drain()
        else:
            await self._socket.send(queued.data, text=True)

    def _moved(self) -> None:
        if self._progress is not None:
            self._progress.set()
            self._progress = None
