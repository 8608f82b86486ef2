"""What the supervisor is told about a process, and what it tells about it."""

import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from devstack.accounts import Account

Probe = Callable[[], Awaitable[bool]]


async def at_once() -> bool:
    """The probe of a process that is ready as soon as it runs."""
    return True


@dataclass(frozen=True, slots=True)
class Part:
    """One supervised process. Times in seconds."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    ready: Probe = at_once
    cwd: Path | None = None
    account: Account | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    grace: float = 20.0
    # Generous: a first start on a busy machine makes files, compiles, recovers.
    start_limit: float = 120.0
    # Runs to its end (exit code 0) before the next part starts, and is not restarted.
    one_shot: bool = False
    # Runs before every start, restarts included: what a crash left must not stop the next one.
    before: Callable[[], None] | None = None


class PartState(StrEnum):
    """Where a process is in its life."""

    STARTING = "starting"
    RUNNING = "running"
    BACKING_OFF = "backing off"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PartStatus:
    """A process as an operator sees it. `restarts` counts deaths that nobody asked for."""

    name: str
    state: PartState
    pid: int | None
    restarts: int
    log: Path
