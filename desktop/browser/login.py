"""Signs a desktop in to a site: a person does it in a window, and the login is kept for the driver."""

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from playwright.async_api import Error, Page

from desktop.browser.chromium import Chromium
from desktop.browser.health import Health
from desktop.browser.look import Eye, network_error
from desktop.browser.profile import LOGIN_FILE
from desktop.browser.site import Site
from desktop.browser.traffic import Traffic
from desktop.driver import DriverFailure
from desktop.files import private_folder, write_whole

State = Mapping[str, Any]


async def log_in(site: Site, home: Path, chromium: Chromium, *, patience: float, poll: float = 0.5) -> Health:
    """Open the site's start page and wait, `patience` seconds at most, until the page says that somebody is signed in.

    The login is then kept in the desktop's folder `home`. The answer is what the page showed last; a window that was
    closed counts as `login_required`. DriverFailure `browser_unavailable`, `navigation_failed`.
    """
    loaded = _read(home / LOGIN_FILE)
    browser = await chromium.browser()
    context = await browser.new_context(storage_state=loaded, no_viewport=True)  # type: ignore[arg-type]
    try:
        health = await _signed_in(site, await context.new_page(), patience, poll)
        if health is Health.HEALTHY:
            _keep(home, loaded, await context.storage_state(indexed_db=True))
        return health
    finally:
        with suppress(Error):
            await context.close()


def _keep(home: Path, loaded: State | None, now: State) -> None:
    private_folder(home)
    # Read again: a desktop that runs may have saved other sites' logins meanwhile.
    write_whole(home / LOGIN_FILE, json.dumps(merged(_read(home / LOGIN_FILE), loaded, now)).encode())


async def _signed_in(site: Site, page: Page, patience: float, poll: float) -> Health:
    eye, health = Eye(page, site, Traffic(None)), Health.LOGIN_REQUIRED
    try:
        async with asyncio.timeout(patience):
            await _open(page, site.start_url)
            while (seen := await eye.health()) is not Health.HEALTHY:
                health = seen or health
                await asyncio.sleep(poll)
        return Health.HEALTHY
    except TimeoutError:
        return health
    except DriverFailure:
        if page.is_closed():
            return health
        raise


async def _open(page: Page, url: str) -> None:
    try:
        await page.goto(url, wait_until="domcontentloaded", timeout=0)
    except Error as error:
        if not page.is_closed() and not page.url.startswith("http"):
            raise DriverFailure("navigation_failed", network_error(error)) from error
        # Somebody closed the window, or was quicker than the page: what it shows is looked at.


def merged(kept: State | None, loaded: State | None, now: State) -> State:
    """What is kept, with what the login has changed since it was loaded."""
    if kept is None or kept == loaded:
        return now
    return {
        "cookies": _changed(kept["cookies"], (loaded or {}).get("cookies", []), now["cookies"], _cookie_key),
        "origins": _changed(kept["origins"], (loaded or {}).get("origins", []), now["origins"], _origin_key),
    }


def _changed(kept: list[Any], loaded: list[Any], now: list[Any], key: Any) -> list[Any]:
    news = {key(item): item for item in now if item not in loaded}
    return [*(item for item in kept if key(item) not in news), *news.values()]


def _cookie_key(cookie: Mapping[str, Any]) -> tuple[str, str, str]:
    return cookie["name"], cookie["domain"], cookie["path"]


def _origin_key(origin: Mapping[str, Any]) -> str:
    return str(origin["origin"])


def _read(file: Path) -> State | None:
    try:
        state: State = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    return state
