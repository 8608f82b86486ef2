"""Which port each server listens on: configured, else remembered, else preferred, else any free one."""

import json
import random
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from devstack.errors import PortInvalid, PortTaken
from devstack.files import write_private

VARIABLES = {
    "postgres": "GIVEWAY_PG_PORT",
    "amqp": "GIVEWAY_AMQP_PORT",
    "temporal": "GIVEWAY_TEMPORAL_PORT",
    "temporal_ui": "GIVEWAY_TEMPORAL_UI_PORT",
    "api": "GIVEWAY_API_PORT",
    "hub": "GIVEWAY_HUB_PORT",
    "metrics": "GIVEWAY_METRICS_PORT",
}
PREFERRED = {
    "postgres": 5432,
    "amqp": 5672,
    "temporal": 7233,
    "temporal_ui": 8233,
    "api": 8080,
    "hub": 8081,
    "metrics": 8082,
}
# The ports of the application's own processes, taken before anything is started.
APP_PORTS = ("api", "hub", "metrics")

# Below the ephemeral range: a remembered port must not be lent to an outgoing connection meanwhile.
_FREE_RANGE = range(20_000, 32_000)


@dataclass(frozen=True, slots=True)
class AppPorts:
    """Where the API and the hub listen, and where the worker shows its metrics (0: nowhere)."""

    api: int
    hub: int
    metrics: int = 0


def is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Servers set this too; without it a connection in TIME_WAIT would count as a listener.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen(1)
        except OSError:
            return False
    return True


def _claim(port: int) -> socket.socket | None:
    """Keep a port from the other stacks of this machine until the claim is closed; None: another one has it.

    Between choosing a port and listening there are seconds. The name lies in the kernel's abstract namespace, which
    is as wide as the ports themselves, and is free again when its process ends, however it ends.
    """
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0giveway-port-{port}")
    except OSError:
        claim.close()
        return None
    return claim


class PortBook:
    """The ports of one state folder, kept in its `ports.json`; nobody else's until it is closed."""

    def __init__(self, state_dir: Path, environ: Mapping[str, str], preferred: Mapping[str, int]) -> None:
        self._path = state_dir / "ports.json"
        self._environ = environ
        self._preferred = {**PREFERRED, **preferred}
        self._taken: dict[str, int] = {}
        self._claims: list[socket.socket] = []

    def take(self, name: str) -> int:
        """This server's port. Taken once, it stays the same for this book's life."""
        if name not in self._taken:
            configured = self._configured(name)
            self._taken[name] = configured if configured else self._choose(name)
        return self._taken[name]

    def close(self) -> None:
        """The servers have ended: other stacks may choose these ports."""
        for claim in self._claims:
            claim.close()
        self._claims.clear()
        self._taken.clear()

    def _is_ours(self, port: int) -> bool:
        claim = _claim(port) if is_free(port) else None
        if claim is not None:
            self._claims.append(claim)
        return claim is not None

    @property
    def taken(self) -> dict[str, int]:
        """Every port taken so far, by name."""
        return dict(self._taken)

    def _configured(self, name: str) -> int | None:
        variable = VARIABLES.get(name, "")
        value = self._environ.get(variable, "")
        if not value:
            return None
        port = _parse(variable, value)
        if not self._is_ours(port):
            raise PortTaken(
                f"port {port} (set by {variable}) is in use by another process",
                f"stop that process, or set {variable} to a free port, or unset it to have one chosen",
            )
        return port

    def _choose(self, name: str) -> int:
        remembered = self._remembered()
        wanted = [remembered.get(name), self._preferred.get(name)]
        candidates = [port for port in wanted if port] + random.sample(_FREE_RANGE, 200)
        others = {port for other, port in remembered.items() if other != name} | set(self._taken.values())
        for port in candidates:
            if port not in others and self._is_ours(port):
                self._remember(remembered | {name: port})
                return port
        raise PortTaken(f"no free port was found for {name}", f"set {VARIABLES.get(name, 'a port')} to a free one")

    def _remembered(self) -> dict[str, int]:
        try:
            content = json.loads(self._path.read_text())
        except (OSError, ValueError):
            return {}
        if not isinstance(content, dict):
            return {}
        return {name: port for name, port in content.items() if isinstance(port, int)}

    def _remember(self, ports: Mapping[str, int]) -> None:
        write_private(self._path, json.dumps(dict(ports), indent=2))


def _parse(variable: str, value: str) -> int:
    if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= 65535:
        raise PortInvalid(f"{variable}={value!r} is not a port", "give a number from 1 to 65535, or unset it")
    return int(value)
