"""A desktop whose driver has pages makes HTTP calls for the server (2-desktop §2.1; ADR 0054)."""

import asyncio
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest

from desktop.proxying import REMEMBERED, Proxies, time_of_page
from desktop.rest import Reason, Refused
from domain.desktop_calls import ProxyAnswerCall, ProxyAnswerTaken
from domain.protocol import Hello, ProxyRequest, ProxyResponse
from domain.proxying import ProxyAnswer
from tests.desktop.conftest import OpenDesk
from tests.desktop.hub import Hub
from tests.desktop.stepdriver import StepDriver
from tests.desktop.waiting import Signal

OK = ProxyAnswer(status=201, headers={"content-type": "text/plain"}, body="done")


class Pages(StepDriver):
    """A driver whose pages answer what they are told to, while `gate` is set, and close while `closing` is."""

    def __init__(self) -> None:
        super().__init__()
        self.answer: ProxyAnswer | Exception = OK
        self.asked: list[ProxyRequest] = []
        self.signal = Signal()
        self.gate = asyncio.Event()
        self.gate.set()
        self.closing = asyncio.Event()
        self.closing.set()

    async def proxy(self, request: ProxyRequest) -> ProxyAnswer:
        self.asked.append(request)
        self.signal.changed()
        try:
            await self.gate.wait()
        finally:
            await self.closing.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def driver() -> Pages:
    return Pages()


def a_call(**changes: Any) -> ProxyRequest:
    fields = {"id": str(uuid4()), "task_id": "t", "platform": "openai", "method": "GET", "url": "/me", **changes}
    return ProxyRequest(**fields)


async def test_a_driver_with_pages_is_asked_and_its_answer_goes_back(
    hub: Hub, driver: Pages, open_desk: OpenDesk
) -> None:
    await open_desk()
    call = a_call()
    await hub.send(call)
    await hub.until(lambda: bool(hub.of(ProxyResponse)))
    [answer] = hub.of(ProxyResponse)
    assert hub.of(Hello)[0].features == ["proxy"]
    assert driver.asked == [call]
    assert (answer.ref, answer.status, answer.headers, answer.body) == (call.id, 201, OK.headers, "done")


async def test_a_driver_without_pages_does_not_name_the_feature(hub: Hub, open_desk: OpenDesk) -> None:
    await open_desk(driver=StepDriver())
    assert hub.of(Hello)[0].features == []


async def test_a_call_is_made_once_however_often_it_comes(hub: Hub, driver: Pages, open_desk: OpenDesk) -> None:
    first, second = a_call(), a_call()
    hub.proxies = [first]
    driver.gate.clear()
    desk = await open_desk()
    await hub.send(first)
    await desk.client.sync()
    await hub.send(second)
    await driver.signal.until(lambda: len(driver.asked) == 2)
    driver.gate.set()
    await hub.until(lambda: len(hub.of(ProxyResponse)) == 2)
    await desk.client.sync()
    await hub.send(second)
    await hub.send(third := a_call())
    await hub.until(lambda: len(hub.of(ProxyResponse)) == 3)
    assert [each.id for each in driver.asked] == [first.id, second.id, third.id]


async def test_what_is_too_large_for_a_frame_goes_by_rest(hub: Hub, driver: Pages, open_desk: OpenDesk) -> None:
    await open_desk()
    driver.answer = ProxyAnswer(status=200, body="ü" * 40_000)
    await hub.send(call := a_call())
    await hub.until(lambda: bool(hub.called("proxy")))
    [sent] = hub.called("proxy")
    assert (sent.task_id, sent.body["status"], sent.body["body"]) == (call.id, 200, "ü" * 40_000)
    assert hub.of(ProxyResponse) == []


@pytest.mark.parametrize("code", ["database_unavailable", "internal_error", "a_code_of_the_future"])
async def test_an_answer_that_the_hub_could_not_keep_goes_by_rest(hub: Hub, open_desk: OpenDesk, code: str) -> None:
    await open_desk()
    hub.proxy_replies = [code]
    hub.trouble("proxy", (503, "database_unavailable"))
    await hub.send(call := a_call())
    await hub.until(lambda: len(hub.called("proxy")) == 2)
    assert [(each.task_id, each.status) for each in hub.called("proxy")] == [(call.id, 503), (call.id, 200)]


async def test_an_answer_that_nobody_waits_for_is_dropped(hub: Hub, open_desk: OpenDesk) -> None:
    await open_desk()
    hub.proxy_replies = ["unknown_request"]
    await hub.send(a_call())
    await hub.send(second := a_call())
    await hub.until(lambda: len(hub.of(ProxyResponse)) == 2)
    assert second.id in {each.ref for each in hub.of(ProxyResponse)}
    assert hub.called("proxy") == []


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (ProxyAnswer(status=200, body="x" * 1024 * 1024), "body_too_large"),
        (ProxyAnswer(error="page_paused", message="m" * 600), "page_paused"),
        (RuntimeError("the page is gone"), "no_page"),
    ],
)
async def test_a_call_that_cannot_be_made_is_answered_with_a_code(
    hub: Hub, driver: Pages, open_desk: OpenDesk, answer: Any, error: str
) -> None:
    await open_desk()
    driver.answer = answer
    await hub.send(a_call())
    await hub.until(lambda: bool(hub.of(ProxyResponse)))
    [sent] = hub.of(ProxyResponse)
    assert (sent.error, sent.status, sent.body) == (error, None, None)


async def test_a_page_that_takes_too_long_is_answered_before_the_server_gives_up(
    hub: Hub, driver: Pages, open_desk: OpenDesk
) -> None:
    await open_desk()
    driver.gate.clear()
    await hub.send(a_call(timeout_ms=200))
    await hub.until(lambda: bool(hub.of(ProxyResponse)))
    assert hub.of(ProxyResponse)[0].error == "timeout"


@pytest.mark.parametrize(("timeout_ms", "seconds"), [(1, 0.0009), (200, 0.18), (10_000, 9.0), (300_000, 299.0)])
def test_a_page_has_a_little_less_time_than_the_server(timeout_ms: int, seconds: float) -> None:
    assert time_of_page(a_call(timeout_ms=timeout_ms)) == pytest.approx(seconds)


async def test_a_page_that_does_not_even_close_in_time_delays_neither_the_answer_nor_the_end(
    driver: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("desktop.proxying.CLOSE_SECONDS", 0.05)
    driver.gate.clear()
    driver.closing.clear()
    server = Server()
    proxies = Proxies(driver, server, server.send)
    proxies.asked(a_call(timeout_ms=100))
    await server.signal.until(lambda: len(server.taken) == 1)
    assert server.taken[0][1].error == "timeout"
    proxies.asked(a_call())
    await driver.signal.until(lambda: len(driver.asked) == 2)
    async with asyncio.timeout(20):
        await proxies.close()
    driver.closing.set()


async def test_what_no_text_of_the_protocol_holds_is_replaced_in_the_body(
    hub: Hub, driver: Pages, open_desk: OpenDesk
) -> None:
    await open_desk()
    driver.answer = ProxyAnswer(status=200, body="a\0b\ud800", headers={"n\0": "v" * 9000})
    await hub.send(a_call())
    await hub.until(lambda: bool(hub.of(ProxyResponse)))
    [sent] = hub.of(ProxyResponse)
    assert (sent.body, sent.headers) == ("a\ufffdb?", {"n\ufffd": "v" * 8192})


@dataclass
class Server:
    """A server without a connection, whose REST call refuses first."""

    refusals: list[Refused] = field(default_factory=list)
    taken: list[tuple[str, ProxyAnswerCall]] = field(default_factory=list)
    signal: Signal = field(default_factory=Signal)

    async def send(self, frame: ProxyResponse) -> bool:
        return False

    async def proxy(self, call_id: str, call: ProxyAnswerCall) -> ProxyAnswerTaken | Refused:
        self.taken.append((call_id, call))
        self.signal.changed()
        return self.refusals.pop(0) if self.refusals else ProxyAnswerTaken(call_id=uuid4())


async def test_an_answer_is_handed_in_without_a_connection_until_the_server_has_it(
    driver: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("desktop.proxying.AGAIN_SECONDS", 0.01)
    server = Server([Refused(Reason.UNAVAILABLE), Refused(Reason.UNAVAILABLE), Refused(Reason.REJECTED)])
    proxies = Proxies(driver, server, server.send)
    proxies.asked(call := a_call())
    await server.signal.until(lambda: len(server.taken) == 3)
    await proxies.close()
    assert [(call_id, answer.body) for call_id, answer in server.taken] == [(call.id, "done")] * 3


async def test_the_memory_of_calls_is_bounded(driver: Pages) -> None:
    server = Server()
    proxies = Proxies(driver, server, server.send)
    calls = [a_call() for _ in range(REMEMBERED + 1)]
    for call in calls:
        proxies.asked(call)
    for call in calls[1:]:
        proxies.asked(call)
    proxies.asked(calls[0])
    await server.signal.until(lambda: len(server.taken) == len(calls) + 1)
    await proxies.close()
    assert [each.id for each in driver.asked] == [each.id for each in [*calls, calls[0]]]
