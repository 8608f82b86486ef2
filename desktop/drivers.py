"""Which driver answers the questions of which desktop (2-desktop §2.4).

`replay` and `api` are one driver for all desktops of a process: they share its recordings, or its key and rate limits.
The browser gives every desktop its own, with its own login.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from desktop.driver import Driver
from desktop.openai.endpoints import Endpoints
from desktop.recorded import load_answers, samples_folder
from desktop.replay import ReplayDriver
from domain.errors import GivewayError

if TYPE_CHECKING:
    from desktop.browser.options import BrowserOptions

NO_PLAYWRIGHT: Final = "the browser driver needs Playwright and a Chromium: pip install 'giveway[browser]'"

DriverFor = Callable[[str], Driver]
"""The driver of a client id."""

OpenDrivers = Callable[[], AbstractAsyncContextManager[DriverFor]]
"""Opened once a process; closed when its desktops have ended."""


class DriverKind(StrEnum):
    """What can answer questions."""

    REPLAY = "replay"
    API = "api"
    BROWSER = "browser"


class DriverUnavailable(GivewayError):
    """What a driver needs is not installed; the message says how to install it."""

    code = "driver_unavailable"


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """Recorded answers: a folder, or None for the shipped samples. `speed` 2.0: twice as fast, 0: no time at all."""

    answers: Path | None = None
    speed: float = 1.0


def replay_drivers(options: ReplayOptions) -> OpenDrivers:
    """Raises AnswersFolderMissing or NoRecordedAnswers now, not when the desktops are connected."""
    driver = ReplayDriver(load_answers(options.answers or samples_folder()), speed=options.speed)
    return lambda: _shared(driver)


def api_drivers(endpoints: Endpoints) -> OpenDrivers:
    """OpenAI-compatible endpoints, by platform."""
    from desktop.openai.driver import api_driver

    @asynccontextmanager
    async def opened() -> AsyncIterator[DriverFor]:
        async with api_driver(endpoints) as driver:
            yield lambda _client_id: driver

    return opened


def browser_drivers(options: "BrowserOptions") -> OpenDrivers:
    """Chromium through site adapters. Raises DriverUnavailable without Playwright."""
    try:
        from desktop.browser.driver import browser_driver
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] != "playwright":
            raise
        raise DriverUnavailable(NO_PLAYWRIGHT) from missing
    return lambda: browser_driver(options)


@asynccontextmanager
async def _shared(driver: Driver) -> AsyncIterator[DriverFor]:
    yield lambda _client_id: driver
