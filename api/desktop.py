"""The desktop's REST calls about its leases (2-desktop §2.2; bodies: `domain/desktop_calls.py`).

The bound on bodies (1 MB, 413) is the whole API's: `api/body_guard.py`.
"""

from collections.abc import Callable
from typing import Annotated, Protocol

from fastapi import APIRouter, Depends, Request

from api.desktop_legacy import add_pull_route, calls_of, known_id
from api.desktop_proxy import add_proxy_route
from domain.desktop_calls import (
    CancelAnswer,
    CancelCall,
    InterruptAckCall,
    LeaseAnswer,
    LeaseCall,
    ResultAnswer,
    ResultCall,
)
from domain.errors import Gone, InvalidInput, Unauthorized
from domain.hub_port import ClientIdentity
from domain.legacy import TaskId, wire_id
from domain.transport import ResultMessage
from store import results
from store.clients import authenticate_device
from store.database import Pool


class ResultPublisher(Protocol):
    """Publishes a result; returns once the broker has it. Raises BrokerUnavailable; calling it again is harmless."""

    async def __call__(self, message: ResultMessage, shard_key: str) -> None: ...


def desktop_router(pool_of: Callable[[Request], Pool], publisher_of: Callable[[Request], ResultPublisher]) -> APIRouter:
    """Routes under `/api/desktop`. The two functions find the process's resources from a request."""
    router = APIRouter(prefix="/api/desktop", tags=["desktop"])

    async def device(request: Request) -> ClientIdentity:
        client = await authenticate_device(pool_of(request), bearer_token(request))
        if client is None:
            raise Unauthorized("the device token is unknown or revoked; register the client again")
        return client

    add_pull_route(router, device, pool_of)
    _add_lease_routes(router, device, pool_of)
    _add_result_route(router, device, pool_of, publisher_of)
    add_proxy_route(router, device, pool_of)

    @router.get("/events", include_in_schema=False)
    async def events() -> None:
        """The old SSE endpoint (dispatch §14.3)."""
        raise Gone("server-sent events are gone; connect a WebSocket to /api/desktop/ws")

    return router


def _add_lease_routes(router: APIRouter, device: Callable[..., object], pool_of: Callable[[Request], Pool]) -> None:
    @router.post("/tasks/{task_id}/start")
    async def start(
        request: Request, task_id: str, call: LeaseCall, client: Annotated[ClientIdentity, Depends(device)]
    ) -> LeaseAnswer:
        """queued → in_progress. 409 `no_slot`: keep it queued and try again later."""
        return await calls_of(pool_of(request), client, task_id).start(call)

    @router.post("/tasks/{task_id}/extend")
    async def extend(
        request: Request, task_id: str, call: LeaseCall, client: Annotated[ClientIdentity, Depends(device)]
    ) -> LeaseAnswer:
        """A longer lease; heartbeats do the same."""
        return await calls_of(pool_of(request), client, task_id).extend(call)

    @router.post("/tasks/{task_id}/cancel")
    async def cancel(
        request: Request, task_id: str, call: CancelCall, client: Annotated[ClientIdentity, Depends(device)]
    ) -> CancelAnswer:
        """Give a task back: before the start, after an interrupt, or because the desktop cannot go on."""
        return await calls_of(pool_of(request), client, task_id).cancel(call)

    @router.post("/tasks/{task_id}/interrupt-ack")
    async def interrupt_ack(
        request: Request, task_id: str, call: InterruptAckCall, client: Annotated[ClientIdentity, Depends(device)]
    ) -> CancelAnswer:
        """The same with phase and safe point; without a lease token for work the desktop no longer runs."""
        return await calls_of(pool_of(request), client, task_id).acknowledge_interrupt(call)


def _add_result_route(
    router: APIRouter,
    device: Callable[..., object],
    pool_of: Callable[[Request], Pool],
    publisher_of: Callable[[Request], ResultPublisher],
) -> None:
    @router.post("/tasks/{task_id}/result", status_code=202)
    async def result(
        request: Request, task_id: str, call: ResultCall, client: Annotated[ClientIdentity, Depends(device)]
    ) -> ResultAnswer:
        """202: the result is safe. 503: send it again, it is counted once."""
        if call.outcome == "succeeded" and call.raw is None:
            raise InvalidInput("a success needs `raw`: the provider's body as text")
        return await accept_result(pool_of(request), publisher_of(request), client, known_id(task_id), call)


async def accept_result(
    pool: Pool, publish: ResultPublisher, client: ClientIdentity, task_id: TaskId, call: ResultCall
) -> ResultAnswer:
    """Find the attempt, publish, then mark it received: lost anywhere in between, the desktop sends it again."""
    target = await results.find_attempt_for_result(pool, client, task_id, call)
    if target.duplicate:
        return ResultAnswer(task_id=wire_id(task_id), attempt_id=target.attempt_id, duplicate=True)
    times = {phase.value: milliseconds for phase, milliseconds in call.phase_times.items()}
    await publish(_message(target, call, times), target.shard_key)
    first = await results.mark_result_received(pool, target, times, call.safe_point_interval_ms)
    return ResultAnswer(task_id=wire_id(task_id), attempt_id=target.attempt_id, duplicate=not first)


def _message(target: results.ResultTarget, call: ResultCall, phase_times: dict[str, float]) -> ResultMessage:
    return ResultMessage(
        attempt_id=str(target.attempt_id),
        task_id=wire_id(target.task_id),
        monitor_task_id=target.monitor_task_id,
        tenant_id=target.tenant_id,
        client_id=str(target.client_id),
        outcome=call.outcome,
        received_at=target.received_at,
        raw=call.raw,
        content_type=call.content_type,
        error=call.error,
        model=call.model,
        request_id=call.request_id,
        phase_times=phase_times,
    )


def bearer_token(request: Request) -> str:
    """The token of `Authorization: Bearer …`; Unauthorized without one. Never from the URL."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthorized("send the device token as `Authorization: Bearer …`")
    return token.strip()
