"""HTTP calls that a page of this desktop makes for the server (2-desktop §2.1, 4-automation; ADR 0054).

Each call is made once, however often it is asked for, and its answer handed in until the server has it.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

from desktop.rest import Reason, Refused
from domain.desktop_calls import ProxyAnswerCall, ProxyAnswerTaken
from domain.ids import new_uuid
from domain.protocol import MAX_FRAME_BYTES, ErrorCode, ProxyRequest, ProxyResponse, encode_bytes
from domain.protocol_catalogue import ProxyError
from domain.proxying import MAX_HEADER_NAME, MAX_HEADER_VALUE, MAX_HEADERS, MAX_MESSAGE, ProxyAnswer

log = logging.getLogger(__name__)
T = TypeVar("T")

# Calls whose ids are remembered: far more than the server has open at once.
REMEMBERED: Final = 1000
AT_ONCE: Final = 8
MAX_REST_BYTES: Final = 1024 * 1024
REPLY_SECONDS: Final = 5.0
# How long after the server's patience an answer is still handed in: its clock decides, not ours.
GRACE_SECONDS: Final = 10.0
AGAIN_SECONDS: Final = 1.0
CLOSE_SECONDS: Final = 10.0
# Replies after which the answer is not to be sent again.
_FINAL: Final = (None, ErrorCode.UNKNOWN_REQUEST, ErrorCode.INVALID_FRAME)


@runtime_checkable
class Proxying(Protocol):
    """A driver with pages that can make HTTP calls of their own site."""

    async def proxy(self, request: ProxyRequest) -> ProxyAnswer:
        """Make the call in the person's session, refusing every other site; a failure is an answer (ProxyError).

        Cancelled when the server's patience is almost over.
        """
        ...


class Answering(Protocol):
    """The REST call of a large answer (desktop/rest.py)."""

    async def proxy(self, call_id: str, call: ProxyAnswerCall) -> ProxyAnswerTaken | Refused: ...


class Proxies:
    """The calls of one desktop. `send` writes a frame, False without a connection."""

    def __init__(self, driver: Proxying, rest: Answering, send: Callable[[ProxyResponse], Awaitable[bool]]) -> None:
        self._driver = driver
        self._rest = rest
        self._send = send
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._calls: set[asyncio.Task[Any]] = set()
        self._replies: dict[str, asyncio.Future[str | None]] = {}
        self._room = asyncio.Semaphore(AT_ONCE)

    def asked(self, request: ProxyRequest) -> None:
        """Make the call, unless it was made or is under way: frames come twice, and snapshots repeat them."""
        if request.id in self._seen:
            return
        self._seen[request.id] = None
        while len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        self._begin(self._serve(request), f"proxy {request.id}")

    def _begin(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        task = asyncio.create_task(work, name=name)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        return task

    def replied(self, ref: str | None, code: str | None) -> None:
        """The hub's reply to a frame: its error code, or None. Replies to others are nothing."""
        reply = self._replies.get(ref or "")
        if reply is not None and not reply.done():
            reply.set_result(code)

    async def close(self) -> None:
        """Stop what is under way; the server learns it by its deadline. A page that hangs is left after a while."""
        for task in self._calls:
            task.cancel()
        if self._calls:
            await asyncio.wait(self._calls, timeout=CLOSE_SECONDS)

    async def _serve(self, request: ProxyRequest) -> None:
        over = asyncio.get_running_loop().time() + request.timeout_ms / 1000 + GRACE_SECONDS
        answer = await self._answer(request, time_of_page(request))
        try:
            async with asyncio.timeout_at(over):
                while not await self._hand_in(request.id, answer):
                    await asyncio.sleep(AGAIN_SECONDS)
        except TimeoutError:
            log.warning("the answer to proxy call %s could not be handed in", request.id)

    async def _answer(self, request: ProxyRequest, seconds: float) -> ProxyAnswer:
        # A page that takes long to be closed keeps its place among AT_ONCE, and not its answer from the server.
        making = self._begin(self._made(request), f"page of {request.id}")
        done, _ = await asyncio.wait([making], timeout=seconds)
        if done:
            return making.result()
        making.cancel()
        return ProxyAnswer(error=ProxyError.TIMEOUT)

    async def _made(self, request: ProxyRequest) -> ProxyAnswer:
        try:
            async with self._room:
                return _fitting(await self._driver.proxy(request))
        except TimeoutError:
            return ProxyAnswer(error=ProxyError.TIMEOUT)
        except Exception as error:
            log.exception("proxy call %s failed", request.id)
            return ProxyAnswer(error=ProxyError.NO_PAGE, message=type(error).__name__[:MAX_MESSAGE])

    async def _hand_in(self, call_id: str, answer: ProxyAnswer) -> bool:
        """By a frame where it fits and there is a connection, else by REST; True when the server has dealt with it."""
        frame = ProxyResponse(
            id=str(new_uuid()),
            ref=call_id,
            status=answer.status,
            headers=dict(answer.headers),
            body=answer.body,
            error=answer.error,
            message=answer.message,
        )
        if len(encode_bytes(frame)) <= MAX_FRAME_BYTES and await self._sent(frame):
            return True
        taken = await self._rest.proxy(call_id, _call(answer))
        return not (isinstance(taken, Refused) and taken.reason is Reason.UNAVAILABLE)

    async def _sent(self, frame: ProxyResponse) -> bool:
        """Whether the hub has replied that there is nothing more to do."""
        reply = self._replies[frame.id] = asyncio.get_running_loop().create_future()
        try:
            if not await self._send(frame):
                return False
            async with asyncio.timeout(REPLY_SECONDS):
                return await reply in _FINAL
        except TimeoutError:
            return False
        finally:
            del self._replies[frame.id]


def time_of_page(request: ProxyRequest) -> float:
    """Seconds that a page has: a little less than the server waits, so that it hears of a page that needs longer."""
    patience = request.timeout_ms / 1000
    return patience - min(1.0, patience / 10)


def _fitting(answer: ProxyAnswer) -> ProxyAnswer:
    """The answer in the protocol's bounds: U+0000 becomes U+FFFD, what is too long is cut, a body never in silence."""
    headers = {
        _clean(name)[:MAX_HEADER_NAME]: _clean(value)[:MAX_HEADER_VALUE]
        for name, value in list(answer.headers.items())[:MAX_HEADERS]
    }
    fitting = ProxyAnswer(
        status=answer.status,
        headers=headers,
        body=None if answer.body is None else _clean(answer.body),
        error=answer.error,
        message=None if answer.message is None else _clean(answer.message)[:MAX_MESSAGE],
    )
    if len(_call(fitting).model_dump_json().encode()) > MAX_REST_BYTES:
        return ProxyAnswer(error=ProxyError.BODY_TOO_LARGE)
    return fitting


def _clean(text: str) -> str:
    """As JSON and the server take it: no U+0000, no half of a surrogate pair."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _call(answer: ProxyAnswer) -> ProxyAnswerCall:
    return ProxyAnswerCall(
        status=answer.status,
        headers=dict(answer.headers),
        body=answer.body,
        error=answer.error,
        message=answer.message,
    )
