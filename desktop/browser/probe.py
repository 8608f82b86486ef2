"""Looks again at logins that were not healthy: the server sends no work there, so no task would find out."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from playwright.async_api import Error, Page

from desktop.browser.health import Health, Sessions
from desktop.browser.look import Eye
from desktop.browser.options import BrowserOptions
from desktop.browser.profile import Profile, close_page
from desktop.browser.site import Site
from desktop.browser.traffic import Traffic
from desktop.driver import DriverFailure

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 30.0


class Prober:
    """Opens the start page of one desktop's sites when it is time. `in_use`: a task's page looks anyway."""

    def __init__(
        self, options: BrowserOptions, profile: Profile, sessions: Sessions, in_use: Callable[[Site], bool]
    ) -> None:
        self._options = options
        self._profile = profile
        self._sessions = sessions
        self._in_use = in_use

    async def look(self) -> None:
        """Look at every site that is due. Never raises for what a site or the browser does."""
        for platform in self._sessions.due(self._options.probe_every):
            site = self._options.sites.get(platform)
            if site is None or self._in_use(site):
                continue
            try:
                await self._look_at(site, Health(self._sessions.known()[platform]))
            except (DriverFailure, Error, TimeoutError) as error:
                log.warning("%s: the login could not be looked at: %s", site.name, type(error).__name__)
                self._sessions.note(site.platforms, Health(self._sessions.known()[platform]))

    async def _look_at(self, site: Site, before: Health) -> None:
        await self._profile.take_new_login()
        opening = asyncio.create_task(self._profile.open_page())
        try:
            page = await asyncio.shield(opening)
            async with asyncio.timeout(LOOK_SECONDS):
                health = await self._health(site, page)
        finally:
            await _closed(opening)
        self._sessions.note(site.platforms, health or before)
        log.info("%s: the login is %s", site.name, health or "not to be seen")

    async def _health(self, site: Site, page: Page) -> Health:
        eye = Eye(page, site, Traffic(None))
        eye.open()
        await page.goto(site.start_url, wait_until="domcontentloaded")
        while (health := await eye.health()) is None:
            await asyncio.sleep(self._options.poll)
        return health


async def _closed(opening: asyncio.Task[Page]) -> None:
    """Close the page, also one that is only being opened."""
    await asyncio.wait([opening])
    if opening.exception() is None:
        await close_page(opening.result())
