"""HTTP calls through a desktop's page, on sockets and the real broker (2-desktop §2.1; ADR 0054)."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from activities.outbox_pump import OutboxPump
from desktop.client import DesktopClient
from desktop.config import DesktopConfig
from domain.errors import DatabaseUnavailable
from domain.hub_port import ClientIdentity
from domain.protocol import (
    CloseCode,
    ErrorFrame,
    Feature,
    Heartbeat,
    Hello,
    ProxyRequest,
    ProxyResponse,
    ServerAck,
    Snapshot,
    Sync,
    TaskControl,
)
from domain.proxying import ProxyAnswer
from domain.transport import ProxyHint
from hub.proxying import ASKED_AT_ONCE, MOST_ANSWERS
from store.database import Pool, transaction
from store.hub_backend import StoreHubBackend
from store.listen import Listener
from store.proxy_calls import await_call, open_call
from tests.activities.pumping import pumping, until_settled
from tests.desktop.test_proxying import OK as PAGES_ANSWER
from tests.desktop.test_proxying import Pages
from tests.hub.conftest import Desk, MakeRig, Rig
from tests.hub.memory_backend import a_request
from tests.support.broker import until
from tests.support.world import World


async def greeted(rig: Rig, *features: str, known: tuple[str, ClientIdentity] | None = None) -> tuple[Desk, Snapshot]:
    desk = await rig.desk(known)
    await desk.send(Hello(id="h", features=list(features)))
    return desk, await desk.next(Snapshot)


async def announce(rig: Rig, desk: Desk, call_id: UUID) -> None:
    assert await rig.publish(ProxyHint(client_id=str(desk.client.client_id), call_id=str(call_id)))


async def answered(desk: Desk, call_id: object, **fields: Any) -> ServerAck | ErrorFrame:
    """The reply to an answer."""
    frame = ProxyResponse(id=uuid4().hex, ref=str(call_id), **fields)
    await desk.send(frame)
    while (reply := await desk.frame()) and getattr(reply, "ref", None) != frame.id:
        pass
    assert isinstance(reply, ServerAck | ErrorFrame)
    return reply


def code(reply: ServerAck | ErrorFrame) -> str | None:
    return reply.code if isinstance(reply, ErrorFrame) else None


async def test_a_call_reaches_the_client_and_its_first_answer_counts(rig: Rig) -> None:
    desk, _ = await greeted(rig, Feature.PROXY)
    call_id = rig.backend.open_call(desk.client)
    await announce(rig, desk, call_id)
    assert await desk.next(ProxyRequest) == rig.backend.calls[call_id].request
    assert code(await answered(desk, call_id, status=201, headers={"a": "b"}, body="yes")) is None
    assert code(await answered(desk, call_id, status=500)) is None
    assert rig.backend.calls[call_id].answer == ProxyAnswer(status=201, headers={"a": "b"}, body="yes")


async def test_a_call_does_not_wait_for_a_task_that_somebody_else_holds(rig: Rig) -> None:
    desk, _ = await greeted(rig, Feature.PROXY)
    rig.backend.busy[desk.client.client_id] = 2**31
    await rig.hint(desk.client, rig.backend.queue(desk.client))
    await until(lambda: len(rig.backend.grants) > 1)
    call_id = rig.backend.open_call(desk.client)
    await announce(rig, desk, call_id)
    assert (await desk.next(ProxyRequest)).id == str(call_id)


async def test_a_call_that_is_over_when_its_hint_comes_is_not_sent(rig: Rig) -> None:
    desk, _ = await greeted(rig, Feature.PROXY)
    over, call_id = rig.backend.open_call(desk.client), rig.backend.open_call(desk.client)
    rig.backend.calls[over].over = True
    for each in (over, call_id):
        await announce(rig, desk, each)
    assert (await desk.next(ProxyRequest)).id == str(call_id)
    assert code(await answered(desk, over, status=200)) == "unknown_request"


async def test_a_client_that_does_not_name_the_feature_is_not_asked_and_the_calls_end(rig: Rig) -> None:
    known = rig.backend.register()
    before = rig.backend.open_call(known[1])
    desk, snapshot = await greeted(rig, known=known)
    assert snapshot.proxies == []
    after = rig.backend.open_call(desk.client)
    await announce(rig, desk, after)
    await until(lambda: all(rig.backend.calls[each].answer for each in (before, after)))
    assert {call.answer.error for call in rig.backend.calls.values() if call.answer} == {"proxy_unsupported"}
    await desk.send(Heartbeat(id="b"))
    assert (await desk.next(ServerAck)).ref == "b"
    assert not [frame for frame in desk.seen if isinstance(frame, ProxyRequest)]


async def test_a_call_opened_while_the_client_was_away_comes_with_the_snapshot_until_it_is_answered(rig: Rig) -> None:
    known = rig.backend.register()
    call_id = rig.backend.open_call(known[1])
    desk, snapshot = await greeted(rig, Feature.PROXY, known=known)
    assert [each.id for each in snapshot.proxies] == [str(call_id)]
    await desk.send(Sync(id="s1"))
    assert [each.id for each in (await desk.next(Snapshot)).proxies] == [str(call_id)]
    assert code(await answered(desk, call_id, error="no_page")) is None
    await desk.send(Sync(id="s2"))
    assert (await desk.next(Snapshot)).proxies == []


async def test_a_snapshot_with_large_calls_comes_in_pages(rig: Rig) -> None:
    known = rig.backend.register()
    ids = [rig.backend.open_call(known[1]) for _ in range(3)]
    for each in ids:
        rig.backend.calls[each].request = a_request(each, body="x" * 40_000)
    desk, page = await greeted(rig, Feature.PROXY, known=known)
    pages = [page]
    while not pages[-1].last:
        pages.append(await desk.next(Snapshot))
    assert [[each.id for each in page.proxies] for page in pages] == [[str(each)] for each in ids]


@pytest.mark.parametrize(
    ("ref", "fields", "expected"),
    [
        ("nobody's", {"status": 200}, "unknown_request"),
        ("00000000-0000-4000-8000-000000000000", {"status": 200}, "unknown_request"),
        (None, {}, "invalid_frame"),
        (None, {"status": 200, "error": "timeout"}, "invalid_frame"),
        (None, {"error": "timeout", "body": "x"}, "invalid_frame"),
        (None, {"status": 200, "headers": {"a": "b" * 8193}}, "invalid_frame"),
        (None, {"status": 200, "headers": {str(number): "" for number in range(101)}}, "invalid_frame"),
        (None, {"status": 200, "body": "a\0b"}, "invalid_frame"),
        (None, {"error": "e" * 65}, "invalid_frame"),
        (None, {"body_by_rest": True}, None),
    ],
)
async def test_an_answer_that_cannot_be_one_gets_its_reply_and_changes_nothing(
    rig: Rig, ref: str | None, fields: dict[str, Any], expected: str | None
) -> None:
    desk, _ = await greeted(rig, Feature.PROXY)
    call_id = rig.backend.open_call(desk.client)
    assert code(await answered(desk, ref or call_id, **fields)) == expected
    assert rig.backend.calls[call_id].answer is None


async def test_a_body_that_names_the_character_0_in_its_own_escapes_does_not_hold_it(rig: Rig) -> None:
    desk, _ = await greeted(rig, Feature.PROXY)
    call_id, body = rig.backend.open_call(desk.client), r'{"text": "a\u0000b \\\u0000"}'
    assert code(await answered(desk, call_id, status=200, body=body + "\\\0")) == "invalid_frame"
    assert code(await answered(desk, call_id, status=200, body=body)) is None
    answer = rig.backend.calls[call_id].answer
    assert answer is not None
    assert answer.body == body


async def test_of_many_calls_announced_at_once_few_are_read_at_a_time_and_all_reach_the_client(rig: Rig) -> None:
    desk, _ = await greeted(rig, Feature.PROXY)
    ids = [rig.backend.open_call(desk.client) for _ in range(3 * ASKED_AT_ONCE)]
    rig.backend.gate.clear()
    await desk.send(ProxyResponse(id="a", ref=str(rig.backend.open_call(desk.client)), status=200))
    await desk.send(Heartbeat(id="b"))
    assert (await desk.next(ServerAck)).ref == "b"
    for each in ids:
        await announce(rig, desk, each)
    # Behind them on the same way: they wait now.
    await rig.order(desk.client, uuid4(), 1)
    await desk.next(TaskControl)
    rig.backend.gate.set()
    assert [(await desk.next(ProxyRequest)).id for _ in ids] == [str(each) for each in ids]
    assert rig.backend.asked_at_once == ASKED_AT_ONCE


async def test_an_answer_that_cannot_be_kept_is_the_clients_to_send_by_rest(rig: Rig) -> None:
    desk, _ = await greeted(rig, Feature.PROXY)
    call_id = rig.backend.open_call(desk.client)
    rig.backend.failure = DatabaseUnavailable("away")
    assert code(await answered(desk, call_id, status=200)) == "database_unavailable"
    rig.backend.failure = None
    assert code(await answered(desk, call_id, status=200)) is None


async def test_a_hint_outlasts_an_outage_of_the_backend(rig: Rig) -> None:
    desk, _ = await greeted(rig, Feature.PROXY)
    call_id = rig.backend.open_call(desk.client)
    rig.backend.failure = DatabaseUnavailable("away")
    await announce(rig, desk, call_id)
    assert code(await answered(desk, call_id, status=200)) == "database_unavailable"
    rig.backend.failure = None
    assert (await desk.next(ProxyRequest)).id == str(call_id)


async def test_an_answer_before_the_greeting_is_refused(rig: Rig) -> None:
    desk = await rig.desk()
    assert code(await answered(desk, uuid4(), status=200)) == "hello_required"


async def test_a_client_that_floods_the_hub_with_answers_is_closed(rig: Rig) -> None:
    desk, _ = await greeted(rig, Feature.PROXY)
    call_id = rig.backend.open_call(desk.client)
    rig.backend.gate.clear()
    for number in range(MOST_ANSWERS + 2):
        await desk.send(ProxyResponse(id=str(number), ref=str(call_id), status=200))
    assert await desk.closed() == CloseCode.TOO_MANY_FRAMES
    assert desk.socket.close_reason == "too many answers at once"
    rig.backend.gate.set()


async def test_from_the_askers_transaction_to_its_answer(
    pool: Pool, database_url: str, make_rig: MakeRig, tmp_path: Path
) -> None:
    """Everything real but the page: outbox pump, broker, hub, PostgreSQL, and the reference desktop."""
    world = await World.create(pool)
    desktop, pages = await world.client(online=False), Pages()
    rig = await make_rig(over=StoreHubBackend(pool))
    config = DesktopConfig(
        client_id=str(desktop.id), token=desktop.token, ws_url=rig.url(), api_url="http://127.0.0.1:9",
        state_dir=tmp_path, driver=pages,
    )  # fmt: skip
    asker = ClientIdentity(desktop.id, world.tenant_id)
    async with AsyncExitStack() as stack:
        listener = await stack.enter_async_context(Listener(database_url))
        await stack.enter_async_context(pumping(pool, OutboxPump(pool, listener, rig.publisher).run))
        away, here = uuid4(), uuid4()
        await ask(pool, asker, away)
        await until_settled(pool)
        running = asyncio.create_task(DesktopClient(config).run())
        stack.callback(running.cancel)
        assert await await_call(pool, listener, away) == PAGES_ANSWER
        await ask(pool, asker, here)
        assert await await_call(pool, listener, here) == PAGES_ANSWER
    assert [each.id for each in pages.asked] == [str(away), str(here)]


async def ask(pool: Pool, client: ClientIdentity, call_id: UUID) -> None:
    async with transaction(pool) as connection:
        await open_call(connection, client, a_request(call_id))
