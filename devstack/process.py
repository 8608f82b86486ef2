"""Processes told apart by pid and start time, and what an earlier supervisor left running."""

import json
import os
import signal
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from devstack.files import write_private


@dataclass(frozen=True, slots=True)
class Identity:
    """A process. The start time (clock ticks since boot) tells it from a later one with the same pid."""

    pid: int
    started: int


def identify(pid: int) -> Identity | None:
    """The living process with this pid; a zombie is dead."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else Identity(pid, int(fields[19]))


def is_alive(identity: Identity) -> bool:
    """Whether this very process still runs."""
    return identify(identity.pid) == identity


@dataclass(frozen=True, slots=True)
class Record:
    """A started process, written down for whoever has to clean up after us."""

    pid: int
    started: int
    stop_signal: int
    grace: float

    @property
    def identity(self) -> Identity:
        """Which process this is about."""
        return Identity(self.pid, self.started)

    def save(self, path: Path) -> None:
        """Write the record."""
        write_private(path, json.dumps(asdict(self)))


def load_record(path: Path) -> Record | None:
    """The record, or None where there is none that can be understood."""
    try:
        return Record(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def end_process(record: Record) -> None:
    """Ask, wait for its grace, then kill its whole group. Blocks."""
    _send(record.pid, record.stop_signal, record)
    # A stopped process would sit on the signal until the grace is over.
    _send(record.pid, signal.SIGCONT, record)
    deadline = time.monotonic() + record.grace
    while is_alive(record.identity) and time.monotonic() < deadline:
        time.sleep(0.05)
    kill_group(record)


def kill_group(record: Record) -> None:
    """SIGKILL to what is left of the group this process led."""
    current = identify(record.pid)
    if current is not None and current != record.identity:
        return  # the pid is somebody else's by now
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(record.pid, signal.SIGKILL)


def end_leftovers(run_dir: Path) -> list[str]:
    """End what a supervisor that was killed left behind; the names of the parts that were found."""
    found = []
    for path in sorted(run_dir.glob("*.json")):
        record = load_record(path)
        if record is not None and is_alive(record.identity):
            end_process(record)
            found.append(path.stem)
        path.unlink(missing_ok=True)
    return found


def _send(pid: int, number: int, record: Record) -> None:
    if is_alive(record.identity):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
