"""Driver `api`: OpenAI-compatible endpoints in the phases of a desktop (2-desktop §2.3, §2.4).

Nothing is sent before SUBMITTING. A turn at the rate limit is waited for in steps of INPUTTING, where an order to stop
is followed; SUBMITTING ends when the request is written, WAITING holds the answer and its repeated tries.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import httpx

from desktop.driver import DriverFailure, RunContext
from desktop.openai.asking import Question, Received, ask
from desktop.openai.endpoints import ANY, Endpoint, Endpoints, KeyMissing
from desktop.openai.judging import answer_of, refuses_key
from desktop.openai.logins import LOGIN_REQUIRED, Logins
from desktop.openai.pace import Pace
from domain.lanes import Kind
from domain.phases import Phase
from domain.protocol import TaskAvailable

log = logging.getLogger(__name__)

RECHECK: Final = 300.0
STEP: Final = 0.5
CONNECTIONS: Final = 200


@dataclass(slots=True)
class _Run:
    """What one attempt keeps between its phases."""

    endpoint: Endpoint
    pace: Pace
    key: str | None = field(default=None, repr=False)
    turn: asyncio.Task[None] | None = None
    asking: asyncio.Task[Received] | None = None


class ApiDriver:
    """One driver for all desktops of a process, since they share the keys and their limits.

    `step`: seconds after which waiting for a turn may be stopped. Failures: `unsupported_kind`,
    `platform_not_configured`, `login_required`, `rate_limited`, `provider_unavailable`, `request_refused`, `timeout`,
    `connection_failed`, `connection_lost`, `result_too_large`, `answer_unreadable`.
    """

    def __init__(
        self, endpoints: Endpoints, http: httpx.AsyncClient, *, recheck: float = RECHECK, step: float = STEP
    ) -> None:
        self._endpoints = endpoints
        self._http = http
        self._step = step
        self._logins = Logins(recheck)
        self._paces = {name: Pace(endpoint) for name, endpoint in endpoints.platforms.items()}

    async def run_phase(self, phase: Phase, task: TaskAvailable, context: RunContext) -> bool:
        """Phases without a counterpart here pass at once."""
        if phase is Phase.PREPARING:
            context.resources = self._prepared(task)
            return False
        run = context.resources
        assert isinstance(run, _Run)
        match phase:
            case Phase.AUTHENTICATING:
                run.key = self._key(task.platform, run.endpoint)
            case Phase.INPUTTING:
                return await self._awaits_turn(run)
            case Phase.SUBMITTING:
                await self._submit(run, task.question)
            case Phase.WAITING:
                await self._wait(run, task, context)
            case _:
                pass
        return False

    async def release(self, task: TaskAvailable, context: RunContext) -> None:
        """Whatever still waits or reads is cancelled, its connection closed."""
        run = context.resources
        if isinstance(run, _Run):
            left = [one for one in (run.turn, run.asking) if one is not None]
            for one in left:
                one.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    def sessions(self) -> Mapping[str, str]:
        """As the endpoints' answers showed it: `healthy` or `login_required`."""
        return self._logins.sessions()

    def _prepared(self, task: TaskAvailable) -> _Run:
        if task.kind != Kind.MONITOR:
            raise DriverFailure("unsupported_kind", f"an endpoint answers questions; this is {task.kind}")
        endpoint = self._endpoints.of(task.platform)
        if endpoint is None:
            # Said in heartbeats as well, so that no more of these tasks come here.
            self._logins.refused(task.platform)
            raise DriverFailure("platform_not_configured", f"no endpoint for {task.platform}")
        name = task.platform if task.platform in self._endpoints.platforms else ANY
        return _Run(endpoint, self._paces[name])

    def _key(self, platform: str, endpoint: Endpoint) -> str | None:
        try:
            return endpoint.key()
        except KeyMissing as missing:
            self._logins.refused(platform)
            raise DriverFailure(LOGIN_REQUIRED, missing.message) from missing

    async def _awaits_turn(self, run: _Run) -> bool:
        """Wait a step; whether the turn has not come yet."""
        if run.turn is None:
            run.turn = asyncio.create_task(run.pace.turn())
        done, _ = await asyncio.wait({run.turn}, timeout=self._step)
        return not done

    async def _submit(self, run: _Run, text: str) -> None:
        """Returns when the request is written, or nothing can be written; WAITING tells which."""
        sent = asyncio.Event()
        question = Question(run.endpoint, run.key, text, sent.set)
        run.asking = asyncio.create_task(ask(self._http, question, run.pace))
        run.asking.add_done_callback(lambda _: sent.set())
        await sent.wait()

    async def _wait(self, run: _Run, task: TaskAvailable, context: RunContext) -> None:
        assert run.asking is not None
        received = await run.asking
        self._learn(task.platform, received)
        if received.status >= 300:
            log.warning("%s answered %d to task %s", task.platform, received.status, task.task_id)
        context.answer = answer_of(received, run.endpoint.model)

    def _learn(self, platform: str, received: Received) -> None:
        if refuses_key(received):
            self._logins.refused(platform)
        elif 200 <= received.status < 300:
            self._logins.taken(platform)


@asynccontextmanager
async def api_driver(endpoints: Endpoints, *, recheck: float = RECHECK, step: float = STEP) -> AsyncIterator[ApiDriver]:
    """The driver with its HTTP client. Raises KeyMissing when an endpoint's key is not there."""
    endpoints.check_keys()
    async with http_client() as http:
        yield ApiDriver(endpoints, http, recheck=recheck, step=step)


def http_client() -> httpx.AsyncClient:
    """Follows no redirect, since a key belongs to one address, and asks no proxy of the environment for loopback."""
    return httpx.AsyncClient(
        limits=httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS),
        follow_redirects=False,
        mounts={f"all://{host}": None for host in ("127.0.0.1", "localhost", "[::1]")},
    )
