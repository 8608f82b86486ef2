"""One Chromium for all desktops of a process; started again when it has died (2-desktop §2.4)."""

import asyncio
import logging
import os
import shutil
import sys
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from typing import Final

from playwright.async_api import Browser, Error, Playwright, async_playwright

from desktop.driver import DriverFailure
from domain.errors import InvalidInput

log = logging.getLogger(__name__)

NAMES: Final = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
FLAGS: Final = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # /dev/shm is 64 MB in most containers: too little for pages, which then crash.
    "--disable-dev-shm-usage",
)
START_SECONDS: Final = 60.0
CLOSE_SECONDS: Final = 15.0


class ChromiumMissing(InvalidInput):
    """No Chromium to run, or none where it was said to be."""

    code = "chromium_missing"


class NoDisplay(InvalidInput):
    """A window was asked for on a machine that shows none."""

    code = "no_display"


def find_chromium(given: Path | None = None) -> Path:
    """The executable: the one given, else the distribution's. ChromiumMissing."""
    if given is not None:
        if not os.access(given, os.X_OK) or given.is_dir():
            raise ChromiumMissing(f"{given} is no executable; give --chromium the path of a Chromium")
        return given
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise ChromiumMissing("no Chromium found; install it (apt-get install chromium) or name it with --chromium")
    return Path(found)


class Chromium:
    """Holds the browser. `headed` shows its windows."""

    def __init__(self, executable: Path | None = None, *, headed: bool = False) -> None:
        self._executable = find_chromium(executable)
        self._headed = headed
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None
        self._starting: asyncio.Task[Browser] | None = None
        if headed and sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            raise NoDisplay("this machine shows no windows (DISPLAY is not set); run it where a screen is, or headless")

    async def browser(self) -> Browser:
        """The running browser, started where none runs. DriverFailure `browser_unavailable`."""
        if self._starting is None or (self._starting.done() and not self._runs):
            self._starting = asyncio.create_task(self._start(), name="chromium")
        # A caller that gives up must not leave it half started: the others wait for it too.
        return await asyncio.shield(self._starting)

    async def close(self) -> None:
        """End the browser and Playwright's own process."""
        if self._starting is not None:
            await asyncio.wait([self._starting])
        await self._stop()

    @property
    def startable(self) -> bool:
        """False after a start that failed, until one succeeds."""
        starting = self._starting
        return starting is None or not starting.done() or starting.exception() is None

    @property
    def _runs(self) -> bool:
        return self._browser is not None and self._browser.is_connected()

    async def _start(self) -> Browser:
        await self._stop()
        try:
            async with asyncio.timeout(START_SECONDS):
                self._playwright = await async_playwright().start()
                self._browser = await self._launch(self._playwright)
        except (Error, OSError, TimeoutError) as error:
            log.error("Chromium does not start: %s", error)
            await self._stop()
            raise DriverFailure("browser_unavailable", type(error).__name__) from error
        log.info("Chromium %s runs", self._browser.version)
        return self._browser

    async def _launch(self, playwright: Playwright) -> Browser:
        return await playwright.chromium.launch(
            executable_path=self._executable,
            args=[*FLAGS, *(["--no-sandbox"] if _is_root() else [])],
            headless=not self._headed,
            # Signals are this process's own matter: it closes the pages first.
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
        )

    async def _stop(self) -> None:
        browser, playwright = self._browser, self._playwright
        self._browser = self._playwright = None
        if browser is not None:
            await _ended(browser.close())
        if playwright is not None:
            await _ended(playwright.stop())


async def _ended(closing: Awaitable[None]) -> None:
    """What has died already cannot be closed, and what hangs is not waited for long."""
    with suppress(Error, TimeoutError):
        async with asyncio.timeout(CLOSE_SECONDS):
            await closing


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0
