"""Outcomes of the REST calls are told apart by status and code, and only what may help is repeated (2-desktop §2.2)."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from desktop.rest import Reason, Refused, RestClient
from domain.desktop_calls import InterruptAckCall, LeaseAnswer, LeaseCall
from tests.desktop.conftest import QUICK_CALLS
from tests.desktop.frames import available
from tests.desktop.hub import TOKEN, Hub, Lease


@pytest.fixture
async def rest(hub: Hub) -> AsyncIterator[RestClient]:
    async with httpx.AsyncClient(trust_env=False) as http:
        yield RestClient(http, hub.api_url + "/", TOKEN, QUICK_CALLS)


def leased(hub: Hub) -> tuple[str, LeaseCall]:
    task = available()
    hub.leases[task.task_id] = Lease(task)
    return task.task_id, LeaseCall(lease_token=task.lease_token)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((409, "lease_lost"), Reason.LEASE_LOST),
        ((409, "no_slot"), Reason.NO_SLOT),
        ((409, "stale_generation"), Reason.STALE_GENERATION),
        ((409, "something_new"), Reason.REJECTED),
        ((404, "not_found"), Reason.NOT_FOUND),
        ((413, "payload_too_large"), Reason.TOO_LARGE),
        ((401, "unauthorized"), Reason.UNAUTHORIZED),
        ((422, "invalid_input"), Reason.REJECTED),
    ],
)
async def test_a_refusal_has_the_reason_of_its_code_and_is_not_repeated(
    hub: Hub, rest: RestClient, answer: tuple[int, str], reason: Reason
) -> None:
    task_id, call = leased(hub)
    hub.trouble("start", answer)
    outcome: Any = await rest.start(task_id, call)
    assert isinstance(outcome, Refused)
    assert outcome.reason is reason
    assert len(hub.calls) == 1


async def test_a_problem_with_its_type_alone_is_told_apart_too() -> None:
    def answer(_request: httpx.Request) -> httpx.Response:
        return httpx.Response(409, json={"type": "urn:giveway:problem:no_slot", "status": 409})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        outcome = await RestClient(http, "http://api", TOKEN).start("any", LeaseCall(lease_token="x" * 32))
    assert isinstance(outcome, Refused)
    assert outcome.reason is Reason.NO_SLOT


async def test_a_call_that_fails_for_now_is_repeated_until_it_is_done(hub: Hub, rest: RestClient) -> None:
    task_id, call = leased(hub)
    hub.trouble("start", (503, "database_unavailable"), (500, "internal_error"))
    assert isinstance(await rest.start(task_id, call), LeaseAnswer)
    assert [one.status for one in hub.calls] == [503, 500, 200]


async def test_tries_come_to_an_end(hub: Hub, rest: RestClient) -> None:
    hub.trouble("interrupt-ack", *[(503, "database_unavailable")] * 10)
    outcome = await rest.interrupt_ack("gone", InterruptAckCall(interrupt_generation=1))
    assert isinstance(outcome, Refused)
    assert outcome.reason is Reason.UNAVAILABLE
    assert len(hub.calls) == QUICK_CALLS.order.attempts


async def test_no_server_is_an_outcome_and_not_an_exception() -> None:
    async with httpx.AsyncClient(trust_env=False) as http:
        rest = RestClient(http, "http://127.0.0.1:1", TOKEN, QUICK_CALLS)
        outcome = await rest.start("any", LeaseCall(lease_token="x" * 32))
    assert isinstance(outcome, Refused)
    assert outcome.reason is Reason.UNAVAILABLE
