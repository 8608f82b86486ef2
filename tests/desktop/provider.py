"""A local OpenAI-compatible server on a real socket: chat completions and responses, streams, and troubles."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tests.desktop.waiting import Signal

TEXT = "Take the Brennig 2, it is quiet."
KEY = "sk-test-0123456789abcdef"


@dataclass(frozen=True)
class Reply:
    """What to answer. `cut`: the connection ends after the pieces; `after`: they wait for it."""

    body: bytes | list[bytes]
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "application/json"})
    cut: bool = False
    after: asyncio.Event | None = None


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class _Cut(Exception):
    pass


@dataclass
class Provider:
    """Answers each question, or gives what stands in `replies` first."""

    asked: list[Asked] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    signal: Signal = field(default_factory=Signal)
    base_url: str = ""

    async def handle(self, request: Request) -> Response:
        body = await request.json()
        self.asked.append(Asked(request.url.path, dict(request.headers), body))
        self.signal.changed()
        reply = self.replies.pop(0) if self.replies else good(request.url.path, body)
        if isinstance(reply.body, bytes) and reply.after is None and not reply.cut:
            return Response(reply.body, reply.status, reply.headers)
        return StreamingResponse(_pieces(reply), reply.status, reply.headers)

    async def got(self, count: int = 1) -> None:
        await self.signal.until(lambda: len(self.asked) >= count, f"{count} requests")


async def _pieces(reply: Reply) -> AsyncIterator[bytes]:
    pieces = [reply.body] if isinstance(reply.body, bytes) else reply.body
    if reply.after is not None:
        await reply.after.wait()
    for piece in pieces:
        yield piece
        await asyncio.sleep(0)
    if reply.cut:
        raise _Cut


def good(path: str, asked: dict[str, Any]) -> Reply:
    """An answer in the interface that the path names."""
    chat = path.endswith("/chat/completions")
    if asked["stream"]:
        events = chat_events() if chat else response_events()
        return Reply(events, headers={"content-type": "text/event-stream; charset=utf-8", "x-request-id": "req-1"})
    body = chat_answer() if chat else _response()
    headers = {"content-type": "application/json", "x-request-id": "req-1"}
    return Reply(json.dumps(body, ensure_ascii=False).encode(), headers=headers)


def chat_answer(text: str = TEXT) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "chatcmpl-1", "object": "chat.completion", "model": "m-1", "choices": [choice]}


def chat_events(text: str = TEXT) -> list[bytes]:
    common = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m-1"}
    deltas = [{"index": 0, "delta": {"content": word + " "}, "finish_reason": None} for word in text.split(" ")]
    end = {"index": 0, "delta": {}, "finish_reason": "stop"}
    chunks = [_data({**common, "choices": [choice]}) for choice in [*deltas, end]]
    return [*chunks, b"data: [DONE]\n\n"]


def response_events() -> list[bytes]:
    delta = {"type": "response.output_text.delta", "delta": TEXT}
    return [_data(delta), _data({"type": "response.completed", "response": _response()})]


def _response() -> dict[str, Any]:
    part = {"type": "output_text", "text": TEXT, "annotations": []}
    message = {"type": "message", "role": "assistant", "content": [part]}
    return {"id": "resp-1", "object": "response", "status": "completed", "model": "m-1", "output": [message]}


def fault(status: int, code: str, **headers: str) -> Reply:
    """An error in OpenAI's shape."""
    body = {"error": {"message": f"the key {KEY} says {code}", "type": "error", "param": None, "code": code}}
    return Reply(json.dumps(body).encode(), status, {"content-type": "application/json", **headers})


def page(status: int, **headers: str) -> Reply:
    """What a gateway says for itself."""
    body = f"<html><body><h1>{status}</h1>nginx</body></html>".encode()
    return Reply(body, status, {"content-type": "text/html", **headers})


def _data(event: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


@asynccontextmanager
async def running_provider() -> AsyncIterator[Provider]:
    """The server on a free port."""
    provider = Provider()
    app = Starlette(routes=[Route("/{path:path}", provider.handle, methods=["POST"])])
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    provider.base_url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
    try:
        yield provider
    finally:
        server.should_exit = True
        await serving
        listening.close()
