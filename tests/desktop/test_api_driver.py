"""Driver `api` against a real server: what it sends and when, what it takes for an answer (2-desktop §2.3, §2.4)."""

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import stamina

from desktop.driver import Answer, DriverFailure, RunContext
from desktop.events import EventKind
from desktop.openai.driver import ApiDriver, api_driver
from desktop.openai.endpoints import Endpoints, KeyMissing
from domain.answers import AnswerKind, read_answer
from domain.lanes import Lane
from domain.phases import Phase, SafePoint
from domain.protocol import TaskAvailable
from tests.desktop.conftest import OpenDesk
from tests.desktop.frames import available, interrupt
from tests.desktop.hub import Hub
from tests.desktop.provider import KEY, TEXT, Provider, Reply, chat_answer, chat_events, fault, page, running_provider

QUESTION = "哪款水壶安静？ Which kettle?"


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with running_provider() as running:
        yield running


@pytest.fixture(autouse=True)
def no_waits() -> Iterator[None]:
    """Tries follow each other at once, three at most."""
    with stamina.set_testing(True, attempts=3, cap=True):
        yield


def endpoints(provider: Provider, **fields: Any) -> Endpoints:
    given = {"base_url": provider.base_url, "model": "m-1", "key_env": "TEST_API_KEY", **fields}
    return Endpoints.model_validate({"platforms": {"deepseek": given}})


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_API_KEY", KEY)


@asynccontextmanager
async def driving(provider: Provider, **fields: Any) -> AsyncIterator[ApiDriver]:
    async with api_driver(endpoints(provider, **fields), step=0.02) as driver:
        yield driver


def task(**changes: Any) -> TaskAvailable:
    return available(**{"question": QUESTION, **changes})


async def run_until(driver: ApiDriver, asked: TaskAvailable, last: Phase) -> RunContext:
    """Go through the phases to the end of `last`."""
    context = RunContext()
    for phase in Phase:
        while await driver.run_phase(phase, asked, context):
            pass
        if phase is last:
            return context
    raise AssertionError(last)


async def answer_of(driver: ApiDriver, asked: TaskAvailable | None = None) -> Answer:
    asked = asked or task()
    context = RunContext()
    try:
        for phase in (p for p in Phase if p is not Phase.POSTING):
            while await driver.run_phase(phase, asked, context):
                pass
    finally:
        await driver.release(asked, context)
    assert context.answer is not None
    return context.answer


async def failure_of(driver: ApiDriver, asked: TaskAvailable | None = None) -> DriverFailure:
    with pytest.raises(DriverFailure) as failure:
        await answer_of(driver, asked)
    return failure.value


# --- what is sent ---------------------------------------------------------------------------------------------


async def test_a_chat_endpoint_is_asked_as_configured(provider: Provider) -> None:
    fields = {"headers": {"X-Org": "o-1"}, "body": {"temperature": 0.2}, "instructions": "Answer briefly."}
    async with driving(provider, **fields) as driver:
        await answer_of(driver)
    [asked] = provider.asked
    assert asked.path == "/v1/chat/completions"
    assert (asked.headers["authorization"], asked.headers["x-org"]) == (f"Bearer {KEY}", "o-1")
    messages = [{"role": "system", "content": "Answer briefly."}, {"role": "user", "content": QUESTION}]
    assert asked.body == {"model": "m-1", "stream": False, "temperature": 0.2, "messages": messages}


async def test_a_responses_endpoint_is_asked_as_configured(provider: Provider) -> None:
    fields = {"style": "responses", "instructions": "Briefly.", "body": {"tools": [{"type": "web_search"}]}}
    async with driving(provider, **fields) as driver:
        await answer_of(driver)
    [asked] = provider.asked
    tools = [{"type": "web_search"}]
    wanted = {"model": "m-1", "stream": False, "tools": tools, "instructions": "Briefly.", "input": QUESTION}
    assert (asked.path, asked.body) == ("/v1/responses", wanted)


async def test_a_key_goes_into_the_header_that_the_endpoint_wants(provider: Provider, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    async with driving(provider, key_env=None, key_file=file, key_header="api-key", path="/x?v=1") as driver:
        await answer_of(driver)
        file.write_text("another")
        await answer_of(driver)
    assert [asked.headers["api-key"] for asked in provider.asked] == [KEY, "another"]
    assert "authorization" not in provider.asked[0].headers


async def test_nothing_is_sent_before_submitting(provider: Provider) -> None:
    async with driving(provider) as driver:
        context = await run_until(driver, task(), Phase.INPUTTING)
        assert provider.asked == []
        await driver.release(task(), context)
    assert provider.asked == []


async def test_submitting_ends_when_the_request_is_written_and_waiting_holds_the_answer(provider: Provider) -> None:
    gate = asyncio.Event()
    provider.replies = [Reply(json.dumps(chat_answer()).encode(), after=gate)]
    asked = task()
    async with driving(provider) as driver:
        context = await run_until(driver, asked, Phase.SUBMITTING)
        waiting = asyncio.create_task(driver.run_phase(Phase.WAITING, asked, context))
        await provider.got()
        assert not waiting.done()
        gate.set()
        await waiting
    assert context.answer is not None


async def test_an_attempt_that_is_stopped_closes_its_connection(provider: Provider) -> None:
    provider.replies = [Reply([b"x"], after=asyncio.Event())]
    asked = task()
    async with driving(provider) as driver:
        context = await run_until(driver, asked, Phase.SUBMITTING)
        waiting = asyncio.create_task(driver.run_phase(Phase.WAITING, asked, context))
        await provider.got()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await driver.release(asked, context)
        assert context.resources.asking.done()
        assert await answer_of(driver)


# --- what is taken for an answer --------------------------------------------------------------------------------


@pytest.mark.parametrize("style", ["chat", "responses"])
@pytest.mark.parametrize("stream", [False, True])
async def test_the_body_arrives_as_it_came_and_the_readers_read_it(
    provider: Provider, style: str, stream: bool
) -> None:
    async with driving(provider, style=style, stream=stream) as driver:
        answer = await answer_of(driver)
    assert (answer.model, answer.request_id) == ("m-1", "req-1")
    assert answer.content_type == ("text/event-stream; charset=utf-8" if stream else "application/json")
    read = read_answer(answer.raw.encode())
    assert (read.kind, read.text.strip(), read.model) == (AnswerKind.ANSWER, TEXT, "m-1")
    if stream and style == "chat":
        assert answer.raw.encode() == b"".join(chat_events())


async def test_line_ends_and_a_byte_order_mark_are_part_of_what_came(provider: Provider) -> None:
    body = '\ufeff{"choices":\r\n[]}'.encode()
    provider.replies = [Reply(body)]
    async with driving(provider) as driver:
        assert (await answer_of(driver)).raw.encode() == body


async def test_the_charset_of_the_content_type_is_heeded(provider: Provider) -> None:
    headers = {"content-type": "application/json; charset=GB18030"}
    provider.replies = [Reply('{"a": "结束"}'.encode("gb18030"), headers=headers)]
    async with driving(provider) as driver:
        assert (await answer_of(driver)).raw == '{"a": "结束"}'


async def test_a_stream_that_is_cut_is_posted_as_far_as_it_came(provider: Provider) -> None:
    pieces = chat_events("静かな 水壶")[:2]
    headers = {"content-type": "text/event-stream"}
    provider.replies = [Reply([*pieces, '{"cut": "结'.encode()[:-1]], headers=headers, cut=True)]
    async with driving(provider, stream=True) as driver:
        answer = await answer_of(driver)
    assert answer.raw.encode().startswith(b"".join(pieces))
    assert read_answer(answer.raw.encode()).kind is AnswerKind.UNFINISHED


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Reply(b'{"choices": [', cut=True), "connection_lost"),
        (Reply(b"\xff\xfe\xfd"), "answer_unreadable"),
        (Reply([b"x" * 500_000] * 3), "result_too_large"),
        (page(302, location="http://127.0.0.1:1/"), "request_refused"),
        (page(404), "request_refused"),
        (page(401), "login_required"),
        (fault(401, "invalid_api_key"), "login_required"),
        (fault(403, "forbidden"), "login_required"),
    ],
)
async def test_what_cannot_be_an_answer_fails_with_its_code(provider: Provider, reply: Reply, code: str) -> None:
    provider.replies = [reply]
    async with driving(provider) as driver:
        failure = await failure_of(driver)
    assert failure.code == code
    assert KEY not in str(failure)
    assert len(provider.asked) == 1


@pytest.mark.parametrize(
    ("reply", "code"),
    [(page(500), "provider_unavailable"), (page(529), "provider_unavailable"), (page(429), "rate_limited")],
)
async def test_a_trouble_that_may_pass_is_tried_again_and_then_told(
    provider: Provider, reply: Reply, code: str
) -> None:
    provider.replies = [reply] * 3
    async with driving(provider) as driver:
        assert (await failure_of(driver)).code == code
        assert len(provider.asked) == 3
        provider.replies = [reply] * 2
        assert (await answer_of(driver)).request_id == "req-1"


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (429, "rate_limit_exceeded", AnswerKind.RATE_LIMITED),
        (400, "content_filter", AnswerKind.REFUSAL),
        (403, "content_filter", AnswerKind.REFUSAL),
        (400, "model_not_found", AnswerKind.ERROR),
        (500, "server_error", AnswerKind.ERROR),
    ],
)
async def test_an_error_body_that_ingest_knows_is_posted_for_it_to_judge(
    provider: Provider, status: int, code: str, kind: AnswerKind
) -> None:
    provider.replies = [fault(status, code)] * 3
    async with driving(provider) as driver:
        answer = await answer_of(driver)
        assert driver.sessions() == {}
    assert read_answer(answer.raw.encode()).kind is kind


async def test_an_error_event_within_a_stream_is_posted_for_ingest_to_judge(provider: Provider) -> None:
    event = b'data: {"error": {"message": "no", "code": "server_error"}}\n\n'
    provider.replies = [Reply([*chat_events()[:1], event], headers={"content-type": "text/event-stream"})]
    async with driving(provider, stream=True) as driver:
        answer = await answer_of(driver)
    assert not read_answer(answer.raw.encode()).kind.is_answer


async def test_a_longer_pause_than_the_endpoints_patience_is_not_waited_for(provider: Provider) -> None:
    provider.replies = [page(429, **{"retry-after": "3600"})]
    async with driving(provider) as driver:
        assert (await failure_of(driver)).code == "rate_limited"
    assert len(provider.asked) == 1


async def test_an_endpoint_that_answers_too_slowly_fails_in_time(provider: Provider) -> None:
    provider.replies = [Reply(b"{}", after=asyncio.Event())]
    async with driving(provider, timeout=0.1) as driver:
        assert (await failure_of(driver)).code == "timeout"


async def test_a_stream_that_hangs_fails_in_time(provider: Provider) -> None:
    async def drip(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9999\r\n\r\n")
        while not writer.is_closing():
            writer.write(b": ping\n")
            await writer.drain()
            await asyncio.sleep(0.02)

    async with await asyncio.start_server(drip, "127.0.0.1", 0) as server:
        provider.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with driving(provider, timeout=0.2) as driver:
            assert (await failure_of(driver)).code == "timeout"


async def test_nobody_at_the_address_fails_after_its_tries(provider: Provider) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        provider.base_url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
    async with driving(provider) as driver:
        assert (await failure_of(driver)).code == "connection_failed"


# --- login health, keys, limits ---------------------------------------------------------------------------------


async def test_a_refused_key_is_reported_until_it_is_taken_again(provider: Provider) -> None:
    async with driving(provider) as driver:
        assert driver.sessions() == {}
        provider.replies = [fault(401, "invalid_api_key")]
        await failure_of(driver)
        assert driver.sessions() == {"deepseek": "login_required"}
        await answer_of(driver)
        assert driver.sessions() == {"deepseek": "healthy"}


async def test_a_refusal_is_forgotten_so_that_a_task_can_show_a_mended_key(provider: Provider) -> None:
    provider.replies = [fault(401, "invalid_api_key")]
    async with api_driver(endpoints(provider), recheck=0.0) as driver:
        await failure_of(driver)
        assert driver.sessions() == {}


async def test_a_key_that_is_not_there_is_found_before_the_desktops_start(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TEST_API_KEY")
    with pytest.raises(KeyMissing, match="TEST_API_KEY"):
        async with driving(provider):
            pass


async def test_a_key_that_goes_away_is_a_login_that_is_missing(provider: Provider, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(KEY)
    async with driving(provider, key_env=None, key_file=file) as driver:
        file.unlink()
        assert (await failure_of(driver)).code == "login_required"
        assert driver.sessions() == {"deepseek": "login_required"}
    assert provider.asked == []


async def test_a_platform_without_an_endpoint_says_so_in_heartbeats(provider: Provider) -> None:
    async with driving(provider) as driver:
        assert (await failure_of(driver, task(platform="nowhere"))).code == "platform_not_configured"
        assert driver.sessions() == {"nowhere": "login_required"}


async def test_publishing_is_not_asked_of_an_endpoint(provider: Provider) -> None:
    async with driving(provider) as driver:
        assert (await failure_of(driver, task(kind="publish"))).code == "unsupported_kind"
    assert provider.asked == []


async def test_the_key_is_in_no_log(provider: Provider, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    provider.replies = [page(503), fault(401, "invalid_api_key")]
    async with driving(provider) as driver:
        await failure_of(driver)
        await answer_of(driver)
    # The libraries name the request's headers at no level; bodies of refusals are not logged either.
    assert KEY not in "\n".join(record.getMessage() for record in caplog.records if "uvicorn" not in record.name)


async def test_a_turn_at_the_rate_limit_is_waited_for_in_steps_of_inputting(provider: Provider) -> None:
    async with driving(provider, requests=1, per=3600) as driver:
        await answer_of(driver)
        context = RunContext()
        for phase in (Phase.PREPARING, Phase.NAVIGATING, Phase.AUTHENTICATING):
            await driver.run_phase(phase, task(), context)
        assert await driver.run_phase(Phase.INPUTTING, task(), context)
        assert await driver.run_phase(Phase.INPUTTING, task(), context)
        await driver.release(task(), context)
        assert context.resources.turn.done()
    assert len(provider.asked) == 1


async def test_the_pause_that_an_endpoint_asks_for_holds_the_next_question_too(provider: Provider) -> None:
    provider.replies = [page(429, **{"retry-after": "3600"})]
    async with driving(provider, patience=60) as driver:
        await failure_of(driver)
        context = RunContext()
        for phase in (Phase.PREPARING, Phase.NAVIGATING, Phase.AUTHENTICATING):
            await driver.run_phase(phase, task(), context)
        assert await driver.run_phase(Phase.INPUTTING, task(), context)
        await driver.release(task(), context)


# --- on a desktop -----------------------------------------------------------------------------------------------


async def test_an_answer_of_an_endpoint_reaches_the_server(provider: Provider, hub: Hub, open_desk: OpenDesk) -> None:
    async with driving(provider, stream=True) as driver:
        desk = await open_desk(driver=driver)
        asked = task()
        await hub.push(asked)
        await desk.record.seen(EventKind.RESULT_ACCEPTED, asked.task_id)
        await desk.stop()
    [result] = hub.results
    assert (result["outcome"], result["request_id"], result["model"]) == ("succeeded", "req-1", "m-1")
    assert read_answer(result["raw"].encode()).text.strip() == TEXT


async def test_a_task_that_waits_for_its_turn_gives_way_before_it_is_submitted(
    provider: Provider, hub: Hub, open_desk: OpenDesk
) -> None:
    async with driving(provider, requests=1, per=3600) as driver:
        desk = await open_desk(driver=driver, max_concurrent=1)
        first, victim = task(), task()
        await hub.push(first)
        await desk.record.seen(EventKind.RESULT_ACCEPTED, first.task_id)
        await hub.push(victim)
        await desk.record.seen(EventKind.PHASE_ENTERED, victim.task_id, count=4)
        await hub.push(available(Lane.HIGH))
        await hub.order(interrupt(victim.task_id, 1))
        gave_way = await desk.record.seen(EventKind.GAVE_WAY, victim.task_id)
        await desk.stop()
    assert (gave_way.phase, gave_way.safe_point) == (Phase.INPUTTING, SafePoint.BEFORE_SUBMIT)
    assert len(provider.asked) == 1
