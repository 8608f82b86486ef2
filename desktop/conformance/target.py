"""The hub under test: its two addresses, throw-away clients, and raw REST calls."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from desktop.conformance.pace import HubPace
from desktop.conformance.peer import Peer
from desktop.conformance.verdict import CannotCheck, RuleBroken, expect
from desktop.connection import is_loopback
from domain import protocol

CLIENTS: Final = "/api/desktop/clients"
TASKS: Final = "/api/desktop/tasks"
LARGEST_READ: Final = 16 * protocol.MAX_FRAME_BYTES
VERSIONS: Final = tuple(protocol.SUPPORTED)


@dataclass(frozen=True, slots=True)
class Access:
    """What the checks may use. Without `user_token` and `workspace_id` all of them share the one device token."""

    ws_url: str
    api_url: str
    user_token: str | None = None
    workspace_id: int | None = None
    device_token: str | None = None

    @property
    def registers(self) -> bool:
        """Whether throw-away clients can be made."""
        return self.user_token is not None and self.workspace_id is not None


@dataclass(frozen=True, slots=True)
class ThrowAway:
    """A registered client; `client_id` is unknown of a token that was given."""

    token: str
    client_id: str | None = None


@dataclass(slots=True)
class Target:
    """Shared by all checks of a run."""

    access: Access
    pace: HubPace
    http: httpx.AsyncClient

    # --- clients ----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def client(self) -> AsyncIterator[ThrowAway]:
        """A client of the check's own, revoked at its end; or the one whose token was given."""
        if self.access.registers:
            made = await self._register()
            try:
                yield made
            finally:
                await self.revoke(made)
        elif self.access.device_token is not None:
            yield ThrowAway(self.access.device_token)
        else:
            raise CannotCheck("it needs a client: give --token and --workspace, or --device-token")

    @asynccontextmanager
    async def own_client(self) -> AsyncIterator[ThrowAway]:
        """A client that may be revoked."""
        if not self.access.registers:
            raise CannotCheck("it needs a client of its own: give --token and --workspace")
        async with self.client() as client:
            yield client

    async def _register(self) -> ThrowAway:
        body = {"workspace_id": self.access.workspace_id, "name": "conformance suite"}
        response = await self.user_call("POST", CLIENTS, json=body)
        if response.status_code != httpx.codes.CREATED:
            raise CannotCheck(f"no client could be registered: {told(response)}")
        answer = response.json()
        return ThrowAway(answer["token"], answer["client_id"])

    async def revoke(self, client: ThrowAway) -> None:
        """End the device token; one that is gone already is fine."""
        await self.user_call("DELETE", f"{CLIENTS}/{client.client_id}")

    async def user_call(self, method: str, path: str, **given: Any) -> httpx.Response:
        """A call of the signed-in user."""
        headers = {"Authorization": f"Bearer {self.access.user_token}"}
        return await self.http.request(method, f"{self.access.api_url}{path}", headers=headers, **given)

    async def task_call(
        self, token: str | None, path: str, body: Any = None, *, content: bytes | None = None, kind: str | None = None
    ) -> httpx.Response:
        """A call of a desktop below `/api/desktop/tasks`."""
        headers = {"Content-Type": kind or "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        url = f"{self.access.api_url}{TASKS}/{path}"
        if content is not None:
            return await self.http.post(url, content=content, headers=headers)
        return await self.http.post(url, json={} if body is None else body, headers=headers)

    # --- connections ------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def peer(self, token: str | None, **options: Any) -> AsyncIterator[Peer]:
        """An open connection. `path`, `query`, `versions`, `headers`: as another client would do it."""
        async with AsyncExitStack() as stack:
            socket = await self._connect(token, **options)
            stack.push_async_callback(_hang_up, socket)
            yield Peer(socket, self.pace.patience)

    async def _connect(
        self,
        token: str | None,
        *,
        path: str | None = None,
        query: str = "",
        versions: tuple[str, ...] | None = VERSIONS,
        headers: Mapping[str, str] | None = None,
    ) -> ClientConnection:
        given = {} if token is None else {"Authorization": f"Bearer {token}"}
        return await connect(
            self._url(path, query),
            additional_headers={**given, **(headers or {})},
            subprotocols=None if versions is None else [Subprotocol(one) for one in versions],
            compression=None,
            ping_interval=None,
            open_timeout=self.pace.patience,
            max_size=LARGEST_READ,
            proxy=None if is_loopback(self.access.ws_url) else True,
        )

    def _url(self, path: str | None, query: str) -> str:
        parts = urlsplit(self.access.ws_url)
        return urlunsplit(parts._replace(path=parts.path if path is None else path, query=query))


async def _hang_up(socket: ClientConnection) -> None:
    """Close if it is open; a hub that does not answer the close is not waited for."""
    try:
        async with asyncio.timeout(1):
            await socket.close()
    except TimeoutError:
        socket.transport.abort()


def told(response: httpx.Response) -> str:
    """The answer, for a verdict."""
    return f"{response.status_code} {response.text[:200]}"


def expect_problem(response: httpx.Response, status: int, *codes: str) -> None:
    """problem+json with the status and one of the codes."""
    wanted = f"{status} {' or '.join(codes)}"
    expect(response.status_code == status, wanted, told(response))
    kind = response.headers.get("content-type", "").partition(";")[0]
    expect(kind == "application/problem+json", "application/problem+json", kind)
    try:
        problem = response.json()
    except ValueError:
        raise RuleBroken("a JSON problem", response.text[:200]) from None
    expect(problem.get("code") in codes, wanted, told(response))
    expect({"type", "title", "status", "detail"} <= problem.keys(), "type, title, status and detail", told(response))
