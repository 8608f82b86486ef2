"""A request that had no client gets one, with room made there (1-dispatch §1.5: when a client is bound later)."""

from typing import Any
from uuid import UUID

import pytest

from store.binding import bind_request
from store.database import Pool, transaction
from store.dispatch import find_unbound_requests
from tests.support.clicks import Hands, accepted, rounds, scheduled, whole
from tests.support.world import World, ago


@pytest.fixture
async def world(pool: Pool) -> World:
    """A tenant with a plan and two questions, nobody online."""
    world = await World.create(pool)
    await world.plan()
    for _ in range(2):
        await world.question()
    return world


async def bind(world: World, request_id: UUID) -> UUID | None:
    async with transaction(world.pool) as connection:
        return await bind_request(connection, request_id, world.tenant_id)


async def unbound(world: World) -> list[UUID]:
    async with world.pool.acquire() as connection:
        return [request for request, _ in await find_unbound_requests(connection)]


async def targets(world: World, request_id: UUID) -> set[UUID | None]:
    rows = await world.pool.fetch(
        "select target_client_id from monitoring_collect_tasks where collect_request_id = $1", request_id
    )
    return {row["target_client_id"] for row in rows}


async def test_nobody_online_nobody_bound(world: World) -> None:
    answer = await accepted(world)
    assert await unbound(world) == []
    assert await bind(world, answer.request_id) is None
    assert await world.pool.fetchval("select interrupt_generation from tenants") == 1


async def test_a_client_that_comes_online_is_bound_with_a_generation_and_room_of_its_own(world: World) -> None:
    answer = await accepted(world)
    client = await world.client()
    batch = await world.batch(expected=2)
    running = await scheduled(world, client, platform="doubao", batch_id=batch)
    queued = await scheduled(world, client, platform="kimi", status="queued", batch_id=batch)
    assert await unbound(world) == [answer.request_id]
    assert await bind(world, answer.request_id) == client.id
    assert await targets(world, answer.request_id) == {client.id}
    request = await world.row("monitoring_collect_requests", answer.request_id)
    assert (request["target_client_id"], request["interrupt_generation"]) == (client.id, 2)
    assert (request["accepted_client_id"], request["interrupt_requested_count"]) == (None, 1)
    victim = await world.execution(running)
    assert (victim["interrupt_request_id"], victim["interrupt_generation"]) == (answer.request_id, 2)
    assert (await world.execution(queued))["status"] == "aborted"
    [signal] = await world.outbox("client_bound")
    assert signal["key"] == f"collect-now/{answer.request_id}"
    assert signal["payload"] == {"client_id": str(client.id), "generation": 2, "interrupts": 1}
    [yielded] = await world.outbox("preempted")
    assert yielded["payload"]["count"] == 2
    assert await whole(world)


async def test_binding_twice_changes_nothing_more(world: World) -> None:
    answer = await accepted(world)
    await world.client()
    await bind(world, answer.request_id)
    rows = await world.pool.fetch("select id from outbox")
    assert await bind(world, answer.request_id) is None
    assert await unbound(world) == []
    assert await world.pool.fetch("select id from outbox") == rows
    assert await world.pool.fetchval("select interrupt_generation from tenants") == 2


async def test_preempt_false_is_kept_when_a_client_is_bound_later(world: World) -> None:
    answer = await accepted(world, preempt=False)
    client = await world.client()
    running = await scheduled(world, client, platform="doubao")
    assert await bind(world, answer.request_id) == client.id
    assert (await world.execution(running))["control_flags"] == {}


async def test_a_task_that_comes_back_from_a_lost_client_goes_to_another(world: World) -> None:
    lost, other = await world.client(), None
    answer = await accepted(world)
    await rounds(world.pool)
    hands = Hands(world, lost)
    [frame] = await hands.take()
    await world.set("desktop_clients", lost.id, online=False, lost_at=ago(seconds=1))
    assert await unbound(world) == []
    other = await world.client()
    assert await unbound(world) == [answer.request_id]
    assert await bind(world, answer.request_id) == other.id
    row = await world.pool.fetch("select active_task_id, target_client_id from monitoring_collect_tasks")
    assert {(held["active_task_id"] is None, held["target_client_id"]) for held in row} == {
        (True, other.id),
        (False, lost.id),
    }
    assert frame.status == "queued"


async def test_a_revoked_client_keeps_nothing_waiting(world: World) -> None:
    gone = await world.client()
    answer = await accepted(world)
    await world.set("desktop_clients", gone.id, online=False, revoked_at=ago(seconds=1))
    other = await world.client()
    assert await bind(world, answer.request_id) == other.id


async def test_each_platform_goes_to_a_client_that_is_logged_in_there(world: World) -> None:
    await world.plan(platforms=("doubao",))
    answer = await accepted(world)
    qwen, doubao = await world.client(), await world.client()
    await world.set("desktop_clients", qwen.id, platform_sessions={"doubao": "login_required"})
    await world.set("desktop_clients", doubao.id, platform_sessions={"qwen": "blocked"})
    assert {await bind(world, answer.request_id), await bind(world, answer.request_id)} == {qwen.id, doubao.id}
    assert await bind(world, answer.request_id) is None
    rows = await world.pool.fetch("select distinct ai_platform_id, target_client_id from monitoring_collect_tasks")
    assert {tuple(row) for row in rows} == {("qwen", qwen.id), ("doubao", doubao.id)}


async def test_a_request_that_is_over_is_never_bound(world: World) -> None:
    answer = await accepted(world)
    await world.set("monitoring_collect_requests", answer.request_id, status="timed_out")
    await world.client()
    assert await unbound(world) == []
    assert await bind(world, answer.request_id) is None


UNABLE: dict[str, dict[str, Any]] = {
    "unhealthy": {"healthy": False},
    "paused": {"paused": True},
    "logged out": {"platform_sessions": {"qwen": "login_required"}},
}


@pytest.mark.parametrize("how", UNABLE)
async def test_what_waits_for_a_desktop_that_cannot_take_it_goes_to_one_that_can(world: World, how: str) -> None:
    first = await world.client()
    answer = await accepted(world)
    await world.set("desktop_clients", first.id, **UNABLE[how])
    second = await world.client()
    assert await rounds(world.pool) == 1
    assert await targets(world, answer.request_id) == {second.id}
    assert await world.pool.fetchval("select count(*) from desktop_tasks where target_client_id = $1", second.id) == 1
    assert await unbound(world) == []
    assert await whole(world)


@pytest.mark.parametrize("how", UNABLE)
async def test_with_nobody_better_it_stays_where_it_is(world: World, how: str) -> None:
    first, second = await world.client(), await world.client()
    answer = await accepted(world, target_client_id=first.id)
    for client in (first, second):
        await world.set("desktop_clients", client.id, **UNABLE[how])
    assert await unbound(world) == []
    assert await bind(world, answer.request_id) is None
    assert await targets(world, answer.request_id) == {first.id}
    assert await world.pool.fetchval("select interrupt_generation from tenants") == 1


async def test_a_closed_connection_keeps_what_waits_for_it_until_it_is_lost(world: World) -> None:
    first = await world.client()
    answer = await accepted(world)
    await world.client()
    await world.set("desktop_clients", first.id, online=False)
    assert await unbound(world) == []
    await world.set("desktop_clients", first.id, lost_at=ago(seconds=1))
    assert await unbound(world) == [answer.request_id]
