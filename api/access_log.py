"""One log line a request, without what must not be in a log: query strings, headers, bodies."""

import logging
from time import perf_counter
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from telemetry.effects import count
from telemetry.metrics import http_requests

log: Final = logging.getLogger("giveway.access")


class AccessLog:
    """ASGI middleware; replaces the server's own access log, which has the query string."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = perf_counter(), 500

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            took = (perf_counter() - began) * 1000
            count(http_requests, value=f"{status // 100}xx")
            log.info("%s %r %d %.1f ms", scope["method"], scope["path"][:200], status, took)
