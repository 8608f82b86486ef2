"""What a failed page looked like: screenshot, HTML and a few facts, for the person who mends the adapter.

Bounded in number, age and size. Cookies, stored values, scripts, typed values and the query of any address are left
out: these files are sent around.
"""

import asyncio
import json
import logging
import re
import time
from collections.abc import Awaitable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit

from playwright.async_api import Error, Page

from desktop.files import private_folder, write_whole

log = logging.getLogger(__name__)

FOLDER: Final = "failures"
MOST_FILES: Final = 150
MOST_BYTES: Final = 50_000_000
MOST_HTML: Final = 2_000_000
KEEP_SECONDS: Final = 7 * 86_400.0
LOOK_SECONDS: Final = 3.0
_SCRIPT: Final = re.compile(r"<(script|noscript|template)\b[^>]*>.*?(?:</\1\s*>|\Z)", re.I | re.S)
_TYPED: Final = re.compile(
    r"(<(?:input|meta|button|option)\b[^>]*?)\s(?:value|content)\s*=\s*(?:\"[^\"]*\"|'[^']*')", re.I
)
_QUERY: Final = re.compile(r"(\s(?:href|src|action|srcset)\s*=\s*[\"'][^\"'?#]*)[?#][^\"']*", re.I)
_REMOVED: Final = "[removed]"

Got = TypeVar("Got")


@dataclass(frozen=True, slots=True)
class Failure:
    """The facts of one failed question. `began`: seconds since the epoch."""

    task_id: str
    platform: str
    site: str
    phase: str
    code: str
    detail: str
    began: float
    status: int | None = None
    at: float = field(default_factory=time.time)

    @property
    def name(self) -> str:
        """What its files are called: when, which task, which code."""
        when = datetime.fromtimestamp(self.at, UTC).strftime("%Y%m%dT%H%M%S%f")[:-3]
        task = re.sub(r"[^A-Za-z0-9-]", "", self.task_id)[-12:]
        return f"{when}-{task}-{self.code}"


class Evidence:
    """Writes into `{home}/failures`, mode 0600."""

    def __init__(self, home: Path) -> None:
        self._folder = home / FOLDER

    async def keep(self, failure: Failure, page: Page | None, secrets: Iterable[str] | None) -> str | None:
        """Write what can be had of the page; the name of the files, or None where the disk refuses.

        `secrets` None: they could not be told, so the page's HTML is not kept.
        """
        shot, html = await _seen(page) if page is not None else (None, None)
        facts = {**_facts(failure), "url": _bare(page.url) if page is not None else None}
        parts = {
            ".json": json.dumps(facts, ensure_ascii=False, indent=1).encode(),
            ".png": shot,
            ".html": scrubbed(html, secrets).encode("utf-8", "replace") if html and secrets is not None else None,
        }
        try:
            await asyncio.to_thread(self._write, failure.name, parts)
        except OSError as error:
            log.error("a failure's page cannot be kept in %s: %s", self._folder, error)
            return None
        return failure.name

    def _write(self, name: str, parts: dict[str, bytes | None]) -> None:
        private_folder(self._folder)
        for ending, data in parts.items():
            if data is not None:
                write_whole(self._folder / f"{name}{ending}", data, durable=False)
        self._prune()

    def _prune(self) -> None:
        """The newest stay, as far as number, age and size allow."""
        oldest, size = time.time() - KEEP_SECONDS, 0
        newest_first = sorted(self._folder.iterdir(), key=lambda path: path.name, reverse=True)
        for number, path in enumerate(newest_first):
            found = path.stat()
            size += found.st_size
            if number >= MOST_FILES or size > MOST_BYTES or found.st_mtime < oldest:
                path.unlink(missing_ok=True)


def scrubbed(html: str, secrets: Iterable[str]) -> str:
    """The page without what may be secret."""
    html = _QUERY.sub(r"\1", _TYPED.sub(r"\1", _SCRIPT.sub("", html[:MOST_HTML])))
    for secret in sorted(secrets, key=len, reverse=True):
        for form in {secret, escape(secret), quote(secret), quote(secret, safe="")}:
            html = html.replace(form, _REMOVED)
    return html


async def _seen(page: Page) -> tuple[bytes | None, str | None]:
    """Screenshot and HTML, as far as the page still answers."""
    passwords = page.locator("input[type=password]")
    return await asyncio.gather(_had(page.screenshot(mask=[passwords], timeout=0)), _had(page.content()))


async def _had(looking: Awaitable[Got]) -> Got | None:
    with suppress(Error, TimeoutError):
        async with asyncio.timeout(LOOK_SECONDS):
            return await looking
    return None


def _facts(failure: Failure) -> dict[str, Any]:
    return {
        "code": failure.code,
        "detail": failure.detail,
        "task_id": failure.task_id,
        "platform": failure.platform,
        "site": failure.site,
        "phase": failure.phase,
        "status": failure.status,
        "began_at": datetime.fromtimestamp(failure.began, UTC).isoformat(),
        "failed_at": datetime.fromtimestamp(failure.at, UTC).isoformat(),
    }


def _bare(url: str) -> str:
    """The address without what may be secret in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"
