"""One Chromium and one practice site for all tests here; a session and a desktop for each test."""

import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Page

from desktop.browser import evidence
from desktop.browser.chromium import NAMES, Chromium
from desktop.browser.driver import BrowserDriver
from desktop.browser.options import BrowserOptions
from desktop.practice_site.serve import served
from desktop.practice_site.site import PracticeSite
from tests.desktop.browser.practice import Desk, adapter, new_name

OpenDesk = Callable[..., Desk]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Chromium]:
    if not any(map(shutil.which, NAMES)):
        pytest.skip("no Chromium: make test installs it as root on Debian, else see devstack/setup.sh browser")
    running = Chromium()
    await running.browser()
    yield running
    await running.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def practice() -> AsyncIterator[tuple[PracticeSite, str]]:
    site = PracticeSite()
    async with served(site) as url:
        yield site, url


@pytest_asyncio.fixture(loop_scope="session")
async def open_desk(chromium: Chromium, practice: tuple[PracticeSite, str], tmp_path: Path) -> AsyncIterator[OpenDesk]:
    """Make a desktop: `desk = open_desk(behaviour, site={...}, **options)`."""
    site, url = practice
    async with AsyncExitStack() as stack:

        def opened(
            behaviour: dict[str, Any] | None = None, site_changes: dict[str, Any] | None = None, **options: Any
        ) -> Desk:
            name = options.pop("name", None) or new_name()
            site.change(name, behaviour or {})
            fits = adapter(f"{url}/{name}/", **(site_changes or {}))
            fields = {"sites": {"practice": fits}, "state_dir": tmp_path, "poll": 0.05, "step": 0.1, **options}
            driver = BrowserDriver(BrowserOptions(**fields), chromium, "desk")
            stack.push_async_callback(driver.close)
            return Desk(driver, site, name, tmp_path / "desk")

        yield opened


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failures keep their facts alone: pictures cost as much as the question, and have tests of their own."""

    async def nothing(_: Page) -> tuple[None, None]:
        return None, None

    monkeypatch.setattr(evidence, "_seen", nothing)


@pytest.fixture
def desk(open_desk: OpenDesk) -> Desk:
    """A desktop on a site where everything goes well."""
    return open_desk()
