"""The bound of what waits for one client: 256 frames or 1 MB, exact, with what its socket still holds."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from uuid import UUID, uuid4

import pytest
import uvloop
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve

from domain.protocol import ErrorFrame, ServerAck, decode_server_frame, encode_bytes
from hub.outgoing import SEND_BUFFER, WRITE_LIMIT, FrameQueue, bound_kernel_buffers
from hub.ports import Limits
from tests.support.broker import until

LIMITS = Limits(queue_frames=8, queue_bytes=256 * 1024)
# More than both kernels' buffers take.
FILLER = ErrorFrame(id="filler", ref=None, code="internal_error", message="x" * 60_000)
BUFFERED = 2 * SEND_BUFFER + 1024 * 1024


@dataclass
class Line:
    """A socket with its queue, and a peer that does not read unless it is told to."""

    socket: ServerConnection
    peer: ClientConnection
    reported: list[UUID] = field(default_factory=list)
    overflows: int = 0

    def written(self, tasks: Sequence[UUID]) -> None:
        self.reported += tasks

    def overflown(self) -> None:
        self.overflows += 1

    def queue(self, limits: Limits = LIMITS) -> FrameQueue:
        return FrameQueue(self.socket, limits, self)

    @property
    def unsent(self) -> int:
        return self.socket.transport.get_write_buffer_size()

    async def stopped(self, queue: FrameQueue) -> int:
        """Fill what the kernels take, until a frame hangs; how many frames went out before."""
        count = 0
        while self.unsent == 0:
            queue.put(FILLER)
            count += 1
            # The peer's kernel gets its turn.
            await asyncio.sleep(0)
            assert count * 60_000 < 20 * BUFFERED
        return count

    async def frames(self, count: int) -> list[str]:
        """The ids of the next frames that the peer reads."""
        async with asyncio.timeout(20):
            return [decode_server_frame(await self.peer.recv()).id for _ in range(count)]


@asynccontextmanager
async def line() -> AsyncIterator[Line]:
    accepted: asyncio.Future[ServerConnection] = asyncio.get_running_loop().create_future()

    async def keep(connection: ServerConnection) -> None:
        accepted.set_result(connection)
        await connection.wait_closed()

    async with serve(keep, "127.0.0.1", 0, compression=None, write_limit=WRITE_LIMIT, ping_interval=None) as server:
        bound_kernel_buffers(server.sockets)
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with connect(url, max_queue=1, ping_interval=None, compression=None, proxy=None) as peer:
            yield Line(await accepted, peer)
            peer.transport.abort()


def small(name: object) -> ServerAck:
    return ServerAck(id=str(name), ref="r")


async def test_a_client_that_reads_costs_neither_queue_nor_writer() -> None:
    async with line() as one:
        queue, tasks = one.queue(), [uuid4() for _ in range(100)]
        others = len(asyncio.all_tasks())
        for task_id in tasks:
            queue.put(small(task_id), [task_id])
        assert len(asyncio.all_tasks()) == others
        assert one.reported == tasks
        assert await one.frames(100) == [str(task_id) for task_id in tasks]


async def test_a_frame_that_the_kernel_did_not_take_whole_counts_and_the_bound_of_frames_is_exact() -> None:
    async with line() as one:
        queue = one.queue()
        await one.stopped(queue)
        # It hangs in the transport: one of the eight.
        for number in range(7):
            queue.put(small(number), [uuid4()])
            await asyncio.sleep(0)
        assert (one.overflows, one.reported) == (0, [])
        queue.put(small("too many"))
        assert one.overflows == 1
        queue.put(small("after"))
        assert one.overflows == 1


async def test_the_bound_of_bytes_is_exact_and_counts_the_frame_that_hangs() -> None:
    async with line() as one:
        size = len(encode_bytes(FILLER))
        queue = one.queue(replace(LIMITS, queue_frames=1000, queue_bytes=3 * size))
        await one.stopped(queue)
        queue.put(FILLER)
        queue.put(FILLER)
        await asyncio.sleep(0)
        assert one.overflows == 0
        queue.put(small("one byte too many"))
        assert one.overflows == 1


async def test_what_hung_and_what_waited_go_out_in_order_once_the_client_reads_again() -> None:
    async with line() as one:
        queue, tasks = one.queue(), [uuid4() for _ in range(5)]
        fillers = await one.stopped(queue)
        for task_id in tasks:
            queue.put(small(task_id), [task_id])
        assert one.reported == []
        assert await one.frames(fillers + 5) == ["filler"] * fillers + [str(task_id) for task_id in tasks]
        await until(lambda: one.reported == tasks)
        # And afterwards it is as if nothing had been.
        await until(lambda: one.unsent == 0)
        queue.put(small("next"), [tasks[0]])
        assert one.reported == [*tasks, tasks[0]]
        assert await one.frames(1) == ["next"]


async def test_a_long_producer_waits_for_room_and_ends_with_the_queue() -> None:
    async with line() as one:
        queue = one.queue()
        await one.stopped(queue)
        for number in range(4):
            queue.put(small(number))
        waiting = asyncio.create_task(queue.room())
        await asyncio.sleep(0)
        assert not waiting.done()
        queue.close()
        async with asyncio.timeout(20):
            await waiting


def unread(factory: Callable[[], asyncio.AbstractEventLoop]) -> tuple[int, int]:
    """Bytes put until the overflow, and what the process still holds of them."""

    async def measure() -> tuple[int, int]:
        async with line() as one:
            queue, put = one.queue(replace(LIMITS, queue_frames=10_000)), 0
            while not one.overflows:
                queue.put(FILLER)
                put += len(encode_bytes(FILLER))
                await asyncio.sleep(0)
            return put, one.unsent

    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(measure())


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_client_that_does_not_read_is_found_out_before_the_kernel_holds_megabytes_for_it(
    factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    put, held = unread(factory)
    # The server's kernel holds 2 × SEND_BUFFER at most, the peer's as much as it was made to take, the queue its bound.
    with socket.socket() as example:
        receives = example.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    assert put < LIMITS.queue_bytes + 2 * SEND_BUFFER + 4 * receives + 2 * 1024 * 1024
    # What was queued is dropped: at most the frame that hung, and one that the writer had passed on behind it.
    assert held <= 2 * len(encode_bytes(FILLER)) + 100


async def test_a_socket_that_is_gone_takes_nothing_and_reports_nothing() -> None:
    async with line() as one:
        queue = one.queue()
        one.peer.transport.abort()
        await one.socket.wait_closed()
        queue.put(small("late"), [uuid4()])
        assert (one.reported, one.overflows) == ([], 0)
