"""One heartbeating activity keeps one resident loop alive (1-dispatch §1.9)."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from typing import Any, Final

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from domain.errors import FencedOut
from domain.messages import ResidentStart
from store import residents
from store.database import Pool

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS: Final = 1.5
# A frozen holder's transaction is over sooner; a database that does not answer for so long may answer another worker.
TAKE_SECONDS: Final = 15.0

# A loop runs until cancelled; it gets its fenced name and epoch, and its shard.
Loop = Callable[[str, int, int], Coroutine[Any, Any, None]]


class ResidentActivities:
    """Runs the loop of a role until it is cancelled, fenced out, broken, or due to rotate.

    Every end but a cancel is a retryable failure: retries write no history, so a resident costs a handful of events a
    day however often it moves between workers.
    """

    def __init__(self, pool: Pool, loops: Mapping[str, Loop]) -> None:
        self._pool = pool
        self._loops = loops

    @activity.defn
    async def run_resident(self, start: ResidentStart) -> None:
        """Take the role's lease and run its loop; returns only by raising."""
        name = f"{start.role}/{start.shard}"
        epoch = await self._take(name)
        loop = asyncio.create_task(self._loops[start.role](name, epoch, start.shard), name=name)
        try:
            if await _beat_while(loop, start.rotate_after_seconds):
                loop.result()
                raise ApplicationError("a resident loop ended by itself")
        except FencedOut as error:
            raise _again(f"{name} was taken over: {error}") from error
        finally:
            await _cancelled(loop)
        raise _again(f"{name} rotates")

    async def _take(self, name: str) -> int:
        """The role's next epoch; waits, heartbeating, for the transaction that the former holder may be in."""
        taking = asyncio.create_task(residents.take(self._pool, name, f"{socket.gethostname()}:{os.getpid()}"))
        try:
            if await _beat_while(taking, TAKE_SECONDS):
                return taking.result()
        finally:
            await _cancelled(taking)
        raise ApplicationError(f"{name} could not be taken within {TAKE_SECONDS:.0f} s")


async def _beat_while(task: "asyncio.Task[Any]", seconds: float) -> bool:
    """Heartbeat until the task is done or the time is over; whether it is done."""
    clock = asyncio.get_running_loop().time
    ends = clock() + seconds
    while (left := ends - clock()) > 0:
        activity.heartbeat()
        done, _ = await asyncio.wait({task}, timeout=min(left, HEARTBEAT_SECONDS))
        if done:
            return True
    return False


async def _cancelled(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _again(reason: str) -> ApplicationError:
    """Not an incident: another attempt follows at once."""
    return ApplicationError(
        reason, next_retry_delay=timedelta(milliseconds=50), category=ApplicationErrorCategory.BENIGN
    )
