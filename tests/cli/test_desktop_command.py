"""`giveway desktop`: options that fit the driver, and how the program ends (2-desktop §2.4)."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import typer

from commands.desktop_options import DriverChoice, open_drivers_of
from desktop.browser.sites import practice_file
from desktop.drivers import DriverKind, DriverUnavailable
from desktop.openai.endpoints import EndpointsInvalid, KeyMissing
from desktop.recorded import AnswersFolderMissing
from desktop.registration import Registered, Registry
from domain.protocol import Hello
from tests.cli.test_command import NOWHERE, REPOSITORY, run
from tests.desktop.frames import available
from tests.desktop.hub import TOKEN, Hub, running_hub

BASE_URL = "http://127.0.0.1:9/v1"


def choice(driver: DriverKind, **given: Any) -> DriverChoice:
    return DriverChoice(driver, Path("unused"), **given)


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        (choice(DriverKind.API, answers=Path(".")), "--answers belongs to --driver replay, not to api"),
        (choice(DriverKind.REPLAY, base_url=BASE_URL, key_env="K"), "--base-url, --key-env belongs to --driver api"),
        (choice(DriverKind.REPLAY, stream=False), "--stream belongs to --driver api"),
        (choice(DriverKind.REPLAY, sites=Path(".")), "--sites belongs to --driver browser"),
        (choice(DriverKind.API), "--endpoints FILE, or --base-url and --model"),
        (choice(DriverKind.API, base_url=BASE_URL), "--base-url and --model"),
        (choice(DriverKind.API, endpoints=Path("x"), model="m"), "leave out --model"),
        (choice(DriverKind.BROWSER), "--sites DIR"),
    ],
)
def test_options_that_do_not_fit_the_driver_say_what_does(chosen: DriverChoice, told: str) -> None:
    with pytest.raises(typer.BadParameter) as refused:
        open_drivers_of(chosen)
    assert told in refused.value.message


def test_what_a_driver_reads_is_checked_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(AnswersFolderMissing):
        open_drivers_of(choice(DriverKind.REPLAY, answers=tmp_path / "none"))
    with pytest.raises(EndpointsInvalid):
        open_drivers_of(choice(DriverKind.API, endpoints=tmp_path / "none"))
    with pytest.raises(EndpointsInvalid, match="options"):
        open_drivers_of(choice(DriverKind.API, base_url="host/v1", model="m"))


async def test_a_key_that_is_missing_is_found_before_a_desktop_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    opened = open_drivers_of(choice(DriverKind.API, base_url=BASE_URL, model="m", key_env="NO_SUCH_KEY"))
    with pytest.raises(KeyMissing, match="NO_SUCH_KEY"):
        async with opened():
            pass


@pytest.mark.parametrize("given", [{}, {"speed": 0.0}])
async def test_replay_and_api_share_one_driver_among_all_desktops(given: dict[str, Any]) -> None:
    for chosen in (choice(DriverKind.REPLAY, **given), choice(DriverKind.API, base_url=BASE_URL, model="m")):
        async with open_drivers_of(chosen)() as driver_for:
            assert driver_for("a") is driver_for("b")


def test_without_playwright_the_browser_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("desktop.browser.", "playwright"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "playwright", None)
    monkeypatch.setitem(sys.modules, "playwright.async_api", None)
    with pytest.raises(DriverUnavailable, match=r"pip install 'giveway\[browser\]'"):
        open_drivers_of(choice(DriverKind.BROWSER, sites=practice_file()))


def test_an_option_of_another_driver_is_wrong_usage() -> None:
    done = run("desktop", "--driver", "api", "--speed", "2", DATABASE_URL=NOWHERE)
    assert done.returncode == 2
    assert "--driver replay" in done.stderr
    assert "Traceback" not in done.stderr


@asynccontextmanager
async def program(hub: Hub, state: Path, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """The program with one registered desktop; connected when this is entered, ended with it."""
    Registry(state).add([Registered(hub.api_url, "c-1", TOKEN, hub.ws_url, "desktop-1")])
    arguments = ["desktop", "--api", hub.api_url, "--state", str(state), *options]
    running = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "cli", *arguments, cwd=REPOSITORY, env={**os.environ, "LOG_LEVEL": "ERROR"}
    )
    try:
        await hub.connected()
        yield running
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()


async def ended(running: asyncio.subprocess.Process) -> int:
    async with asyncio.timeout(30):
        return await running.wait()


async def test_one_signal_gives_work_back_and_ends_well(tmp_path: Path) -> None:
    async with running_hub() as hub, program(hub, tmp_path, "--speed", "0.001", "--concurrent", "1") as running:
        [hello] = hub.of(Hello)
        assert hello.max_concurrent == 1
        begun, waiting = available(), available()
        await hub.push(begun, waiting)
        await hub.until(lambda: bool(hub.called("start", begun.task_id)))
        running.send_signal(signal.SIGTERM)
        assert await ended(running) == 0
        assert {call.task_id: call.status for call in hub.called("cancel")} == {
            begun.task_id: 200,
            waiting.task_id: 200,
        }


async def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    async with running_hub() as hub, program(hub, tmp_path, "--speed", "0.001", "--finish") as running:
        begun, waiting = available(), [available(), available()]
        await hub.push(begun, *waiting)
        await hub.until(lambda: bool(hub.called("start", begun.task_id)))
        running.send_signal(signal.SIGTERM)
        # What waits is given back; what runs would take an hour to finish.
        await hub.until(lambda: bool(hub.called("cancel")))
        running.send_signal(signal.SIGTERM)
        assert await ended(running) == 130
        assert hub.called("cancel", begun.task_id) == []
