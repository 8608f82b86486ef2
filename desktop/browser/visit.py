"""One question on one page: what each phase does (2-desktop §2.3).

A phase that may be stopped is a generator: it yields where nothing is half done. The others are awaited whole:
signing in, a human check, and everything from the click that sends the question to the last word of the answer.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Final

from playwright.async_api import Error, Page

from desktop.browser.answering import Answering
from desktop.browser.clock import ClockStopped
from desktop.browser.hands import Hands
from desktop.browser.health import Health, Sessions
from desktop.browser.look import Eye, network_error
from desktop.browser.options import BrowserOptions
from desktop.browser.profile import Profile, close_page
from desktop.browser.site import Site
from desktop.browser.traffic import Traffic
from desktop.driver import Answer, DriverFailure
from domain.phases import Phase

SETTLE_SECONDS: Final = 1.0
# Whose ends and pauses are safe points, unless the page is in a login or a human check by then.
LOOKED_AFTER: Final = frozenset({Phase.NAVIGATING, Phase.INPUTTING})
# A page that answers no look while a person is waited for.
HUNG_SECONDS: Final = 30.0


class Visit:
    """A page and what has come of it. `open_page` runs in the background, so that a slow start can be left."""

    def __init__(self, site: Site, profile: Profile, sessions: Sessions, options: BrowserOptions) -> None:
        self.site = site
        self.began = time.time()
        self.eye: Eye | None = None
        self._profile = profile
        self._sessions = sessions
        self._options = options
        self._traffic = Traffic(site.answer.request)
        self._opening: asyncio.Task[Page] | None = None
        self._going: asyncio.Task[Any] | None = None
        self._steps: AsyncIterator[None] | None = None
        self._phase: Phase | None = None
        self._deadline = 0.0
        self._limit: asyncio.Timeout | None = None
        self._answering: Answering | None = None
        self._person_until: float | None = None
        self.unsafe = False

    # --- what the driver calls ------------------------------------------------------------------------------

    async def go(self, phase: Phase, question: str) -> bool:
        """The phase, or its next step; whether a step is left. TimeoutError, DriverFailure, Playwright's Error."""
        if phase is not self._phase:
            self._begin(phase, question)
        async with asyncio.timeout_at(self._deadline) as self._limit:
            more = await self._advance()
            self.unsafe = phase in LOOKED_AFTER and await self._on_its_way()
            return more

    @property
    def answer(self) -> Answer | None:
        """Set at the end of WAITING."""
        return self._answering.taken if self._answering is not None else None

    async def close(self) -> None:
        """The page is gone afterwards, whatever was under way."""
        self._traffic.stop()
        if self._going is not None:
            self._going.cancel()
            await asyncio.gather(self._going, return_exceptions=True)
        if self._opening is None:
            return
        # Never cancelled: a page that is being opened would then stay without anybody holding it.
        await asyncio.wait([self._opening])
        if not self._opening.cancelled() and self._opening.exception() is None:
            popups = self.eye.popups if self.eye is not None else []
            await asyncio.gather(*map(close_page, [*popups, self._opening.result()]))

    # --- phases ---------------------------------------------------------------------------------------------

    def _begin(self, phase: Phase, question: str) -> None:
        times = self.site.timeouts
        self._phase = phase
        self._deadline = (
            asyncio.get_running_loop().time()
            + {
                Phase.PREPARING: times.prepare,
                Phase.NAVIGATING: times.navigate,
                Phase.AUTHENTICATING: times.sign_in,
                Phase.INPUTTING: times.input,
                Phase.SUBMITTING: times.submit,
                Phase.WAITING: times.answer,
                Phase.PARSING: times.parse,
            }[phase]
        )
        self._steps = self._steps_of(phase, question)

    async def _advance(self) -> bool:
        assert self._steps is not None
        try:
            await anext(self._steps)
        except StopAsyncIteration:
            return False
        return True

    def _steps_of(self, phase: Phase, question: str) -> AsyncIterator[None]:
        match phase:
            case Phase.PREPARING:
                return self._prepare()
            case Phase.NAVIGATING:
                return self._navigate()
            case Phase.INPUTTING:
                return self._ask(question)
            case Phase.AUTHENTICATING:
                return _whole(self._sign_in)
            case Phase.SUBMITTING:
                return _whole(lambda: self._submit(question))
            case Phase.WAITING:
                return _whole(self._wait)
            case _:
                return _whole(self._finish)

    async def _prepare(self) -> AsyncIterator[None]:
        self._opening = asyncio.create_task(self._profile.open_page(), name="open page")
        async for _ in self._until(self._opening):
            yield
        self.eye = Eye(self._opening.result(), self.site, self._traffic)
        self.eye.open()
        await self._traffic.watch(self.eye.page)

    async def _navigate(self) -> AsyncIterator[None]:
        page = self._seen.page
        self._going = asyncio.create_task(self._open(page), name="navigate")
        async for _ in self._until(self._going):
            if await self._on_a_page_for_people():
                # The next phase's matter, which does not pause.
                return
            yield
        self._going.result()
        await self._hands.dismiss()

    async def _on_its_way(self) -> bool:
        """A login redirect or a human check is under way, or may be: stopped now, it would stay half done."""
        return self._seen.redirected or await self._on_a_page_for_people()

    async def _on_a_page_for_people(self) -> bool:
        if not self._seen.page.url.startswith("http"):
            return False
        health = await self._seen.health()
        return health is not None and health.needs_person

    async def _open(self, page: Page) -> None:
        try:
            await page.goto(self.site.start_url, wait_until="domcontentloaded", timeout=0)
        except Error as error:
            if not page.url.startswith("http"):
                raise DriverFailure("navigation_failed", network_error(error)) from error
            # A script sent it on meanwhile; where it is now is looked at.

    async def _sign_in(self) -> None:
        """Until somebody is signed in; waits for a person where one is needed."""
        while (health := await self._seen.health()) is not Health.HEALTHY:
            if health is not None:
                await self._unhealthy(health)
            elif (trouble := await self._seen.trouble()) is not None:
                raise trouble
            await self._hands.dismiss()
            await asyncio.sleep(self._options.poll)
        self._sessions.note(self.site.platforms, Health.HEALTHY)
        if self._person_until is not None:
            await self._profile.save(at_once=True)

    async def _ask(self, question: str) -> AsyncIterator[None]:
        for step in self.site.new_conversation:
            await self._attended(self._hands.do(step), self._helped)
            yield
        written = False
        while not written:
            await self._field_ready()
            async for _ in self._hands.write(question):
                yield
                if await self._helped():
                    break
            else:
                written = True
        await self._hands.check_written(question)

    async def _submit(self, question: str) -> None:
        await self._hands.dismiss()
        if await self._interrupted():
            await self._hands.check_written(question)
        self._answering = Answering(self._seen)
        await self._answering.before()
        await self._attended(self._hands.submit(), self._interrupted)

    async def _wait(self) -> None:
        assert self._answering is not None
        while not await self._answering.there():
            if (trouble := await self._seen.trouble()) is not None:
                raise trouble
            await self._interrupted()
            await asyncio.sleep(self._options.poll)
        await self._traffic.settled(SETTLE_SECONDS)
        # A stream that broke off may look like an answer that has come to its end.
        if (trouble := await self._seen.trouble()) is not None:
            raise trouble
        await self._answering.take()

    async def _finish(self) -> None:
        self._sessions.note(self.site.platforms, Health.HEALTHY)
        await self._profile.save()

    # --- logins and human checks ----------------------------------------------------------------------------

    async def _attended(self, doing: Coroutine[Any, Any, None], look: Callable[[], Awaitable[object]]) -> None:
        """What is done may wait for what only a person can solve: the page is looked at meanwhile."""
        self._going = asyncio.create_task(doing, name="on the page")
        while not (await asyncio.wait([self._going], timeout=self._options.step))[0]:
            await look()
        self._going.result()

    async def _helped(self) -> bool:
        """Whether a person was needed, and has helped."""
        return await self._helped_with(await self._seen.health())

    async def _helped_with(self, health: Health | None) -> bool:
        if health is None or health is Health.HEALTHY:
            return False
        await self._unhealthy(health)
        return True

    async def _interrupted(self) -> bool:
        """Something came in the way once the question stands there: a check may pass, a login loses the question."""
        health = await self._seen.health()
        if health is Health.LOGIN_REQUIRED:
            self._sessions.note(self.site.platforms, health)
            raise DriverFailure(health.value, "signed out before the answer was there")
        return await self._helped_with(health)

    async def _unhealthy(self, health: Health) -> None:
        """Say so at once, so that no more work of this platform comes; then wait for a person where one can help."""
        self._sessions.note(self.site.platforms, health)
        if not health.needs_person:
            raise DriverFailure(health.value)
        if self._person_until is None:
            self._person_until = time.monotonic() + (self.site.timeouts.human or self._options.human_wait)
        async with self._clock_stopped():
            await self._person_helped(health, self._person_until)

    async def _person_helped(self, health: Health, until: float) -> None:
        while (now := await self._seen.health()) is None or now.needs_person:
            if now is not None and now is not health:
                health = now
                self._sessions.note(self.site.platforms, health)
            if time.monotonic() >= until:
                raise DriverFailure(health.value, "nobody helped in time")
            if await self._profile.take_new_login():
                await self._open(self._seen.page)
            await asyncio.sleep(self._options.poll)
        self._sessions.note(self.site.platforms, now)

    def _clock_stopped(self) -> ClockStopped:
        """A person's time is not the phase's."""
        assert self._limit is not None
        assert self._person_until is not None
        return ClockStopped(self._limit, self._person_until - time.monotonic() + HUNG_SECONDS, self._moved)

    def _moved(self, deadline: float) -> None:
        self._deadline = deadline

    # --- on the page ----------------------------------------------------------------------------------------

    @property
    def _seen(self) -> Eye:
        assert self.eye is not None
        return self.eye

    @property
    def _hands(self) -> Hands:
        return Hands(self._seen)

    async def _until(self, task: asyncio.Task[Any]) -> AsyncIterator[None]:
        """Yields after every step until the task is done; its error is raised."""
        while True:
            await asyncio.wait([task], timeout=self._options.step)
            if task.done():
                task.result()
                return
            yield

    async def _field_ready(self) -> None:
        while not await self._seen.visible(self.site.input.selector):
            await self._helped()
            if (trouble := await self._seen.trouble()) is not None:
                raise trouble
            await asyncio.sleep(self._options.poll)
        await self._hands.dismiss()


async def _whole(run: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """A phase without a pause."""
    await run()
    return
    yield
