"""What a page shows, in the adapter's terms. Looking waits for nothing, and changes nothing on the page."""

import asyncio
import re
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from playwright.async_api import Error, Page, Request, Response

from desktop.browser.health import Health
from desktop.browser.site import Sign, Site
from desktop.browser.traffic import Traffic
from desktop.driver import DriverFailure

TOO_MANY: Final = 429
_QUERY: Final = re.compile(r"(\bhttps?://[^\s\"'?#]*)[?#][^\s\"']*")
TEXT: Final = "element => (element.innerText || '').slice(0, 20000)"

# A page that hangs, or whose next one does not come, answers nothing.
ANSWER_SECONDS: Final = 3.0

AnySign = TypeVar("AnySign", bound=Sign)
Seen = TypeVar("Seen")


# Without slots: Playwright keeps something of its own on the object whose method is a handler.
@dataclass
class Eye:
    """Looks at one page. `status`: of the page as last loaded; `crashed`: its renderer has died."""

    page: Page
    site: Site
    traffic: Traffic
    status: int | None = None
    crashed: bool = False
    popups: list[Page] = field(default_factory=list)
    _loading: Request | None = None
    _loaded: bool = False

    def open(self) -> None:
        """Follow the page's own events."""
        self.page.on("crash", self._on_crash)
        self.page.on("response", self._on_response)
        self.page.on("popup", self._on_popup)
        self.page.on("request", self._on_request)
        self.page.on("requestfailed", self._on_request_failed)
        self.page.on("domcontentloaded", self._on_loaded)

    async def health(self) -> Health | None:
        """How the login stands; None while the page shows neither way."""
        self.alive()
        for signs, health in (
            (self.site.blocked, Health.BLOCKED),
            (self.site.human_check, Health.HUMAN_CHECK),
            (self.site.login.required, Health.LOGIN_REQUIRED),
            (self.site.login.signed_in, Health.HEALTHY),
        ):
            if await self.first(signs) is not None:
                return health
        return None

    async def trouble(self) -> DriverFailure | None:
        """The failure that the page or the answer's request shows, if one does."""
        self.alive()
        found = await self.first(self.site.errors)
        if found is not None:
            return DriverFailure(found.code)
        return self._bad_answer() or self._bad_page()

    async def first(self, signs: Iterable[AnySign]) -> AnySign | None:
        """The first of the signs that the page shows."""
        for sign in signs:
            if await self._shows(sign):
                return sign
        return None

    async def visible(self, selector: str) -> bool:
        """Whether the last of what the selector finds is visible."""
        return await self.asked(self.page.locator(selector).last.is_visible(), False)

    async def gone(self, selector: str) -> bool:
        """Whether the page says that it is not visible: one that says nothing may still show it."""
        return not await self.asked(self.page.locator(selector).last.is_visible(), True)

    async def text(self, selector: str) -> str:
        """The visible text of the last of what the selector finds; empty where there is none."""
        return await self.last(selector, TEXT)

    async def last(self, selector: str, script: str) -> str:
        """What the script says of the last of what the selector finds; empty where there is none."""
        found = self.page.locator(selector)
        return str(await self.asked(found.last.evaluate(script), "")) if await self.count(selector) else ""

    async def count(self, selector: str) -> int:
        """How many the selector finds."""
        return await self.asked(self.page.locator(selector).count(), 0)

    async def asked(self, asking: Awaitable[Seen], otherwise: Seen) -> Seen:
        """The page's answer; `otherwise` where it has none, since it is on its way to another page or hangs.

        DriverFailure where it is gone.
        """
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await asking
        except (Error, TimeoutError):
            self.alive()
            return otherwise

    def alive(self) -> None:
        """DriverFailure where the page is gone."""
        if self.crashed:
            raise DriverFailure("page_crashed")
        if not self.browser_runs:
            raise DriverFailure("browser_crashed")
        if self.page.is_closed():
            raise DriverFailure("page_closed")

    @property
    def redirected(self) -> bool:
        """The page is being sent to another one than we opened, and that is not there yet: a login is often so."""
        return self._loading is not None and (self._loaded or self._loading.redirected_from is not None)

    @property
    def browser_runs(self) -> bool:
        browser = self.page.context.browser
        return browser is not None and browser.is_connected()

    async def _shows(self, sign: Sign) -> bool:
        """All that the sign gives holds; what costs nothing is asked first."""
        answer = self.traffic.answer
        if sign.status is not None and self.status not in sign.status:
            return False
        if sign.answer_status is not None and (answer is None or answer.status not in sign.answer_status):
            return False
        if sign.url is not None and not re.search(sign.url, self.page.url):
            return False
        return await self._shows_inside(sign)

    async def _shows_inside(self, sign: Sign) -> bool:
        if sign.title is not None and not re.search(sign.title, await self.asked(self.page.title(), "")):
            return False
        if sign.selector is not None and not await self.visible(sign.selector):
            return False
        return sign.text is None or re.search(sign.text, await self.text(sign.selector or "body")) is not None

    def _bad_answer(self) -> DriverFailure | None:
        """What no rule of the adapter names, but a status or the network does."""
        call = self.traffic.answer
        if call is None:
            return None
        if call.failed is not None:
            return DriverFailure("answer_cut", call.failed)
        if call.status is not None and call.status >= 400:
            return _of_status(call.status)
        return None

    def _bad_page(self) -> DriverFailure | None:
        if self.status is not None and (self.status >= 500 or self.status == TOO_MANY):
            return _of_status(self.status)
        return None

    def _on_popup(self, popup: Page) -> None:
        self.popups.append(popup)

    def _on_crash(self, _: Page) -> None:
        self.crashed = True

    def _on_response(self, response: Response) -> None:
        if self._is_of_the_page(response.request):
            self.status = response.status

    def _on_request(self, request: Request) -> None:
        if self._is_of_the_page(request):
            self._loading = request

    def _on_request_failed(self, request: Request) -> None:
        if request is self._loading:
            self._loading = None

    def _on_loaded(self, _: Page) -> None:
        self._loading, self._loaded = None, True

    def _is_of_the_page(self, request: Request) -> bool:
        return request.is_navigation_request() and request.frame == self.page.main_frame


def network_error(error: Error) -> str:
    """The network's own name for it (`net::ERR_…`), without the address, which may hold what is secret."""
    name = next((word for word in error.message.split() if word.startswith("net::")), type(error).__name__)
    return name.rstrip(",;:")


def first_line(error: Error) -> str:
    """What Playwright says, for logs: without the queries of addresses, which may hold what is secret."""
    return _QUERY.sub(r"\1", error.message.split("\n", 1)[0])


def _of_status(status: int) -> DriverFailure:
    return DriverFailure("rate_limited" if status == TOO_MANY else "site_error", f"status {status}")
