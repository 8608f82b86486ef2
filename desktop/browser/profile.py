"""One desktop's browser profile: a context of its own, with its login kept on disk (2-desktop §2.4)."""

import asyncio
import json
import logging
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from playwright.async_api import Browser, BrowserContext, Error, Page, StorageState

from desktop.browser.chromium import Chromium
from desktop.files import private_folder, write_whole

log = logging.getLogger(__name__)

LOGIN_FILE: Final = "browser-login.json"
SAVE_EVERY: Final = 60.0
ANSWER_SECONDS: Final = 1.5
STATE_SECONDS: Final = 5.0
CLOSE_SECONDS: Final = 10.0
_TOKEN: Final = re.compile(r"[A-Za-z0-9_~+/=.-]{16,}")


class Profile:
    """Opens the desktop's pages. `home`: its folder, where the login is kept (mode 0600)."""

    def __init__(self, chromium: Chromium, home: Path) -> None:
        self._chromium = chromium
        self._file = home / LOGIN_FILE
        self._context: BrowserContext | None = None
        self._browser: Browser | None = None
        self._lock = asyncio.Lock()
        # As the file was when it was last read or written here: another stamp is somebody's new login.
        self._stamp: tuple[int, int] | None = None
        self._saved_at = -SAVE_EVERY
        self._unsaved = False

    async def open_page(self) -> Page:
        """A new page, signed in as the kept login says. DriverFailure `browser_unavailable`."""
        async with self._lock:
            context = await self._current()
            await self._use_new_login(context)
            return await context.new_page()

    async def take_new_login(self) -> bool:
        """Use the login that somebody else has saved meanwhile (`giveway desktop login`); whether there was one."""
        async with self._lock:
            return self._context is not None and await self._use_new_login(self._context)

    async def save(self, *, at_once: bool = False) -> None:
        """Keep the login; at most every minute unless `at_once`. What goes wrong is logged: the answer is there."""
        if self._context is None:
            return
        self._unsaved = not at_once and time.monotonic() - self._saved_at < SAVE_EVERY
        if self._unsaved or await self.take_new_login():
            return
        self._saved_at = time.monotonic()
        try:
            state = await self._state(self._context, indexed_db=True)
            await asyncio.to_thread(self._write, json.dumps(state).encode())
        except (OSError, Error, TimeoutError) as error:
            log.error("the login cannot be kept in %s: %s", self._file, type(error).__name__)

    async def secrets(self) -> frozenset[str]:
        """Values of cookies and local storage: what must not stand in any file for people. Error, TimeoutError."""
        if self._context is None:
            return frozenset()
        state = await self._state(self._context)
        values = [cookie["value"] for cookie in state["cookies"]]
        values += [item["value"] for origin in state["origins"] for item in origin["localStorage"]]
        # Whole, and what looks like a token inside of a longer value.
        return frozenset(part for value in values for part in (value, *_TOKEN.findall(value)) if len(part) >= 6)

    async def close(self) -> None:
        """Keep the login and close the context."""
        if self._context is None or self._browser is None or not self._browser.is_connected():
            return
        with suppress(Error, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                if self._unsaved:
                    await self.save(at_once=True)
                await self._context.close()
        self._context = None

    async def _current(self) -> BrowserContext:
        browser = await self._chromium.browser()
        if self._context is None or browser is not self._browser:
            state, self._stamp = await asyncio.to_thread(self._read)
            self._context = await self._opened(browser, state)
            self._browser = browser
        return self._context

    async def _use_new_login(self, context: BrowserContext) -> bool:
        if self._stamp == self._stamp_now():
            return False
        state, self._stamp = await asyncio.to_thread(self._read)
        if state is None:
            return False
        try:
            await context.set_storage_state(state)
        except Error as error:
            # Its words may quote the login.
            log.error("the new login in %s cannot be used (%s): going on without it", self._file, type(error).__name__)
            return False
        log.info("%s was changed by somebody else: using that login", self._file)
        return True

    async def _opened(self, browser: Browser, state: Any) -> BrowserContext:
        try:
            return await browser.new_context(storage_state=state, accept_downloads=False)
        except Error as error:
            if state is None or not browser.is_connected():
                raise
            log.error("the login in %s cannot be used (%s): starting without one", self._file, type(error).__name__)
            return await browser.new_context(accept_downloads=False)

    async def _state(self, context: BrowserContext, *, indexed_db: bool = False) -> StorageState:
        """Cookies and storage. Error, TimeoutError: not while a page hangs, which would hold it up and leave a page."""
        async with asyncio.timeout(ANSWER_SECONDS):
            await asyncio.gather(*(page.evaluate("1") for page in context.pages))
        async with asyncio.timeout(STATE_SECONDS):
            return await context.storage_state(indexed_db=indexed_db)

    def _read(self) -> tuple[Any, tuple[int, int] | None]:
        stamp = self._stamp_now()
        try:
            return json.loads(self._file.read_bytes()), stamp
        except FileNotFoundError:
            return None, stamp
        except (OSError, ValueError) as error:
            log.error("the login in %s cannot be read (%s): starting without one", self._file, type(error).__name__)
            return None, stamp

    def _write(self, data: bytes) -> None:
        private_folder(self._file.parent)
        write_whole(self._file, data)
        self._stamp = self._stamp_now()

    def _stamp_now(self) -> tuple[int, int] | None:
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns


async def close_page(page: Page) -> None:
    """Close it whatever state it is in. One that does not close in time is given up with its renderer."""
    with suppress(Error):
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await page.close()
        except TimeoutError:
            log.error("a page did not close in %.0f s", CLOSE_SECONDS)
