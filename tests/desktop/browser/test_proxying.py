"""The server's HTTP calls on pages of a site, in Chromium (4-automation; ADR 0054)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from desktop.browser.chromium import Chromium
from desktop.browser.driver import BrowserDriver
from desktop.browser.fetching import _on
from desktop.browser.health import Sessions
from desktop.browser.options import BrowserOptions
from desktop.practice_site.serve import served
from desktop.practice_site.site import PracticeSite
from desktop.proxying import Proxying
from domain.protocol import ProxyRequest
from tests.desktop.browser.conftest import OpenDesk
from tests.desktop.browser.practice import Desk, adapter

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.xdist_group("chromium")]


class LocalPages(PracticeSite):
    """A local site with endpoints that tell what reached them."""

    def __init__(self) -> None:
        super().__init__()
        self.reached: list[str] = []

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/", self.page),
                Route("/elsewhere", self.elsewhere),
                Route("/other", self.other, methods=["GET", "POST"]),
                Route("/api/{what}", self.api, methods=["GET", "POST"]),
            ]
        )

    async def page(self, _: Request) -> Response:
        answer = HTMLResponse("<!doctype html><title>Local</title><textarea id=question></textarea>")
        answer.set_cookie("session", "a-person", httponly=True)
        return answer

    async def elsewhere(self, request: Request) -> Response:
        return RedirectResponse(f"http://localhost:{request.url.port}/")

    async def other(self, _: Request) -> Response:
        self.reached.append("other")
        return PlainTextResponse("")

    async def api(self, request: Request) -> Response:
        what = request.path_params["what"]
        self.reached.append(what)
        match what:
            case "echo":
                body = (await request.body()).decode()
                told = {"method": request.method, "body": body, "cookie": request.cookies.get("session")}
                return JSONResponse({**told, "x": request.headers.get("x-mine")}, status_code=418)
            case "large":
                return PlainTextResponse("x" * (1024 * 1024 + 1))
            case "away":
                return RedirectResponse(f"http://localhost:{request.url.port}/api/stranger", status_code=307)
            case "inside":
                return RedirectResponse("/other", status_code=307)
            case "hang":
                await asyncio.Event().wait()
        return PlainTextResponse("a\0b\n")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def local() -> AsyncIterator[tuple[LocalPages, str]]:
    pages = LocalPages()
    async with served(pages) as url:
        yield pages, url


@pytest_asyncio.fixture(loop_scope="session")
async def driver(chromium: Chromium, local: tuple[LocalPages, str], tmp_path: Path) -> AsyncIterator[BrowserDriver]:
    pages, url = local
    pages.reached.clear()
    site = adapter(
        f"{url}/",
        calls=["/api/"],
        call_pages=["^/elsewhere$"],
        login={"signed_in": [{"selector": "#question"}], "required": []},
    )
    made = BrowserDriver(BrowserOptions(sites={"local": site}, state_dir=tmp_path), chromium, "desk")
    yield made
    await made.close()


def a_call(**changes: Any) -> ProxyRequest:
    fields = {"id": str(uuid4()), "task_id": "t", "platform": "local", "method": "GET", "url": "/api/plain", **changes}
    return ProxyRequest(**fields)


async def test_the_page_makes_the_call_in_the_persons_session(driver: BrowserDriver) -> None:
    assert isinstance(driver, Proxying)
    answer = await driver.proxy(a_call(method="POST", url="/api/echo", headers={"X-Mine": "1"}, body="grüezi"))
    assert (answer.status, answer.error) == (418, None)
    assert answer.headers["content-type"] == "application/json"
    assert answer.body == '{"method":"POST","body":"grüezi","cookie":"a-person","x":"1"}'
    plain = await driver.proxy(a_call())
    assert (plain.status, plain.headers["content-length"], plain.body) == (200, "4", "a\0b\n")


REFUSED = [
    {"url": "/other"},
    {"url": "/other?like=/api/"},
    {"url": "/api/../other"},
    {"url": "http://localhost:1/api/x"},
    {"url": "//evil.test/api/x"},
    {"url": "https:/\\evil.test/api/x"},
    {"url": "javascript:/api/"},
    {"url": "http://[/api/"},
    # Left as they are by Chromium, and read otherwise by many a server.
    {"url": "/api/..%2Fother"},
    {"url": "/api/..%5cother"},
    {"url": "/api/%252e%252e%252fother"},
    {"url": "/api/..;/other"},
    {"url": "/api/%00"},
    {"page_url": "/logout"},
    {"page_url": "http://localhost:1/"},
]


async def test_addresses_that_the_adapter_does_not_name_are_refused_and_reach_nobody(
    driver: BrowserDriver, local: tuple[LocalPages, str]
) -> None:
    site = driver._options.sites["local"]
    # One page for all of them, since none is opened.
    page = await driver.profile.open_page()
    answers = [await _on(page, site, Sessions(), a_call(**changes)) for changes in REFUSED]
    assert [answer.error for answer in answers] == ["address_refused"] * len(REFUSED)
    assert page.url == "about:blank"
    assert local[0].reached == []


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"page_url": "/elsewhere"}, "no_page"),
        ({"method": "TRACE"}, "unsupported_request"),
        ({"headers": {"Cookie": "session=another"}}, "unsupported_request"),
        ({"body": "x"}, "unsupported_request"),
        ({"platform": "unheard-of"}, "unsupported_platform"),
    ],
    ids=str,
)
async def test_what_a_page_must_not_or_cannot_send_reaches_nobody(
    driver: BrowserDriver, local: tuple[LocalPages, str], changes: dict[str, Any], error: str
) -> None:
    answer = await driver.proxy(a_call(**changes))
    assert (answer.error, answer.status) == (error, None)
    assert local[0].reached == []


@pytest.mark.parametrize("where", ["away", "inside"])
async def test_a_redirect_is_not_followed_since_the_adapter_names_paths(
    driver: BrowserDriver, local: tuple[LocalPages, str], where: str
) -> None:
    assert (await driver.proxy(a_call(method="POST", url=f"/api/{where}", body="x"))).error == "address_refused"
    assert local[0].reached == [where]


async def test_a_body_over_a_megabyte_is_too_large(driver: BrowserDriver) -> None:
    assert (await driver.proxy(a_call(url="/api/large"))).error == "body_too_large"


async def test_a_cancelled_call_leaves_no_page(driver: BrowserDriver, local: tuple[LocalPages, str]) -> None:
    calling = asyncio.create_task(driver.proxy(a_call(url="/api/hang")))
    async with asyncio.timeout(30):
        while local[0].reached != ["hang"]:
            await asyncio.sleep(0.01)
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    page = await driver.profile.open_page()
    assert page.context.pages == [page]


async def test_an_adapter_that_allows_no_calls_refuses_them(open_desk: OpenDesk) -> None:
    desk: Desk = open_desk()
    answer = await desk.driver.proxy(a_call(platform="practice", url="api/answer?question=x"))
    assert answer.error == "address_refused"
    assert desk.session.opened == 0


async def test_where_nobody_is_signed_in_there_is_no_page_and_the_login_is_reported(open_desk: OpenDesk) -> None:
    desk: Desk = open_desk({"login": True}, {"calls": [".*/api/answer$"]})
    answer = await desk.driver.proxy(a_call(platform="practice", url="api/answer?question=x"))
    assert (answer.error, answer.message) == ("no_page", "login_required")
    assert desk.driver.sessions() == {"practice": "login_required"}
    assert desk.session.questions == []
