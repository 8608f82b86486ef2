"""From the click to the whole answer: what was there before, when it is finished, what of it is taken."""

import time
from typing import Final

from desktop.browser.look import Eye
from desktop.browser.site import DEFAULT_TYPES, Finished
from desktop.driver import Answer, DriverFailure

# The server takes 1 MB of JSON.
MOST_BYTES: Final = 950_000
OUTER: Final = "element => element.outerHTML"
WHOLE_TEXT: Final = "element => element.innerText"


class Answering:
    """Watches one page for the answer to the question that is about to be sent. `taken` is the raw answer."""

    def __init__(self, eye: Eye) -> None:
        self._eye = eye
        self._wanted = eye.site.answer
        self._count_before = 0
        self._html_before = ""
        self._text = ""
        self._text_since = 0.0
        self.taken: Answer | None = None

    async def before(self) -> None:
        """Remember the answers of earlier questions, and forget the requests so far."""
        self._eye.traffic.mark()
        if self._wanted.selector is not None:
            self._count_before, self._html_before = await self._containers(), await self._last(OUTER)

    async def there(self) -> bool:
        """Whether the whole answer is on the page."""
        self._eye.alive()
        if self._wanted.selector is not None and not await self._new_container():
            return False
        await self._note_text()
        for alternative in self._wanted.finished:
            if await self._holds(alternative):
                return True
        return False

    async def take(self) -> None:
        """Keep the raw answer. DriverFailure `answer_empty`, `answer_too_large`."""
        raw, found_type, request_id = await self._raw()
        if not raw.strip():
            raise DriverFailure("answer_empty")
        if len(raw.encode()) > MOST_BYTES:
            raise DriverFailure("answer_too_large")
        kind = self._wanted.content_type or found_type or DEFAULT_TYPES.get(self._wanted.take)
        self.taken = Answer(raw, content_type=kind, model=await self._model(), request_id=request_id)

    async def _raw(self) -> tuple[str, str | None, str | None]:
        """The raw answer with the content type and the request id that came with it."""
        call = self._eye.traffic.answer
        request_id = call.request_id if call is not None else None
        if self._wanted.take == "html":
            return await self._last(OUTER), None, request_id
        if self._wanted.take == "text":
            return await self._last(WHOLE_TEXT), None, request_id
        if call is None:
            return "", None, None
        try:
            return call.body.decode("utf-8"), call.content_type, request_id
        except UnicodeDecodeError as error:
            raise DriverFailure("answer_unreadable", "not UTF-8") from error

    async def _model(self) -> str | None:
        if self._wanted.model is None:
            return None
        return (await self._eye.text(self._wanted.model)).strip()[:100] or None

    async def _new_container(self) -> bool:
        """One more than before, or another one in its place. A page that says nothing has none."""
        count = await self._containers()
        return count > self._count_before or (count > 0 and await self._last(OUTER) not in ("", self._html_before))

    async def _containers(self) -> int:
        return await self._eye.count(self._wanted.selector or "")

    async def _last(self, script: str) -> str:
        """What the script says of the last container."""
        return await self._eye.last(self._wanted.selector or "", script)

    async def _note_text(self) -> None:
        if not any(one.stable_ms for one in self._wanted.finished):
            return
        text = await self._eye.text(self._wanted.selector or "")
        if text != self._text or not text.strip():
            self._text, self._text_since = text, time.monotonic()

    async def _holds(self, finished: Finished) -> bool:
        """All that the entry gives; what costs nothing is asked first."""
        if finished.request_ended and not self._request_ended():
            return False
        if finished.stable_ms and (time.monotonic() - self._text_since) * 1000 < finished.stable_ms:
            return False
        if finished.quiet_url is not None and not self._quiet(finished.quiet_url, finished.quiet_ms):
            return False
        if finished.gone is not None and not await self._eye.gone(finished.gone):
            return False
        return finished.visible is None or await self._eye.visible(finished.visible)

    def _request_ended(self) -> bool:
        call = self._eye.traffic.answer
        return call is not None and (call.ended or call.failed is not None)

    def _quiet(self, pattern: str, milliseconds: int) -> bool:
        quiet = self._eye.traffic.quiet_for(pattern)
        return quiet is not None and quiet * 1000 >= milliseconds
