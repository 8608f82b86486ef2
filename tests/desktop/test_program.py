"""A desktop's registration and its folder: kept, resumed, and what a person is told when something is refused."""

import asyncio
import json
import stat
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from desktop.drivers import DriverFor
from desktop.program import Fleet, StateInUse, run_desktops, start_spread
from desktop.registration import NotRegistered, Registered, Registrar, RegistrationsUnreadable, Registry
from domain import protocol
from domain.errors import Unauthorized
from domain.protocol import Hello
from tests.desktop.hub import TOKEN, Hub
from tests.desktop.stepdriver import StepDriver

REFUSALS = [
    ("404 Not Found", '{"code": "not_found", "detail": "no workspace 7"}', "no workspace 7 (404 not_found)"),
    ("502 Bad Gateway", "<html>no upstream</html>", "it answered 502"),
]


@asynccontextmanager
async def step_drivers() -> AsyncIterator[DriverFor]:
    yield lambda _client_id: StepDriver()


def fleet_of(address: str, folder: Path, count: int) -> Fleet:
    return Fleet(address, folder, count, step_drivers, workspace_id=7, user_token="t")


@dataclass
class Registrations:
    """A server that registers desktops, with answers to give first."""

    ws_url: str = ""
    troubles: list[tuple[str, str]] = field(default_factory=list)
    made: list[dict[str, object]] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    address: str = ""
    refuse_from: int | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.split("content-length:")[1].split("\r\n")[0])
        asked = json.loads(await reader.readexactly(length))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        status, body = self._answer(asked)
        self.at_once -= 1
        writer.write(f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()

    def _answer(self, asked: dict[str, object]) -> tuple[str, str]:
        if self.troubles:
            return self.troubles.pop(0)
        number = int(str(asked["name"]).split("-")[1])
        if self.refuse_from is not None and number >= self.refuse_from:
            return "403 Forbidden", '{"code": "forbidden", "detail": "too many"}'
        self.made.append(asked)
        return "201 Created", json.dumps({"client_id": f"c-{number}", "token": TOKEN, "ws_url": self.ws_url})


@pytest.fixture
async def server(hub: Hub) -> AsyncIterator[Registrations]:
    registrations = Registrations(hub.ws_url)
    async with await asyncio.start_server(registrations.serve, "127.0.0.1", 0) as listening:
        registrations.address = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        yield registrations


@pytest.mark.parametrize(("status", "body", "told"), REFUSALS)
async def test_a_refused_registration_says_what_the_server_said(
    status: str, body: str, told: str, server: Registrations, tmp_path: Path
) -> None:
    server.troubles = [(status, body)]
    with pytest.raises(NotRegistered) as refused:
        await run_desktops(fleet_of(server.address, tmp_path, 1), asyncio.Event())
    assert refused.value.message == f"the server did not register desktop-1: {told}"


async def test_a_server_that_is_busy_is_asked_again_when_it_says(server: Registrations, tmp_path: Path) -> None:
    server.troubles = [("429 Too Many Requests\r\nretry-after: 0", "{}"), ("503 Unavailable\r\nretry-after: 0", "{}")]
    await _registered(server, tmp_path, 1)
    assert [one.client_id for one in Registry(tmp_path).of(server.address)] == ["c-1"]


async def test_an_address_that_is_no_api_is_called_so(server: Registrations, tmp_path: Path) -> None:
    server.troubles = [("200 OK", "<html>hello</html>")]
    with pytest.raises(NotRegistered, match="is --api right"):
        await run_desktops(fleet_of(server.address, tmp_path, 1), asyncio.Event())


async def test_nobody_at_the_address_is_said_as_such(tmp_path: Path) -> None:
    with pytest.raises(NotRegistered, match="no answer from"):
        await run_desktops(fleet_of("http://127.0.0.1:9", tmp_path, 1), asyncio.Event())


async def test_new_desktops_need_a_signed_in_user(tmp_path: Path) -> None:
    with pytest.raises(Unauthorized, match="--token and --workspace"):
        await run_desktops(Fleet("http://127.0.0.1:9", tmp_path, 1, step_drivers), asyncio.Event())


async def test_registration_goes_on_where_a_refusal_ended_it(server: Registrations, tmp_path: Path) -> None:
    server.refuse_from = 21
    with pytest.raises(NotRegistered, match="too many"):
        await _registered(server, tmp_path, 30)
    assert len(Registry(tmp_path).of(server.address)) == 20
    server.refuse_from = None
    await _registered(server, tmp_path, 30)
    assert [one.name for one in Registry(tmp_path).of(server.address)] == [f"desktop-{n}" for n in range(1, 31)]
    assert len(server.made) == 30
    assert 1 < server.most_at_once <= 8


async def test_tokens_are_readable_by_their_owner_alone(server: Registrations, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "state"
    await _registered(server, folder, 1)
    assert stat.S_IMODE((folder / "registered.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


async def test_desktops_of_another_server_stay_in_the_file_and_at_home(hub: Hub, tmp_path: Path) -> None:
    ours = Registered(hub.api_url, "c-1", TOKEN, hub.ws_url, "desktop-1")
    Registry(tmp_path).add([Registered("http://elsewhere", "c-2", "t", "ws://elsewhere", "desktop-1"), ours])
    stop = asyncio.Event()
    running = asyncio.create_task(run_desktops(Fleet(hub.api_url, tmp_path, 1, step_drivers, max_concurrent=5), stop))
    await hub.connected()
    stop.set()
    assert await running == []
    [hello] = hub.of(Hello)
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert (hello.version, hello.max_concurrent) == (project["project"]["version"], 5)
    assert len(json.loads((tmp_path / "registered.json").read_text())) == 2


async def test_one_process_alone_runs_the_desktops_of_a_folder(hub: Hub, tmp_path: Path) -> None:
    Registry(tmp_path).add([Registered(hub.api_url, "c-1", TOKEN, hub.ws_url, "desktop-1")])
    stop = asyncio.Event()
    fleet = Fleet(hub.api_url, tmp_path, 1, step_drivers)
    running = asyncio.create_task(run_desktops(fleet, stop))
    await hub.connected()
    with pytest.raises(StateInUse):
        await run_desktops(fleet, stop)
    stop.set()
    await running
    await run_desktops(fleet, stop)


async def test_a_broken_file_of_tokens_is_named_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "registered.json").write_text('[{"api_url"')
    with pytest.raises(RegistrationsUnreadable, match=r"registered\.json"):
        await run_desktops(Fleet("http://127.0.0.1:9", tmp_path, 1, step_drivers), asyncio.Event())
    assert (tmp_path / "registered.json").read_text() == '[{"api_url"'


def test_starts_are_spread_over_one_heartbeat_at_most() -> None:
    assert start_spread(1) == 0.0
    assert start_spread(51) == pytest.approx(1.0)
    assert start_spread(1000) == protocol.HEARTBEAT_SECONDS


async def _registered(server: Registrations, folder: Path, count: int) -> None:
    """Register alone, without running anything."""
    await Registrar(server.address, "t", 7).complete(Registry(folder), count, asyncio.Event())
