"""HTTP calls through a desktop: 2-desktop §2.1; ADR 0054."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any
from uuid import UUID, uuid4

import pytest

from activities.presence import PresenceSweeper
from domain.errors import InvalidInput, NotFound
from domain.hub_port import ClientIdentity
from domain.protocol import ProxyRequest
from domain.proxying import AnswerOutcome, ProxyAnswer
from store import proxy_calls
from store.clients import revoke_client
from store.database import Pool, transaction
from store.listen import PROXY, Listener
from store.statements import statements
from tests.hub.memory_backend import a_request
from tests.support.backlog import explain
from tests.support.waiting import until_blocked
from tests.support.world import Desktop, World, ago

OK = ProxyAnswer(status=200, headers={"content-type": "text/plain"}, body="täst")


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


@pytest.fixture
async def client(world: World) -> ClientIdentity:
    return identity(world, await world.client())


@pytest.fixture
async def listener(database_url: str) -> AsyncIterator[Listener]:
    async with Listener(database_url) as running:
        await running.ready.wait()
        yield running


def identity(world: World, desktop: Desktop) -> ClientIdentity:
    return ClientIdentity(desktop.id, world.tenant_id)


async def opened(world: World, client: ClientIdentity, **changes: Any) -> UUID:
    call_id = uuid4()
    assert await ask(world, client, a_request(call_id, **changes))
    return call_id


async def ask(world: World, client: ClientIdentity, request: ProxyRequest) -> bool:
    async with transaction(world.pool) as connection:
        return await proxy_calls.open_call(connection, client, request)


async def end_patience(world: World, call_id: UUID, **before: int) -> None:
    await world.set("desktop_proxy_calls", call_id, deadline=ago(**(before or {"seconds": 1})))


async def test_a_call_is_a_row_and_a_hint_to_the_clients_hub(world: World, client: ClientIdentity) -> None:
    call_id = await opened(world, client, headers={"a": "b"}, page_url="/c/1", timeout_ms=60_000)
    [event] = await world.outbox("proxy_request")
    assert (event["key"], event["client_id"]) == (f"control.{client.client_id}", client.client_id)
    assert event["payload"] == {"type": "proxy_request", "client_id": str(client.client_id), "call_id": str(call_id)}
    [request] = await proxy_calls.read_open(world.pool, client, 1)
    assert (request.headers, request.page_url, request.body) == ({"a": "b"}, "/c/1", "{}")
    assert 50_000 < request.timeout_ms <= 60_000


async def test_an_asker_that_asks_again_opens_nothing_more(world: World, client: ClientIdentity) -> None:
    call_id = await opened(world, client)
    assert not await ask(world, client, a_request(call_id, body="another"))
    assert [each.body for each in await proxy_calls.read_open(world.pool, client, 1)] == ["{}"]
    assert len(await world.outbox("proxy_request")) == 1


async def test_an_id_that_another_clients_call_has_is_refused(world: World, client: ClientIdentity) -> None:
    stranger = await World.create(world.pool, "Stranger")
    call_id = await opened(world, client)
    for other in (identity(world, await world.client()), identity(stranger, await stranger.client())):
        with pytest.raises(InvalidInput):
            await ask(world, other, a_request(call_id))
    assert len(await world.outbox("proxy_request")) == 1


async def test_a_login_in_the_headers_of_an_answer_is_not_kept(
    world: World, client: ClientIdentity, listener: Listener
) -> None:
    call_id = await opened(world, client)
    login = {"Set-Cookie": "session=x", "cookie": "session=x", "Authorization": "Bearer x", "x-page": "1"}
    await proxy_calls.answer_call(world.pool, client, call_id, ProxyAnswer(status=200, headers=login))
    answer = await proxy_calls.await_call(world.pool, listener, call_id)
    assert answer == ProxyAnswer(status=200, headers={"x-page": "1"})


async def test_a_body_that_names_the_character_0_in_its_own_escapes_can_be_sent(
    world: World, client: ClientIdentity
) -> None:
    body = r'{"text": "a\u0000b"}'
    await opened(world, client, body=body)
    assert [each.body for each in await proxy_calls.read_open(world.pool, client, 1)] == [body]


async def test_nobody_is_asked_for_a_client_of_another_tenant_or_a_revoked_one(
    world: World, client: ClientIdentity
) -> None:
    stranger = await World.create(world.pool, "Stranger")
    with pytest.raises(NotFound):
        await opened(world, ClientIdentity(client.client_id, stranger.tenant_id))
    await revoke_client(world.pool, world.tenant_id, client.client_id)
    with pytest.raises(NotFound):
        await opened(world, client)
    assert await world.outbox("proxy_request") == []


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "no uuid"},
        {"method": "get it"},
        {"method": ""},
        {"timeout_ms": 0},
        {"timeout_ms": 300_001},
        {"url": ""},
        {"url": "/" * 8193},
        {"body": "x" * 256 * 1024},
        {"body": "a\0b"},
        {"headers": {"a": "\ud800"}},
    ],
    ids=lambda changes: "-".join(changes),
)
async def test_a_request_out_of_bounds_is_refused(
    world: World, client: ClientIdentity, changes: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput):
        await ask(world, client, a_request(uuid4(), **changes))


async def test_who_waits_is_woken_by_the_answer(world: World, client: ClientIdentity, listener: Listener) -> None:
    call_id = await opened(world, client)
    waiting = asyncio.create_task(proxy_calls.await_call(world.pool, listener, call_id))
    assert await proxy_calls.answer_call(world.pool, client, call_id, OK) is AnswerOutcome.TAKEN
    assert await waiting == OK
    assert await proxy_calls.await_call(world.pool, listener, call_id) == OK


async def test_an_answer_notifies(world: World, client: ClientIdentity, listener: Listener) -> None:
    woken = listener.subscribe(PROXY)
    woken.clear()
    await proxy_calls.answer_call(world.pool, client, await opened(world, client), OK)
    async with asyncio.timeout(20):
        await woken.wait()


async def test_a_lost_notification_costs_latency_only(
    world: World, client: ClientIdentity, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy_calls, "POLL_SECONDS", 0.01)
    deaf = Listener(database_url)
    call_id = await opened(world, client)
    waiting = asyncio.create_task(proxy_calls.await_call(world.pool, deaf, call_id))
    await proxy_calls.answer_call(world.pool, client, call_id, OK)
    async with asyncio.timeout(20):
        assert await waiting == OK


async def test_after_the_deadline_nobody_is_asked_and_no_answer_is_taken(
    world: World, client: ClientIdentity, listener: Listener
) -> None:
    call_id = await opened(world, client)
    await end_patience(world, call_id)
    assert await proxy_calls.read_open(world.pool, client, 1) == []
    assert await proxy_calls.answer_call(world.pool, client, call_id, OK) is AnswerOutcome.LATE
    assert await proxy_calls.await_call(world.pool, listener, call_id) is None
    assert (await world.row("desktop_proxy_calls", call_id))["state"] == "expired"
    assert await proxy_calls.answer_call(world.pool, client, call_id, OK) is AnswerOutcome.LATE


async def test_the_wait_ends_at_the_deadline_by_itself(
    world: World, client: ClientIdentity, listener: Listener
) -> None:
    call_id = await opened(world, client, timeout_ms=20)
    async with asyncio.timeout(20):
        assert await proxy_calls.await_call(world.pool, listener, call_id) is None


async def test_an_answer_in_time_that_commits_after_the_deadline_is_the_askers(
    world: World, client: ClientIdentity, listener: Listener
) -> None:
    call_id, kept = await opened(world, client), asdict(OK)
    async with transaction(world.pool) as connection:
        # Its clock stands from here.
        await connection.execute("select now()")
        await world.pool.execute("update desktop_proxy_calls set deadline = clock_timestamp() where id = $1", call_id)
        statement = proxy_calls.SQL["answer_call"]
        answered = await connection.fetchval(statement, call_id, client.client_id, client.tenant_id, kept, PROXY)
        assert answered == "taken"
        waiting = asyncio.create_task(proxy_calls.await_call(world.pool, listener, call_id))
        await until_blocked(world.pool)
    assert await waiting == OK
    assert (await world.row("desktop_proxy_calls", call_id))["state"] == "answered"


async def test_of_two_answers_at_once_one_counts(world: World, client: ClientIdentity, listener: Listener) -> None:
    call_id = await opened(world, client)
    answers = [ProxyAnswer(status=200 + number) for number in range(4)]
    outcomes = await asyncio.gather(
        *(proxy_calls.answer_call(world.pool, client, call_id, answer) for answer in answers)
    )
    assert sorted(outcomes) == ["repeated", "repeated", "repeated", "taken"]
    assert await proxy_calls.await_call(world.pool, listener, call_id) == answers[outcomes.index("taken")]


async def test_only_the_asked_client_answers(world: World, client: ClientIdentity) -> None:
    other = identity(world, await world.client())
    call_id = await opened(world, client)
    for stranger in (other, ClientIdentity(client.client_id, world.tenant_id + 1)):
        assert await proxy_calls.answer_call(world.pool, stranger, call_id, OK) is AnswerOutcome.UNKNOWN
        assert await proxy_calls.read_open(world.pool, stranger, 1) == []
    assert (await world.row("desktop_proxy_calls", call_id))["state"] == "waiting"


async def test_a_connection_that_was_replaced_neither_asks_nor_refuses(world: World, client: ClientIdentity) -> None:
    call_id = await opened(world, client)
    await world.set("desktop_clients", client.client_id, connection_epoch=2)
    assert await proxy_calls.read_open(world.pool, client, 1) == []
    await proxy_calls.refuse_calls(world.pool, client, 1, [call_id])
    assert [each.id for each in await proxy_calls.read_open(world.pool, client, 2)] == [str(call_id)]
    await proxy_calls.refuse_calls(world.pool, client, 2, [call_id])
    assert await proxy_calls.read_open(world.pool, client, 2) == []


async def test_an_unknown_call_has_no_answer(world: World, listener: Listener) -> None:
    with pytest.raises(NotFound):
        await proxy_calls.await_call(world.pool, listener, uuid4())


async def test_the_presence_sweeper_ends_what_nobody_waited_for_and_forgets_after_a_day(
    world: World, client: ClientIdentity
) -> None:
    waiting, over, answered, old = [await opened(world, client) for _ in range(4)]
    for each in (answered, old):
        await proxy_calls.answer_call(world.pool, client, each, OK)
    await end_patience(world, over)
    await end_patience(world, answered, hours=23)
    await end_patience(world, old, hours=25)
    await world.pool.execute("insert into resident_leases (name, epoch) values ('presence', 1)")
    sweeper = PresenceSweeper(world.pool)
    assert (await sweeper.sweep("presence", 1))["proxy_calls"] == 2
    assert (await sweeper.sweep("presence", 1))["proxy_calls"] == 0
    rows = await world.pool.fetch("select id, state from desktop_proxy_calls")
    assert {row["id"]: row["state"] for row in rows} == {waiting: "waiting", over: "expired", answered: "answered"}


async def test_calls_that_are_over_cost_those_that_wait_nothing(world: World, client: ClientIdentity) -> None:
    await world.pool.execute(
        "insert into desktop_proxy_calls (id, tenant_id, client_id, platform, request, state, deadline)"
        " select gen_random_uuid(), $1, $2, 'openai', '{}', 'answered', now() - n * interval '1 second'"
        " from generate_series(1, 20000) n",
        world.tenant_id,
        client.client_id,
    )
    over = await opened(world, client)
    await end_patience(world, over)
    await opened(world, client)
    await world.pool.execute("vacuum analyze desktop_proxy_calls")
    cases: list[tuple[str, str, tuple[Any, ...]]] = [
        ("proxy_calls", "open_calls", (client.client_id, client.tenant_id, 1, None, 100)),
        ("proxy_calls", "sweep_calls", (500,)),
        ("snapshots", "lock_client", (client.client_id, client.tenant_id, 1)),
    ]
    for file, name, given in cases:
        plan = await explain(world.pool, statements(file)[name], *given)
        assert ("desktop_proxy_calls" not in plan.seq_scans, plan.discarded < 10) == (True, True), (name, plan)
