"""`giveway desktop`: registers clients once, keeps their device tokens, and runs them (2-desktop §2.4)."""

import asyncio
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from desktop.config import DesktopConfig
from desktop.connection import ConnectionRefused
from desktop.drivers import DriverFor, OpenDrivers
from desktop.files import private_folder
from desktop.fleet import run_fleet
from desktop.registration import Registered, Registrar, Registry
from desktop.version import package_version
from domain import protocol
from domain.errors import InvalidInput

log = logging.getLogger(__name__)

LOCK: Final = "lock"
# New connections a second at the start; a server greets several times as many.
STARTS_PER_SECOND: Final = 50.0
# A socket each, the shared HTTP connections, a result being written, and what the process holds anyway.
FILES_PER_DESKTOP: Final = 2
FILES_BESIDE: Final = 400


class StateInUse(InvalidInput):
    """Another process runs the desktops of this folder."""

    code = "state_in_use"


@dataclass(frozen=True, slots=True)
class Fleet:
    """Which desktops to run. `user_token` is only needed while clients are registered for the first time.

    `finish`: when stopped, running questions come to their end first; otherwise what has no answer yet is given back.
    """

    api_url: str
    state_dir: Path
    count: int
    drivers: OpenDrivers
    workspace_id: int | None = None
    user_token: str | None = None
    max_concurrent: int = 2
    finish: bool = False


async def run_desktops(fleet: Fleet, stop: asyncio.Event) -> list[ConnectionRefused]:
    """Run the fleet until `stop`; the answer names the clients that the server refused."""
    with _alone(private_folder(fleet.state_dir)):
        _allow_files(fleet.count * FILES_PER_DESKTOP + FILES_BESIDE)
        async with fleet.drivers() as driver_for:
            registrar = Registrar(fleet.api_url, fleet.user_token, fleet.workspace_id)
            registered = await registrar.complete(Registry(fleet.state_dir), fleet.count, stop)
            configs = [_config(fleet, one, driver_for) for one in registered]
            return await run_fleet(configs, stop=stop, finish=fleet.finish, spread=start_spread(fleet.count))


def start_spread(count: int) -> float:
    """Seconds over which so many desktops connect: one heartbeat at most, so that their beats stay spread as evenly."""
    return min(float(protocol.HEARTBEAT_SECONDS), (count - 1) / STARTS_PER_SECOND)


def _config(fleet: Fleet, client: Registered, driver_for: DriverFor) -> DesktopConfig:
    return DesktopConfig(
        client_id=client.client_id,
        token=client.token,
        ws_url=client.ws_url,
        api_url=fleet.api_url,
        state_dir=fleet.state_dir,
        driver=driver_for(client.client_id),
        max_concurrent=fleet.max_concurrent,
        name=client.name,
        version=package_version(),
    )


@contextmanager
def _alone(state_dir: Path) -> Iterator[None]:
    """Two processes would replace each other's connections and post each other's results. Raises StateInUse."""
    descriptor = os.open(state_dir / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _lock(descriptor, state_dir)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, state_dir: Path) -> None:
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StateInUse(f"another process runs the desktops of {state_dir}: stop it, or give --state") from None


def _allow_files(needed: int) -> None:
    """Raise this process's own limit of open files as far as it may; the rest is the operator's."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return
    wanted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if wanted > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    if wanted < needed:
        log.warning("these desktops may need %d open files and the limit is %d: raise it (ulimit -n)", needed, hard)
