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
        epoch = await residents.take(self._pool, name, f"{socket.gethostname()}:{os.getpid()}")
        loop = asyncio.create_task(self._loops[start.role](name, epoch, start.shard), name=name)
        try:
            await _until_rotation(loop, start.rotate_after_seconds)
        except FencedOut as error:
            raise _again(f"{name} was taken over: {error}") from error
        finally:
            loop.cancel()
            await asyncio.gather(loop, return_exceptions=True)
        raise _again(f"{name} rotates")


async def _until_rotation(loop: "asyncio.Task[None]", seconds: float) -> None:
    """Heartbeat until the loop ends (which raises its error) or the rotation is due."""
    clock = asyncio.get_running_loop().time
    ends = clock() + seconds
    while (left := ends - clock()) > 0:
        activity.heartbeat()
        done, _ = await asyncio.wait({loop}, timeout=min(left, HEARTBEAT_SECONDS))
        if done:
            loop.result()
            raise ApplicationError("a resident loop ended by itself")


def _again(reason: str) -> ApplicationError:
    """Not an incident: another attempt follows at once."""
    return ApplicationError(
        reason, next_retry_delay=timedelta(milliseconds=50), category=ApplicationErrorCategory.BENIGN
    )
