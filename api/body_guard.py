"""Bounds and strictness ahead of the routes: size, JSON syntax, depth, and what PostgreSQL can't store (faults.md).

FastAPI's own parser takes NaN, Infinity and lone surrogates, and recurses; so bodies are judged here first.
"""

import asyncio
from contextlib import suppress
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import orjson
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.problems import problem_response

MAX_BODY_BYTES: Final = 1024 * 1024
# How much of a body that is too large is read before the answer, and for how long.
MAX_DRAIN_BYTES: Final = 16 * 1024 * 1024
DRAIN_SECONDS: Final = 5.0
MAX_DEPTH: Final = 64
MAX_QUERY_BYTES: Final = 8 * 1024
# Parameters in which a token could be sent; a URL ends up in logs and histories.
TOKEN_PARAMETERS: Final = frozenset(
    {b"token", b"access_token", b"id_token", b"jwt", b"authorization", b"bearer", b"api_key"}
)


class BodyGuard:
    """ASGI middleware that answers 4xx itself for what no route may see."""

    def __init__(self, app: ASGIApp, *, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self._app = app
        self._most = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = refuse_url(scope)
        body = b""
        if refusal is None:
            body, refusal = await self._read(Headers(scope=scope), receive)
        if refusal is None and body:
            refusal = refuse_body(Headers(scope=scope).get("content-type", ""), body)
        if refusal is None:
            await self._app(scope, _replay(body, receive), send)
        else:
            await refusal(scope, receive, send)

    async def _read(self, headers: Headers, receive: Receive) -> tuple[bytes, Response | None]:
        announced = headers.get("content-length", "0")
        if announced.isdecimal() and (len(announced) > 18 or int(announced) > self._most):
            return b"", await self._too_large(receive)
        body, more = bytearray(), True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return b"", problem_response(400, "bad_request", "the body ended early")
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self._most:
                return b"", await self._too_large(receive, more)
        return bytes(body), None

    async def _too_large(self, receive: Receive, more: bool = True) -> Response:
        """413, after what is still coming was taken and dropped: a closed socket would lose the answer on its way."""
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                await _drop(receive, more)
        detail = f"a body has at most {self._most} bytes"
        return problem_response(413, "payload_too_large", detail, headers={"Connection": "close"})


async def _drop(receive: Receive, more: bool) -> None:
    dropped = 0
    while more and dropped < MAX_DRAIN_BYTES:
        message = await receive()
        dropped += len(message.get("body", b""))
        more = message["type"] == "http.request" and message.get("more_body", False)


def _replay(body: bytes, receive: Receive) -> Receive:
    given = False

    async def replayed() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed


def refuse_url(scope: Scope) -> Response | None:
    """A token in the query string, NUL anywhere, or a query that is too long."""
    query: bytes = scope.get("query_string", b"")
    if len(query) > MAX_QUERY_BYTES:
        return problem_response(414, "uri_too_long", f"a query string has at most {MAX_QUERY_BYTES} bytes")
    names = {unquote_to_bytes(part.partition(b"=")[0]).strip().lower() for part in query.split(b"&")}
    if names & TOKEN_PARAMETERS:
        return problem_response(400, "token_in_query", "a token in the URL is refused; send it as a bearer token")
    if "\x00" in scope["path"] or b"\x00" in unquote_to_bytes(query):
        return problem_response(422, "invalid_input", "the URL holds a NUL character")
    return None


def refuse_body(content_type: str, body: bytes) -> Response | None:
    """A body that is not strict JSON, is nested too deep, or holds NUL characters."""
    media = content_type.partition(";")[0].strip().lower()
    if media != "application/json" and not (media.startswith("application/") and media.endswith("+json")):
        return problem_response(415, "unsupported_media_type", "send the body as application/json")
    try:
        value = orjson.loads(body)
    except (orjson.JSONDecodeError, RecursionError) as error:
        return problem_response(422, "malformed_json", f"the body is not JSON as RFC 8259 has it: {error}")
    fault = fault_of(value)
    return None if fault is None else problem_response(422, "malformed_json", fault)


def fault_of(value: Any) -> str | None:
    """What no field of ours may hold, wherever it stands; None for a sound value. Works level by level."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            return f"the body is nested over {MAX_DEPTH} levels deep"
        if any(isinstance(item, str) and "\x00" in item for item in level):
            return "the body holds a NUL character (\\u0000)"
        level = [inner for item in level for inner in _children(item)]
    return None


def _children(item: Any) -> list[Any]:
    if isinstance(item, dict):
        return [*item.keys(), *item.values()]
    return item if isinstance(item, list) else []
