"""The API on the session's real servers, spoken to in process through ASGI."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.app import create_app
from api.auth import Role, issue_development_token
from api.state import AppState, open_state
from domain.messages import AcceptCommand, AcceptResult
from settings import Settings
from store.accept import accept_collect_now
from store.database import Pool
from tests.conftest import Servers
from tests.support.world import World

DEVELOPMENT_KEY = "a development key of forty bytes or more"


class AcceptInProcess:
    """The `Accept` port without Temporal: the same transaction, run here."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.commands: list[AcceptCommand] = []

    async def accept(self, command: AcceptCommand) -> AcceptResult:
        self.commands.append(command)
        return await accept_collect_now(self._pool, command)


@dataclass(slots=True)
class Caller:
    """An HTTP client with a token; every call goes through the whole application."""

    http: httpx.AsyncClient
    headers: dict[str, str]

    async def __call__(self, method: str, path: str, **given: Any) -> httpx.Response:
        headers = {**self.headers, **given.pop("headers", {})}
        return await self.http.request(method, path, headers=headers, **given)


@asynccontextmanager
async def serving(app: ASGIApp) -> AsyncIterator[httpx.AsyncClient]:
    """Runs the lifespan as a server does, and hands its state to every request."""
    incoming: asyncio.Queue[Message] = asyncio.Queue()
    outgoing: asyncio.Queue[Message] = asyncio.Queue()
    state: dict[str, Any] = {}
    scope: Scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": state}

    async def live() -> None:
        await app(scope, incoming.get, outgoing.put)

    running = asyncio.create_task(live())

    async def with_state(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "state": dict(state)}, receive, send)

    await incoming.put({"type": "lifespan.startup"})
    assert (await outgoing.get())["type"] == "lifespan.startup.complete"
    transport = httpx.ASGITransport(app=with_state, raise_app_exceptions=False)
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://giveway.test") as client:
            yield client
    finally:
        await incoming.put({"type": "lifespan.shutdown"})
        assert (await outgoing.get())["type"] == "lifespan.shutdown.complete"
        await running


@pytest.fixture
def settings(servers: Servers, database_url: str, tmp_path: Path) -> Settings:
    return Settings(
        _env_file=None,
        database_url=database_url,
        database_pool_size=5,
        amqp_url=servers.amqp_url,
        temporal_address=servers.temporal_address,
        temporal_namespace=servers.temporal_namespace,
        raw_store_url=f"file://{tmp_path}/raw",
        environment="development",
        jwt_dev_key=DEVELOPMENT_KEY,
        jwks_url="",
    )


@pytest.fixture
async def state(settings: Settings) -> AsyncIterator[AppState]:
    """The process's resources, with the accept run in process."""
    async with open_state(settings) as opened:
        yield replace(opened, accept=AcceptInProcess(opened.pool))


@pytest.fixture(scope="session")
def app() -> FastAPI:
    """The routes, built once: that takes longer than most tests. Each test brings the state that a lifespan yields."""
    return create_app(Settings(_env_file=None))


@pytest.fixture
async def http(app: FastAPI, state: AppState) -> AsyncIterator[httpx.AsyncClient]:
    """A client without a token."""

    async def with_state(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "state": {"giveway": state}}, receive, send)

    transport = httpx.ASGITransport(app=with_state, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://giveway.test") as client:
        yield client


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


Login = Callable[..., Caller]


@pytest.fixture
def login(settings: Settings, http: httpx.AsyncClient) -> Login:
    """Signs somebody in: `login(world, role=..., user_id=...)`."""

    def sign_in(
        world: World, role: Role = Role.OPERATOR, user_id: int = 7, workspaces: list[int] | None = None
    ) -> Caller:
        opened = [world.workspace_id] if workspaces is None else workspaces
        token = issue_development_token(settings, world.tenant_id, opened, user_id, role)
        return Caller(http, {"Authorization": f"Bearer {token}"})

    return sign_in


@pytest.fixture
def call(login: Login, world: World) -> Caller:
    """An operator of `world`."""
    return login(world)


def problem_of(response: httpx.Response, status: int) -> dict[str, Any]:
    """The problem+json of an error answer, checked for its form."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert problem["status"] == status
    assert problem["type"] == f"urn:giveway:problem:{problem['code']}"
    assert problem["title"]
    assert problem["detail"]
    if "retry_after" in problem:
        assert response.headers["retry-after"] == str(problem["retry_after"])
    return problem
