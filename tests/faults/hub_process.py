"""The server process that a fault test breaks: the real composition, and on SIGUSR1 a count of what it holds."""

import asyncio
import ctypes
import gc
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
from websockets.asyncio.server import ServerConnection

from broker.dispatch_queue import DispatchQueue
from commands.common import run_service, stop_on_signals
from hub.server import Hub
from hub.session import Session
from server import Role, run_server
from settings import load_settings

T = TypeVar("T")
# Where the counts go.
COUNTS = "FAULT_COUNTS_FILE"

_libc = ctypes.CDLL(None)


async def run() -> None:
    """Serve the roles that the arguments name, as `giveway serve` does, until SIGTERM or worse."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, _write_counts)
    await run_server(load_settings(), stop_on_signals(), roles=frozenset(map(Role, sys.argv[1:])))


def _write_counts() -> None:
    path = Path(os.environ[COUNTS])
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(count()), encoding="utf-8")
    draft.rename(path)


def count() -> dict[str, int]:
    """What lives in this process. Looked up among all objects, so that what nobody remembers is counted too."""
    gc.collect()
    # What was freed is given back, or memory would only show the highest tide.
    _libc.malloc_trim(0)
    hub, queue, pools = _the(Hub), _the(DispatchQueue), list(_all(asyncpg.Pool))
    return {
        "tasks": len(asyncio.all_tasks()),
        # A pool opens its connections one by one, as they are needed.
        "descriptors": len(os.listdir("/proc/self/fd")) - sum(pool.get_size() for pool in pools),
        "sockets": len(list(_all(ServerConnection))),
        "sessions": len(list(_all(Session))),
        "clients": hub.connections,
        "bindings": len(queue._wanted),
        "database_busy": sum(pool.get_size() - pool.get_idle_size() for pool in pools),
        "objects": len(gc.get_objects()),
        "kilobytes": _resident_kilobytes(),
    }


def _all(kind: type[T]) -> Iterator[T]:
    return (thing for thing in gc.get_objects() if isinstance(thing, kind))


def _the(kind: type[Any]) -> Any:
    (only,) = _all(kind)
    return only


def _resident_kilobytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


if __name__ == "__main__":
    run_service(run)
    sys.exit(0)
