"""Driver `browser`: one Chromium for all desktops of a process, a profile and a driver for each (2-desktop §2.4)."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final

from playwright.async_api import Error, Page
from playwright.async_api import TimeoutError as TooSlow

from desktop.browser.chromium import Chromium
from desktop.browser.evidence import Evidence, Failure
from desktop.browser.fetching import fetch
from desktop.browser.health import Health, Sessions
from desktop.browser.look import Eye, first_line, network_error
from desktop.browser.options import BrowserOptions
from desktop.browser.probe import Prober
from desktop.browser.profile import Profile
from desktop.browser.site import Site
from desktop.browser.visit import Visit
from desktop.driver import DriverFailure, RunContext
from domain.phases import Phase
from domain.protocol import ProxyRequest, TaskAvailable
from domain.protocol_catalogue import ProxyError
from domain.proxying import ProxyAnswer

log = logging.getLogger(__name__)

TOO_LATE: Final[Mapping[Phase, str]] = {
    Phase.PREPARING: "browser_unavailable",
    Phase.NAVIGATING: "navigation_timeout",
    Phase.AUTHENTICATING: "page_not_recognised",
    Phase.INPUTTING: "input_timeout",
    Phase.SUBMITTING: "submit_timeout",
    Phase.WAITING: "answer_timeout",
    Phase.PARSING: "parsing_timeout",
}
CLOSED_AT_ONCE: Final = 4


class BrowserDriver:
    """The driver of one desktop; serves several tasks at once, each on a page of its own.

    Failures, besides the codes that adapters name: those of `TOO_LATE`, `no_site`, `navigation_failed`,
    `login_required`, `human_check`, `blocked`, `input_rejected`, `rate_limited`, `site_error`, `answer_cut`,
    `answer_empty`, `answer_too_large`, `answer_unreadable`, `page_crashed`, `page_closed`, `browser_crashed`,
    `browser_error`.
    """

    def __init__(self, options: BrowserOptions, chromium: Chromium, client_id: str) -> None:
        home = options.state_dir / client_id
        self.profile = Profile(chromium, home)
        self._options = options
        self._chromium = chromium
        self._health = Sessions()
        self._evidence = Evidence(home)
        self._visits: set[Visit] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self.prober = Prober(options, self.profile, self._health, self._in_use)

    async def run_phase(self, phase: Phase, task: TaskAvailable, context: RunContext) -> bool:
        """One phase, or a step of it where it may be stopped."""
        visit = self._visit(task, context)
        try:
            more = await visit.go(phase, task.question)
            context.unsafe = visit.unsafe
        except (DriverFailure, Error, TimeoutError) as error:
            failure = _failure(error, phase, visit)
            raise DriverFailure(failure.code, await self._noted(failure, phase, task, visit)) from error
        if phase is Phase.WAITING:
            context.answer = visit.answer
        return more

    async def release(self, task: TaskAvailable, context: RunContext) -> None:
        """Close the page; it is closed also when this call is cancelled."""
        visit, context.resources = context.resources, None
        if isinstance(visit, Visit):
            closing = asyncio.create_task(self._close(visit), name=f"close page of {task.task_id}")
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
            await asyncio.shield(closing)

    def sessions(self) -> Mapping[str, str]:
        """As last seen; a platform that no page was opened of is absent."""
        return self._health.known()

    def healthy(self) -> bool:
        """Whether there is a browser to ask with."""
        return self._chromium.startable

    async def proxy(self, request: ProxyRequest) -> ProxyAnswer:
        """Make an HTTP call of the server's on a page of its own, where the platform's adapter allows it."""
        site = self._options.sites.get(request.platform)
        if site is None:
            return ProxyAnswer(error=ProxyError.UNSUPPORTED_PLATFORM)
        return await fetch(site, self.profile, self._health, request)

    async def close(self) -> None:
        """Close what is open and keep the login."""
        await asyncio.gather(*self._closing, *map(self._close, list(self._visits)), return_exceptions=True)
        await self.profile.close()

    def _visit(self, task: TaskAvailable, context: RunContext) -> Visit:
        if isinstance(context.resources, Visit):
            return context.resources
        site = self._options.sites.get(task.platform)
        if site is None:
            # Said in heartbeats as well, so that no more of these tasks come here.
            self._health.note([task.platform], Health.LOGIN_REQUIRED)
            known = ", ".join(sorted(self._options.sites))
            raise DriverFailure("no_site", f"no adapter names the platform {task.platform}; known: {known}")
        context.resources = visit = Visit(site, self.profile, self._health, self._options)
        self._visits.add(visit)
        return visit

    async def _close(self, visit: Visit) -> None:
        try:
            await visit.close()
        finally:
            self._visits.discard(visit)

    def _in_use(self, site: Site) -> bool:
        """A page of the site is open: it tells by itself."""
        return any(visit.site is site for visit in self._visits)

    async def _noted(self, failure: DriverFailure, phase: Phase, task: TaskAvailable, visit: Visit) -> str:
        """The failure's detail, with the name of the files that show the page."""
        facts = Failure(
            task.task_id, task.platform, visit.site.name, phase, failure.code, failure.detail, visit.began,
            visit.eye.status if visit.eye is not None else None,
        )  # fmt: skip
        kept = await self._evidence.keep(facts, _shown(visit.eye), await self._secrets(visit.eye))
        return "; ".join(filter(None, (failure.detail, f"see failures/{kept}" if kept else "")))

    async def _secrets(self, eye: Eye | None) -> frozenset[str] | None:
        """What the page's files must not hold; None where that cannot be told."""
        if _shown(eye) is None:
            return None
        try:
            return await self.profile.secrets()
        except (Error, TimeoutError):
            return None


def _failure(error: Exception, phase: Phase, visit: Visit) -> DriverFailure:
    """What went wrong, told by the state of page and browser rather than by the words of an error."""
    if visit.eye is not None:
        try:
            visit.eye.alive()
        except DriverFailure as gone:
            return gone
    if isinstance(error, DriverFailure):
        return error
    if isinstance(error, TimeoutError | TooSlow):
        return DriverFailure(TOO_LATE[phase])
    assert isinstance(error, Error)
    log.warning("Chromium: %s", first_line(error))
    code = "browser_error" if visit.eye is not None else "browser_unavailable"
    return DriverFailure(code, network_error(error))


def _shown(eye: Eye | None) -> Page | None:
    """The page, where there still is one to look at."""
    gone = eye is None or eye.crashed or eye.page.is_closed() or not eye.browser_runs
    return None if eye is None or gone else eye.page


DriverFor = Callable[[str], BrowserDriver]


@asynccontextmanager
async def browser_driver(options: BrowserOptions) -> AsyncIterator[DriverFor]:
    """Run Chromium; yields what makes the driver of each desktop, by its client id.

    Raises ChromiumMissing, NoDisplay and DriverFailure `browser_unavailable` before anything else starts. At the end
    every page is closed and every login kept.
    """
    chromium = Chromium(options.chromium, headed=options.headed)
    drivers: dict[str, BrowserDriver] = {}

    def driver_for(client_id: str) -> BrowserDriver:
        return drivers.setdefault(client_id, BrowserDriver(options, chromium, client_id))

    await chromium.browser()
    probing = asyncio.create_task(_probe(chromium, drivers, options.probe_every / 10), name="login probe")
    try:
        yield driver_for
    finally:
        probing.cancel()
        await asyncio.gather(probing, return_exceptions=True)
        await _close_all(drivers.values())
        await chromium.close()


async def _close_all(drivers: Iterable[BrowserDriver]) -> None:
    """A few at once: each asks Chromium for its storage, and hundreds would make each other late."""
    few = asyncio.Semaphore(CLOSED_AT_ONCE)

    async def close(driver: BrowserDriver) -> None:
        async with few:
            await driver.close()

    await asyncio.gather(*map(close, drivers), return_exceptions=True)


async def _probe(chromium: Chromium, drivers: Mapping[str, BrowserDriver], pause: float) -> None:
    """What no task finds out, since none is sent: a browser that starts again, a login that is well again."""
    while True:
        await asyncio.sleep(pause)
        if not chromium.startable:
            with suppress(DriverFailure):
                await chromium.browser()
        for driver in list(drivers.values()):
            await driver.prober.look()
