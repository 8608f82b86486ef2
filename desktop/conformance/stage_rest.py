"""The scripted hub's REST side: a client's lease calls, and a registration that always hands out the one client."""

import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from desktop.conformance.heard import HeardCall
from desktop.conformance.stage import Stage
from domain.desktop_calls import CancelCall, InterruptAckCall, LeaseCall, PullCall, ResultCall
from domain.errors import GivewayError, InvalidInput, NotFound, StaleGeneration, Unauthorized
from domain.protocol import Control

BODIES: Final[dict[str, type[BaseModel]]] = {
    "lease": PullCall,
    "start": LeaseCall,
    "extend": LeaseCall,
    "cancel": CancelCall,
    "interrupt-ack": InterruptAckCall,
    "result": ResultCall,
}
ACCEPTED: Final = 202


class UnsupportedMediaType(GivewayError):
    """The body is not announced as JSON."""

    code = "unsupported_media_type"
    http_status = 415


Handler = Callable[[Request], Awaitable[Response]]


class StageRest:
    """The application of one stage."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.app = Starlette(
            routes=[
                Route("/api/desktop/clients", _answering(self._register), methods=["POST"]),
                Route("/api/desktop/clients/{client_id}", _answering(self._revoke), methods=["DELETE"]),
                Route("/api/desktop/tasks/lease", _answering(self._call), methods=["POST"]),
                Route("/api/desktop/tasks/{task_id}/{action}", _answering(self._call), methods=["POST"]),
            ]
        )

    async def _register(self, _request: Request) -> Response:
        address = self._stage.address
        body = {"client_id": address.client_id, "token": address.device_token, "ws_url": address.ws_url}
        return JSONResponse(body, status_code=201)

    async def _revoke(self, _request: Request) -> Response:
        return Response(status_code=204)

    async def _call(self, request: Request) -> Response:
        task_id, action = request.path_params.get("task_id", ""), request.path_params.get("action", "lease")
        self._authorize(request)
        heard = HeardCall(task_id, action, await self._body(request, action))
        self._stage.record.calls.append(heard)
        self._stage.signal.changed()
        try:
            answer = await self._do(heard)
        except GivewayError as refusal:
            heard.status, heard.code = refusal.http_status, refusal.code
            await self._order_again(heard, refusal)
            raise
        finally:
            heard.answered_at = time.monotonic()
            self._stage.signal.changed()
        return JSONResponse(answer.model_dump(mode="json"), status_code=heard.status or 200)

    def _authorize(self, request: Request) -> None:
        if request.headers.get("Authorization") != f"Bearer {self._stage.device_token}":
            self._stage.breach("made a REST call without its device token in the Authorization header")
            raise Unauthorized("send the device token as `Authorization: Bearer …`")
        if request.headers.get("Content-Type", "").partition(";")[0].strip() != "application/json":
            self._stage.breach("made a REST call whose body is not announced as application/json")
            raise UnsupportedMediaType("send application/json")

    async def _body(self, request: Request, action: str) -> BaseModel:
        if action not in BODIES:
            self._stage.breach(f"made a REST call that is not in the protocol: {action[:100]}")
            raise NotFound(f"no call {action[:100]}")
        try:
            return BODIES[action].model_validate_json(await request.body())
        except ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, fault["loc"])) or "the body"
            self._stage.breach(f"sent `{action}` with a wrong body: {where}: {fault['msg']}")
            raise InvalidInput(f"{where}: {fault['msg']}") from None

    async def _do(self, heard: HeardCall) -> BaseModel:
        answer = self._apply(heard)
        heard.status = ACCEPTED if heard.action == "result" else 200
        if heard.action == "start":
            # The answer stands as it was made, however long it is on its way.
            await self._stage.ledger.leases[heard.task_id].gate.wait()
        heard.answer = answer
        return answer

    def _apply(self, heard: HeardCall) -> BaseModel:
        ledger, call = self._stage.ledger, heard.call
        match heard.action:
            case "lease":
                return ledger.pull(call.count)
            case "start":
                return ledger.start(heard.task_id, call.lease_token)
            case "extend":
                return ledger.extend(heard.task_id, call.lease_token)
            case "result":
                return ledger.result(heard.task_id, call.lease_token, str(call.attempt_id))
            case _:
                return ledger.stop(heard.action, heard.task_id, call.lease_token, call.interrupt_generation)

    async def _order_again(self, heard: HeardCall, refusal: GivewayError) -> None:
        """After a stale acknowledgement the current order comes again."""
        lease = self._stage.ledger.leases.get(heard.task_id)
        if isinstance(refusal, StaleGeneration) and lease is not None and lease.interrupted:
            order = self._stage.make.order(heard.task_id, Control.INTERRUPT_REQUESTED, lease.generation)
            await self._stage.send(order)


def _answering(handler: Handler) -> Handler:
    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except GivewayError as refusal:
            return _problem(refusal)

    return answer


def _problem(refusal: GivewayError) -> Response:
    body: dict[str, Any] = {
        "type": f"urn:giveway:problem:{refusal.code}",
        "code": refusal.code,
        "title": type(refusal).__name__,
        "status": refusal.http_status,
        "detail": refusal.message,
    }
    headers = {} if refusal.retry_after is None else {"Retry-After": str(refusal.retry_after)}
    return JSONResponse(body, refusal.http_status, headers, media_type="application/problem+json")
