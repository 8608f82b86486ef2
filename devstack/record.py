"""`stack.json`: which stack runs in a state folder, for whoever wants to find it."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from devstack.files import write_private
from devstack.process import Identity, identify, is_alive


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where the three services answer. `temporal_ui_url` is None for a server given by address."""

    database_url: str
    amqp_url: str
    temporal_address: str
    temporal_ui_url: str | None
    temporal_namespace: str


@dataclass(frozen=True, slots=True)
class Running:
    """A running stack: its endpoints, the embedded services, the process that supervises it."""

    endpoints: Endpoints
    embedded: tuple[str, ...]
    ports: Mapping[str, int]
    supervisor: Identity


def _path(state_dir: Path) -> Path:
    return state_dir / "stack.json"


def publish(state_dir: Path, endpoints: Endpoints, embedded: tuple[str, ...], ports: Mapping[str, int]) -> None:
    """Write `stack.json` for this process. It holds passwords, so it is private."""
    supervisor = identify(os.getpid())
    assert supervisor is not None
    running = Running(endpoints, embedded, dict(ports), supervisor)
    write_private(_path(state_dir), json.dumps(asdict(running), indent=2))


def withdraw(state_dir: Path) -> None:
    """Remove `stack.json`."""
    _path(state_dir).unlink(missing_ok=True)


def find(state_dir: Path) -> Running | None:
    """The stack that runs in this folder. A file left by a killed supervisor counts as none."""
    try:
        content = json.loads(_path(state_dir).read_text())
        running = Running(
            Endpoints(**content["endpoints"]),
            tuple(content["embedded"]),
            content["ports"],
            Identity(**content["supervisor"]),
        )
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return running if is_alive(running.supervisor) else None
