"""The work that the lease checks need is asked for again while the server says 503."""

from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from desktop.conformance.hub_work import Workshop
from desktop.conformance.pace import HUB_PACE
from desktop.conformance.target import Access, Target
from desktop.conformance.verdict import CannotCheck

ACCESS = Access("ws://hub.invalid/api/desktop/ws", "http://api.invalid", "token", 1)


def workshop(http: httpx.AsyncClient, work: float) -> Workshop:
    return Workshop(Target(ACCESS, replace(HUB_PACE, work=work), http))


def answering(answers: Iterator[int]) -> httpx.MockTransport:
    return httpx.MockTransport(lambda _request: httpx.Response(next(answers), headers={"retry-after": "0.01"}, json={}))


async def test_a_busy_server_is_asked_again() -> None:
    async with httpx.AsyncClient(transport=answering(iter([503, 503, 202]))) as http:
        await workshop(http, work=60).run_plan()


@pytest.mark.parametrize("answers", [[503, 202], [409, 202]])
async def test_one_that_stays_away_or_refuses_makes_no_work(answers: list[int]) -> None:
    async with httpx.AsyncClient(transport=answering(iter(answers))) as http:
        with pytest.raises(CannotCheck, match=str(answers[0])):
            await workshop(http, work=0).run_plan()
