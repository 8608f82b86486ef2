"""Answers of a desktop's page that are too large for a frame (2-desktop §2.1: a large proxy body travels by REST)."""

from collections.abc import Callable
from typing import Annotated, assert_never
from uuid import UUID

from fastapi import APIRouter, Depends, Request

from domain.desktop_calls import ProxyAnswerCall, ProxyAnswerTaken
from domain.errors import NotFound, ProxyOver
from domain.hub_port import ClientIdentity
from domain.proxying import AnswerOutcome
from store import proxy_calls
from store.database import Pool


def add_proxy_route(router: APIRouter, device: Callable[..., object], pool_of: Callable[[Request], Pool]) -> None:
    """`POST …/proxy/{call_id}`."""

    @router.post("/proxy/{call_id}")
    async def answer_proxy(
        request: Request, call_id: UUID, call: ProxyAnswerCall, client: Annotated[ClientIdentity, Depends(device)]
    ) -> ProxyAnswerTaken:
        """The answer to a `proxy_request`; again it changes nothing. 409 `proxy_over`: nobody waits any more."""
        outcome = await proxy_calls.answer_call(pool_of(request), client, call_id, call.answer())
        match outcome:
            case AnswerOutcome.TAKEN | AnswerOutcome.REPEATED:
                return ProxyAnswerTaken(call_id=call_id, duplicate=outcome is AnswerOutcome.REPEATED)
            case AnswerOutcome.LATE:
                raise ProxyOver("the call's time is over; drop the answer")
            case AnswerOutcome.UNKNOWN:
                raise NotFound(f"no proxy call {call_id}")
            case other:
                assert_never(other)
