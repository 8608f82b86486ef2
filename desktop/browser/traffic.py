"""The requests that a page makes, and the body of the one that carries the answer, byte for byte as it comes.

Through the DevTools protocol, because Playwright hands out neither the body of an event source nor one that was cut.
"""

import asyncio
import base64
import logging
import re
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from playwright.async_api import CDPSession, Error, Page

log = logging.getLogger(__name__)

# A little over what the server takes: an answer that is too large is known to be, and costs no more memory.
MOST_BYTES: Final = 1_100_000


@dataclass(slots=True)
class Call:
    """One request. `failed`: the network's own error; a request that the page itself gave up has ended instead."""

    url: str
    status: int | None = None
    content_type: str | None = None
    ended: bool = False
    failed: str | None = None
    last_news: float = field(default_factory=time.monotonic)
    # The first piece is what had come before the body was asked for.
    pieces: list[bytes] = field(default_factory=list)
    size: int = 0
    request_id: str | None = None

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    def add(self, piece: bytes) -> None:
        """Keep a piece, as long as there is room."""
        if self.size < MOST_BYTES:
            self.pieces.append(piece)
            self.size += len(piece)


class Traffic:
    """What a page has asked for since `mark`."""

    def __init__(self, answer: str | None) -> None:
        self._pattern = re.compile(answer) if answer else None
        self._calls: dict[str, Call] = {}
        self._session: CDPSession | None = None
        self._reading: set[asyncio.Task[None]] = set()

    async def watch(self, page: Page) -> None:
        """Begin; ends with the page."""
        self._session = session = await page.context.new_cdp_session(page)
        session.on("Network.requestWillBeSent", self._sent)
        session.on("Network.responseReceived", self._answered)
        session.on("Network.dataReceived", self._data)
        session.on("Network.loadingFinished", self._finished)
        session.on("Network.loadingFailed", self._failed)
        await session.send("Network.enable")

    def mark(self) -> None:
        """Forget what was; the question is about to be sent."""
        self._calls.clear()

    @property
    def answer(self) -> Call | None:
        """The latest request that matches the adapter's pattern."""
        if self._pattern is None:
            return None
        return next((call for call in reversed(self._calls.values()) if self._pattern.search(call.url)), None)

    def quiet_for(self, pattern: str) -> float | None:
        """Seconds since anything moved on requests to such addresses; None while one runs, or before there was one."""
        calls = [call for call in self._calls.values() if re.search(pattern, call.url)]
        if not calls or not all(call.ended or call.failed for call in calls):
            return None
        return time.monotonic() - max(call.last_news for call in calls)

    async def settled(self, grace: float) -> None:
        """Wait until the answer's request is over and its body read: the page may know a moment before we do.

        A connection that the site keeps open is not waited for longer than `grace` seconds.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(grace):
                while (call := self.answer) is not None and not (call.ended or call.failed):
                    await asyncio.sleep(0.02)
        if self._reading:
            await asyncio.wait(self._reading)

    def stop(self) -> None:
        """Nothing more is read."""
        for task in self._reading:
            task.cancel()

    def _sent(self, event: dict[str, Any]) -> None:
        self._calls[event["requestId"]] = Call(event["request"]["url"])

    def _answered(self, event: dict[str, Any]) -> None:
        if (call := self._calls.get(event["requestId"])) is None:
            return
        response = event["response"]
        call.status, call.content_type, call.last_news = response["status"], response["mimeType"], time.monotonic()
        headers = {name.lower(): value for name, value in response["headers"].items()}
        call.request_id = headers.get("x-request-id")
        if self._pattern is not None and self._pattern.search(call.url):
            call.pieces.append(b"")
            self._read(self._stream(event["requestId"], call))

    async def _stream(self, request_id: str, call: Call) -> None:
        """From now on its data comes in events; what has come before, in the reply."""
        assert self._session is not None
        try:
            reply = await self._session.send("Network.streamResourceContent", {"requestId": request_id})
            call.pieces[0] = base64.b64decode(reply["bufferedData"])
            call.size += len(call.pieces[0])
        except Error:
            # Too late: it is complete already, and the browser still has the whole of it.
            await self._whole(request_id, call)

    async def _whole(self, request_id: str, call: Call) -> None:
        assert self._session is not None
        with suppress(Error):
            reply = await self._session.send("Network.getResponseBody", {"requestId": request_id})
            text = reply["body"]
            call.pieces[0] = base64.b64decode(text) if reply["base64Encoded"] else text.encode("utf-8", "surrogatepass")
            call.size = len(call.pieces[0])

    def _data(self, event: dict[str, Any]) -> None:
        if (call := self._calls.get(event["requestId"])) is not None:
            call.last_news = time.monotonic()
            if data := event.get("data"):
                call.add(base64.b64decode(data))

    def _finished(self, event: dict[str, Any]) -> None:
        if (call := self._calls.get(event["requestId"])) is not None:
            call.ended, call.last_news = True, time.monotonic()

    def _failed(self, event: dict[str, Any]) -> None:
        if (call := self._calls.get(event["requestId"])) is None:
            return
        call.last_news = time.monotonic()
        # An event source ends by the page closing it.
        if event.get("canceled"):
            call.ended = True
        else:
            call.failed = event["errorText"]

    def _read(self, reading: Any) -> None:
        task = asyncio.create_task(reading)
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)
