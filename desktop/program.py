"""`giveway desktop`: registers clients once, keeps their device tokens, and runs them (2-desktop §2.4)."""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import msgspec

from desktop.client import http_client
from desktop.config import DesktopConfig
from desktop.connection import ConnectionRefused
from desktop.driver import Driver
from desktop.fleet import run_fleet
from domain.errors import GivewayError, Unauthorized

REGISTERED: Final = "registered.json"


class Registered(msgspec.Struct, frozen=True):
    """A client of this machine, as the server told it at its registration."""

    api_url: str
    client_id: str
    token: str
    ws_url: str
    name: str


class NotRegistered(GivewayError):
    """The server refused to register a desktop: the token, its role or the workspace."""

    code = "not_registered"


class _Problem(msgspec.Struct):
    """What is read of an RFC 9457 problem."""

    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class Fleet:
    """Which desktops to run. `user_token` is only needed while clients are registered for the first time."""

    api_url: str
    state_dir: Path
    count: int
    driver: Driver
    workspace_id: int | None = None
    user_token: str | None = None
    max_concurrent: int = 2


async def run_desktops(fleet: Fleet, stop: asyncio.Event) -> list[ConnectionRefused]:
    """Run the fleet until `stop`; the answer names the clients that the server refused."""
    known = [client for client in _read(fleet.state_dir) if client.api_url == fleet.api_url]
    missing = range(len(known), fleet.count)
    registered = [*known, *await _register(fleet, missing)] if missing else known[: fleet.count]
    return await run_fleet([_config(fleet, one) for one in registered], stop=stop)


def _config(fleet: Fleet, client: Registered) -> DesktopConfig:
    return DesktopConfig(
        client_id=client.client_id,
        token=client.token,
        ws_url=client.ws_url,
        api_url=fleet.api_url,
        state_dir=fleet.state_dir,
        driver=fleet.driver,
        max_concurrent=fleet.max_concurrent,
        name=client.name,
    )


async def _register(fleet: Fleet, numbers: range) -> list[Registered]:
    if fleet.user_token is None or fleet.workspace_id is None:
        raise Unauthorized("give --token and --workspace: new desktops are registered by a signed-in user")
    async with http_client(fleet.api_url) as http:
        made = [await _register_one(fleet, http, f"desktop-{number + 1}") for number in numbers]
    return made


async def _register_one(fleet: Fleet, http: httpx.AsyncClient, name: str) -> Registered:
    response = await http.post(
        f"{fleet.api_url}/api/desktop/clients",
        json={"workspace_id": fleet.workspace_id, "name": name},
        headers={"Authorization": f"Bearer {fleet.user_token}"},
    )
    if response.is_error:
        raise NotRegistered(f"the server did not register {name}: {_said(response)}")
    answer = response.json()
    client = Registered(fleet.api_url, answer["client_id"], answer["token"], answer["ws_url"], name)
    _write(fleet.state_dir, [*_read(fleet.state_dir), client])
    return client


def _said(response: httpx.Response) -> str:
    """The problem's own words; of an answer that is none, its status."""
    try:
        problem = msgspec.json.decode(response.content, type=_Problem)
    except msgspec.MsgspecError:
        return f"it answered {response.status_code}"
    return f"{problem.detail} ({response.status_code} {problem.code})"


def _read(state_dir: Path) -> list[Registered]:
    path = state_dir / REGISTERED
    return msgspec.json.decode(path.read_bytes(), type=list[Registered]) if path.exists() else []


def _write(state_dir: Path, clients: list[Registered]) -> None:
    """Device tokens are secrets: readable by this user alone, replaced whole."""
    state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = state_dir / REGISTERED
    draft = path.with_suffix(".new")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(msgspec.json.encode(clients))
    draft.replace(path)
