"""HTTP calls that the server makes through a page of the site, in the person's session (4-automation; ADR 0054).

The page's own `fetch` makes them: only to the site's own origin, and only to paths that the adapter allows (`calls`),
from pages that it allows (`call_pages`). Chromium resolves the addresses, so that nobody else's reading of an address
counts; paths that servers read in several ways are refused.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import unquote

from playwright.async_api import Error, Page

from desktop.browser.health import Health, Sessions
from desktop.browser.look import Eye
from desktop.browser.profile import Profile, close_page
from desktop.browser.site import Site
from desktop.browser.traffic import Traffic
from desktop.driver import DriverFailure
from domain.protocol import ProxyRequest
from domain.protocol_catalogue import ProxyError
from domain.proxying import ProxyAnswer

# Of an answer's body: what REST takes at most.
MOST_BYTES: Final = 1024 * 1024
_CLOSED_TO_US: Final = (Health.BLOCKED, Health.HUMAN_CHECK, Health.LOGIN_REQUIRED)

RESOLVE: Final = """([start, page, target]) => {
    try {
        const urls = [start, page, target].map(each => new URL(each, start))
        return urls.map(({origin, href, pathname}) => ({origin, href, pathname}))
    } catch { return null }
}"""

FETCH: Final = """async ({origin, href, method, headers, body, most}) => {
    const failed = (error, reason) => ({error, message: String(reason).slice(0, 200)})
    if (location.origin !== origin) return failed('no_page', 'the page is of ' + location.origin)
    const ours = {credentials: 'same-origin', mode: 'same-origin', redirect: 'manual'}
    const init = {method, headers, body: body ?? undefined, ...ours}
    try {
        const request = new Request(href, init)
        const dropped = Object.keys(headers).find(name => !request.headers.has(name))
        if (dropped) return failed('unsupported_request', 'no page can send the header ' + dropped)
    } catch (reason) { return failed('unsupported_request', reason) }
    try {
        const response = await fetch(href, init)
        if (response.type === 'opaqueredirect') return failed('address_refused', 'the site redirects')
        const reader = response.body?.getReader()
        const chunks = []
        for (let size = 0; reader;) {
            const {done, value} = await reader.read()
            if (done) break
            if ((size += value.length) > most) { reader.cancel(); return failed('body_too_large', size) }
            chunks.push(value)
        }
        const text = new TextDecoder().decode(await new Blob(chunks).arrayBuffer())
        return {status: response.status, headers: Object.fromEntries(response.headers), body: text}
    } catch (reason) { return failed('network_error', reason) }
}"""


async def fetch(site: Site, profile: Profile, sessions: Sessions, request: ProxyRequest) -> ProxyAnswer:
    """Open a page, make the call on it, close it. What goes wrong is an answer; cancelled, it leaves no page."""
    try:
        async with _page(profile) as page:
            return await _on(page, site, sessions, request)
    except (DriverFailure, Error, TimeoutError) as error:
        # Playwright's own words would name addresses with secrets in them.
        return ProxyAnswer(error=ProxyError.NO_PAGE, message=type(error).__name__)


async def _on(page: Page, site: Site, sessions: Sessions, request: ProxyRequest) -> ProxyAnswer:
    where = await page.evaluate(RESOLVE, [site.start_url, request.page_url or site.start_url, request.url])
    if where is None or not _allowed(site, where):
        return ProxyAnswer(error=ProxyError.ADDRESS_REFUSED)
    start, opened, target = where
    eye = Eye(page, site, Traffic(None))
    eye.open()
    await page.goto(opened["href"], wait_until="domcontentloaded", timeout=0)
    if (health := await eye.health()) in _CLOSED_TO_US:
        sessions.note(site.platforms, health)
        return ProxyAnswer(error=ProxyError.NO_PAGE, message=health)
    answer: dict[str, Any] = await page.evaluate(
        FETCH,
        {
            "origin": start["origin"],
            "href": target["href"],
            "method": request.method,
            "headers": request.headers,
            "body": request.body,
            "most": MOST_BYTES,
        },
    )
    return ProxyAnswer(**answer)


def _allowed(site: Site, where: list[dict[str, str]]) -> bool:
    """All of the site's own origin, and the call's path, and its page's, among those that the adapter names."""
    start, opened, target = where
    return (
        len({each["origin"] for each in where}) == 1
        and (opened["href"] == start["href"] or _named(site.call_pages, opened["pathname"]))
        and _named(site.calls, target["pathname"])
    )


def _named(patterns: Sequence[str], path: str) -> bool:
    return _is_plain(path) and any(re.match(each, path) for each in patterns)


def _is_plain(path: str) -> bool:
    """False where decoding, once or twice, gives other segments: `..%2f`, `%5c`, `..;`, U+0000."""
    decoded = unquote(unquote(path))
    segments = [each.partition(";")[0] for each in decoded.split("/")]
    return decoded.count("/") == path.count("/") and not {".", ".."} & set(segments) and not set("\\\0") & set(decoded)


@asynccontextmanager
async def _page(profile: Profile) -> AsyncIterator[Page]:
    """A page, closed afterwards also when it is only being opened."""
    opening = asyncio.create_task(profile.open_page(), name="open page")
    try:
        yield await asyncio.shield(opening)
    finally:
        await asyncio.wait([opening])
        if opening.exception() is None:
            await close_page(opening.result())
