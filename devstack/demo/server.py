"""The stack and the application the demo runs on: its own, or the one that `giveway up` left running."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from devstack import record
from devstack.apps import app_environment, app_parts
from devstack.ports import APP_PORTS, AppPorts
from devstack.record import Endpoints
from devstack.stack import Stack
from settings import Settings


@dataclass(frozen=True, slots=True)
class Server:
    """A running giveway: where it answers, and the settings that its own processes have."""

    api_url: str
    endpoints: Endpoints
    settings: Settings
    # The stack that this process supervises; None when another process does.
    stack: Stack | None


def describe(endpoints: Endpoints, state_dir: Path, ports: AppPorts, stack: Stack | None) -> Server:
    values = app_environment(endpoints, state_dir, ports)
    known = {name: values[name.upper()] for name in Settings.model_fields if name.upper() in values}
    return Server(f"http://127.0.0.1:{ports.api}", endpoints, Settings.model_validate(known), stack)


@asynccontextmanager
async def open_server(
    state_dir: Path, environ: Mapping[str, str], on_progress: Callable[[str], None]
) -> AsyncIterator[Server]:
    """Use the running stack of this state folder, or start one and stop it at the end."""
    running = record.find(state_dir)
    if running is not None and "api" in running.ports:
        on_progress("using the stack that is already running")
        ports = AppPorts(**{name: running.ports.get(name, 0) for name in APP_PORTS})
        yield describe(running.endpoints, state_dir, ports, None)
        return
    async with Stack(state_dir, environ=environ, on_progress=on_progress, reserve=APP_PORTS) as stack:
        ports = stack.app_ports()
        for part in app_parts(stack.endpoints, state_dir, ports, environ):
            await stack.supervise(part)
        yield describe(stack.endpoints, state_dir, ports, stack)
