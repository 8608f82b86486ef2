"""The desktop's REST calls (2-desktop §2.2). A refusal is a value, told apart by the problem's code, not its text."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeVar

import httpx
import stamina
from pydantic import BaseModel, ValidationError

from domain.desktop_calls import (
    CancelAnswer,
    CancelCall,
    InterruptAckCall,
    LeaseAnswer,
    LeaseCall,
    ProxyAnswerCall,
    ProxyAnswerTaken,
    PullAnswer,
    PullCall,
    ResultAnswer,
    ResultCall,
)
from domain.errors import LeaseLost, NoSlot, NotFound, PayloadTooLarge, StaleGeneration

log = logging.getLogger(__name__)
# A server may ask for a longer pause than a task at a safe point can wait.
LONGEST_ASKED: Final = 5.0
A = TypeVar("A", bound=BaseModel)


class Reason(StrEnum):
    """Why a call had no effect. The first five are the server's own codes."""

    LEASE_LOST = LeaseLost.code
    NO_SLOT = NoSlot.code
    STALE_GENERATION = StaleGeneration.code
    NOT_FOUND = NotFound.code
    TOO_LARGE = PayloadTooLarge.code
    UNAUTHORIZED = "unauthorized"
    # Any other refusal that a repetition will not change.
    REJECTED = "rejected"
    # 429, 5xx, timeout or no connection, after the tries that the call's policy allows.
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class Refused:
    """The call's outcome when it was not done. `retry_after` in seconds, when the server said one."""

    reason: Reason
    detail: str = ""
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Tries:
    """How often a call is tried: `attempts` in all, within `timeout` seconds, waiting `first` to `longest` between."""

    attempts: int
    timeout: float
    first: float = 0.1
    longest: float = 2.0


@dataclass(frozen=True, slots=True)
class RestPolicy:
    """The tries of each kind of call; a result has one, the poster repeats it from disk."""

    start: Tries = Tries(4, 10.0)
    order: Tries = Tries(6, 20.0)
    result: Tries = Tries(1, 30.0)
    pull: Tries = Tries(1, 10.0)


_STATUS_REASONS: Final[Mapping[int, Reason]] = {
    401: Reason.UNAUTHORIZED,
    403: Reason.UNAUTHORIZED,
    404: Reason.NOT_FOUND,
    413: Reason.TOO_LARGE,
}
_CONFLICTS: Final = (Reason.LEASE_LOST, Reason.NO_SLOT, Reason.STALE_GENERATION)


class _TryAgain(Exception):
    """The server could not do it now."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(f"HTTP {response.status_code}")
        self.retry_after = _seconds(response.headers.get("retry-after"))


class RestClient:
    """Calls of one desktop over an HTTP client that several desktops may share."""

    def __init__(self, http: httpx.AsyncClient, api_url: str, token: str, policy: RestPolicy | None = None) -> None:
        self._http = http
        self._base = f"{api_url.rstrip('/')}/api/desktop"
        self._headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        self._policy = policy or RestPolicy()

    async def lease(self, call: PullCall) -> PullAnswer | Refused:
        """Pull legacy tasks that are on offer here. One try: what a lost answer had leased runs out."""
        return await self._call("tasks/lease", call, PullAnswer, self._policy.pull)

    async def start(self, task_id: str, call: LeaseCall) -> LeaseAnswer | Refused:
        """queued → in_progress. Refused: lease_lost, no_slot."""
        return await self._call(f"tasks/{task_id}/start", call, LeaseAnswer, self._policy.start)

    async def extend(self, task_id: str, call: LeaseCall) -> LeaseAnswer | Refused:
        """A longer lease. Refused: lease_lost."""
        return await self._call(f"tasks/{task_id}/extend", call, LeaseAnswer, self._policy.start)

    async def cancel(self, task_id: str, call: CancelCall) -> CancelAnswer | Refused:
        """Give back a lease. Refused: lease_lost, stale_generation."""
        return await self._call(f"tasks/{task_id}/cancel", call, CancelAnswer, self._policy.order)

    async def interrupt_ack(self, task_id: str, call: InterruptAckCall) -> CancelAnswer | Refused:
        """Stopped at a safe point, or not run here. Refused: lease_lost, stale_generation."""
        return await self._call(f"tasks/{task_id}/interrupt-ack", call, CancelAnswer, self._policy.order)

    async def result(self, task_id: str, call: ResultCall) -> ResultAnswer | Refused:
        """The answer or the failure. Refused: lease_lost, payload_too_large, unavailable."""
        return await self._call(f"tasks/{task_id}/result", call, ResultAnswer, self._policy.result)

    async def proxy(self, call_id: str, call: ProxyAnswerCall) -> ProxyAnswerTaken | Refused:
        """The answer to a proxy call. Refused for good: not_found, rejected (its time is over)."""
        return await self._call(f"proxy/{call_id}", call, ProxyAnswerTaken, self._policy.order)

    async def _call(self, path: str, call: BaseModel, kind: type[A], tries: Tries) -> A | Refused:
        url, body = f"{self._base}/{path}", call.model_dump_json().encode()
        try:
            response = await self._send(url, body, tries)
        except (httpx.TransportError, _TryAgain) as error:
            log.info("%s: no answer (%s)", path, type(error).__name__)
            retry_after = error.retry_after if isinstance(error, _TryAgain) else None
            return Refused(Reason.UNAVAILABLE, str(error) or type(error).__name__, retry_after)
        return _answer(response, kind)

    async def _send(self, url: str, body: bytes, tries: Tries) -> httpx.Response:
        async for attempt in stamina.retry_context(
            on=_worth_another_try,
            attempts=tries.attempts,
            timeout=tries.timeout,
            wait_initial=tries.first,
            wait_max=tries.longest,
            wait_jitter=tries.first,
        ):
            with attempt:
                response = await self._http.post(url, content=body, headers=self._headers)
                if response.status_code == 429 or response.status_code >= 500:
                    raise _TryAgain(response)
        return response


def _worth_another_try(error: Exception) -> bool | float:
    if isinstance(error, _TryAgain):
        return True if error.retry_after is None else min(error.retry_after, LONGEST_ASKED)
    return isinstance(error, httpx.TransportError)


def _answer(response: httpx.Response, kind: type[A]) -> A | Refused:
    if response.is_success:
        try:
            return kind.model_validate_json(response.content)
        except ValidationError as error:
            # Done, but by a server whose answer we cannot read: the same as an answer that was lost.
            return Refused(Reason.UNAVAILABLE, f"unreadable answer: {error.error_count()} errors")
    return _refusal(response)


def _refusal(response: httpx.Response) -> Refused:
    problem = _problem(response)
    # `type` is a URN that ends in the same code.
    code = str(problem.get("code") or str(problem.get("type") or "").rpartition(":")[2])
    detail = str(problem.get("detail") or "")
    if response.status_code == 409:
        reason = next((known for known in _CONFLICTS if known == code), Reason.REJECTED)
    else:
        reason = _STATUS_REASONS.get(response.status_code, Reason.REJECTED)
    return Refused(reason, detail or code or f"HTTP {response.status_code}")


def _problem(response: httpx.Response) -> dict[str, Any]:
    try:
        problem = response.json()
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) else {}


def _seconds(header: str | None) -> float | None:
    """Retry-After in seconds; the date form is not used by our server and counts as absent."""
    try:
        return None if header is None else max(0.0, float(header))
    except ValueError:
        return None
