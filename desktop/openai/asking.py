"""One question to one endpoint: the request, its tries, the body as it came."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpx
import stamina

from desktop.driver import DriverFailure
from desktop.openai.endpoints import Endpoint, Style
from desktop.openai.pace import Pace
from desktop.results import MAX_BODY_BYTES, TOO_LARGE

log = logging.getLogger(__name__)

TRIES: Final = 5
CONNECT_SECONDS: Final = 10.0
# Worth another try: the endpoint could not do it now. 529 is what crowded gateways say.
BUSY: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
# Nothing has come back; a timeout while reading is not among them, its time is spent.
_LOST: Final = (httpx.NetworkError, httpx.RemoteProtocolError, httpx.ConnectTimeout, httpx.PoolTimeout)
_REQUEST_IDS: Final = ("x-request-id", "request-id", "apim-request-id", "x-ms-request-id")


@dataclass(frozen=True, slots=True)
class Received:
    """What an endpoint sent. `whole` false: the connection ended before the body did."""

    status: int
    headers: httpx.Headers
    body: bytes
    whole: bool = True

    @property
    def is_stream(self) -> bool:
        return str(self.headers.get("content-type", "")).startswith("text/event-stream")

    @property
    def request_id(self) -> str | None:
        """The endpoint's name for the request, by the headers that are in use."""
        return next((self.headers[name] for name in _REQUEST_IDS if name in self.headers), None)


class _Busy(Exception):
    """The endpoint could not do it now. `pause`: how long it wants to be left alone, in seconds."""

    def __init__(self, received: Received) -> None:
        super().__init__(f"HTTP {received.status}")
        self.received = received
        self.pause = asked_pause(received.headers)


@dataclass(frozen=True, slots=True)
class Question:
    """What is sent where. `sent` is called when the request has been written."""

    endpoint: Endpoint
    key: str | None = field(repr=False)
    text: str
    sent: Callable[[], None]


async def ask(http: httpx.AsyncClient, question: Question, pace: Pace) -> Received:
    """The endpoint's last word: an answer, or an error that did not pass within its patience.

    Raises DriverFailure: `connection_failed`, `connection_lost`, `timeout`, `result_too_large`.
    """
    try:
        return await _until_it_answers(http, question, pace)
    except _Busy as busy:
        return busy.received
    except (httpx.TimeoutException, TimeoutError) as error:
        raise DriverFailure("timeout", f"no whole answer within {question.endpoint.timeout:g} s") from error
    except httpx.HTTPError as error:
        raise DriverFailure("connection_failed", type(error).__name__) from error


async def _until_it_answers(http: httpx.AsyncClient, question: Question, pace: Pace) -> Received:
    deadline = time.monotonic() + question.endpoint.patience
    async for attempt in stamina.retry_context(
        on=lambda error: _worth_another_try(error, deadline - time.monotonic()),
        attempts=TRIES,
        timeout=question.endpoint.patience,
        wait_initial=1.0,
        wait_max=10.0,
        wait_jitter=1.0,
    ):
        with attempt:
            if attempt.num > 1:
                await pace.again()
            return await _once(http, question, pace)
    raise AssertionError("a retry ends with a result or an error")


def _worth_another_try(error: Exception, left: float) -> bool | float:
    """Whether to try again, or in how many seconds."""
    if isinstance(error, _Busy) and error.pause is not None:
        return error.pause if error.pause <= left else False
    return isinstance(error, (_Busy, *_LOST))


async def _once(http: httpx.AsyncClient, question: Question, pace: Pace) -> Received:
    async with asyncio.timeout(question.endpoint.timeout):
        response = await http.send(_request(http, question), stream=True)
        try:
            received = await _received(response)
        finally:
            await response.aclose()
    if received.status not in BUSY:
        return received
    busy = _Busy(received)
    if busy.pause is not None:
        pace.hold(busy.pause)
    raise busy


async def _received(response: httpx.Response) -> Received:
    """The body, never more of it than a result may have."""
    body = bytearray()
    try:
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > MAX_BODY_BYTES:
                raise DriverFailure(TOO_LARGE, f"the answer has over {MAX_BODY_BYTES} bytes")
    except (httpx.NetworkError, httpx.RemoteProtocolError, httpx.DecodingError) as error:
        received = Received(response.status_code, response.headers, bytes(body), whole=False)
        if response.status_code in BUSY or (received.is_stream and body):
            return received
        raise DriverFailure("connection_lost", f"{type(error).__name__} after {len(body)} bytes") from error
    return Received(response.status_code, response.headers, bytes(body))


def _request(http: httpx.AsyncClient, question: Question) -> httpx.Request:
    endpoint = question.endpoint
    return http.build_request(
        "POST",
        endpoint.url,
        json=_body(endpoint, question.text),
        headers=_headers(endpoint, question.key),
        timeout=httpx.Timeout(endpoint.timeout, connect=min(CONNECT_SECONDS, endpoint.timeout)),
        extensions={"trace": _tracer(question.sent)},
    )


def _tracer(sent: Callable[[], None]) -> Callable[[str, Mapping[str, Any]], Any]:
    async def trace(event: str, _info: Mapping[str, Any]) -> None:
        if event.endswith("send_request_body.complete"):
            sent()

    return trace


def _headers(endpoint: Endpoint, key: str | None) -> dict[str, str]:
    headers = {"Accept": "text/event-stream" if endpoint.stream else "application/json", **endpoint.headers}
    if key is None:
        return headers
    bearer = endpoint.key_header.lower() == "authorization"
    return {**headers, endpoint.key_header: f"Bearer {key}" if bearer else key}


def _body(endpoint: Endpoint, text: str) -> dict[str, Any]:
    asked = {"model": endpoint.model, "stream": endpoint.stream, **endpoint.body}
    if endpoint.style is Style.RESPONSES:
        told = {} if endpoint.instructions is None else {"instructions": endpoint.instructions}
        return {**asked, **told, "input": text}
    system = [] if endpoint.instructions is None else [{"role": "system", "content": endpoint.instructions}]
    return {**asked, "messages": [*system, {"role": "user", "content": text}]}


def asked_pause(headers: httpx.Headers) -> float | None:
    """Seconds of `retry-after-ms` or `Retry-After` (a number or a date); None without a sensible one."""
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    said = headers.get("retry-after")
    return _number(said) if _number(said) is not None else _until(said)


def _number(said: str | None) -> float | None:
    try:
        value = float(said or "")
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


def _until(said: str | None) -> float | None:
    try:
        moment = parsedate_to_datetime(said or "")
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
