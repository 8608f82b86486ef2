"""The four cases of drift, dispatch §10.6: which desktop a request goes to when desktops come and go."""

from uuid import UUID

import pytest

from activities.presence import PresenceSweeper
from domain.hub_port import ClientIdentity
from domain.messages import ClientLost, RequestRef
from domain.protocol import Hello
from store import presence, requests, residents
from store.database import Pool
from tests.support.clicks import Hands, accepted, rounds, whole
from tests.support.world import Desktop, World, ago


@pytest.fixture
async def world(pool: Pool) -> World:
    """A tenant with a plan on one platform that takes two tasks at once, and two questions."""
    world = await World.create(pool)
    await world.plan()
    await world.platform_limit("qwen", 2)
    await world.question()
    await world.question()
    return world


async def falls_silent(world: World, client: Desktop) -> None:
    """30 s without a heartbeat; the sweeper notices, and each request's workflow does as it is told."""
    await world.set("desktop_clients", client.id, last_heartbeat_at=ago(seconds=31))
    name = "resident/presence/0"
    await PresenceSweeper(world.pool).sweep(name, await residents.take(world.pool, name, "test"))
    for row in await world.outbox("client_lost"):
        lost = ClientLost(**row["payload"])
        request = UUID(row["key"].removeprefix("collect-now/"))
        ref = RequestRef(request_id=request, tenant_id=world.tenant_id, client_id=lost.client_id)
        await requests.release_client(world.pool, ref)


async def comes_back(world: World, client: Desktop) -> None:
    await presence.connect(world.pool, ClientIdentity(client.id, world.tenant_id), Hello(id="1"))


async def targets(world: World) -> set[UUID | None]:
    rows = await world.pool.fetch("select target_client_id from monitoring_collect_tasks where status = 'pending'")
    return {row["target_client_id"] for row in rows}


async def test_of_several_desktops_online_one_is_chosen_and_recorded(world: World) -> None:
    busy, idle, flaky = [await world.client() for _ in range(3)]
    await world.leased(busy, status="in_progress", platform="doubao")
    failed = await world.leased(flaky, platform="kimi")
    await world.set("desktop_tasks", failed.task_id, status="aborted", lease_expires_at=None)
    await world.set("desktop_task_attempts", failed.attempt_id, ended_at=ago(seconds=5), outcome="returned")
    await world.set("monitoring_collect_tasks", failed.business_id, status="skipped", active_task_id=None)
    answer = await accepted(world)
    assert answer.target_client_id == idle.id
    assert (await world.row("monitoring_collect_requests", answer.request_id))["target_client_id"] == idle.id
    assert await targets(world) >= {idle.id}
    await rounds(world.pool)
    assert (len(await Hands(world, idle).take()), await Hands(world, flaky).take()) == (2, [])


async def test_a_lost_desktops_tasks_stay_high_and_go_to_any_other_online(world: World) -> None:
    bound = await world.client()
    answer = await accepted(world)
    await rounds(world.pool)
    assert len(await Hands(world, bound).take()) == 2
    await falls_silent(world, bound)
    assert await targets(world) == {None}
    row = await world.row("monitoring_collect_requests", answer.request_id)
    assert (row["target_client_id"], row["hint"]) == (None, "waiting_for_client")
    other = await world.client()
    await rounds(world.pool)
    frames = await Hands(world, other).take()
    assert [(frame.lane, frame.source) for frame in frames] == [("high", "collect_now")] * 2
    assert (await world.row("monitoring_collect_requests", answer.request_id))["target_client_id"] == other.id
    assert await whole(world)


async def test_a_user_who_changes_desktops_keeps_the_request_where_it_runs_and_the_next_goes_to_the_new_one(
    world: World,
) -> None:
    old = await world.client(max_concurrent=1)
    first = await accepted(world)
    await rounds(world.pool)
    running, *_ = await Hands(world, old).take()
    await Hands(world, old).start(running)
    new = await world.client()
    await rounds(world.pool)
    assert (await Hands(world, new).take(), await targets(world)) == ([], {old.id})
    second = await accepted(world, question_ids=[(await world.question()).id])
    assert (first.target_client_id, second.target_client_id) == (old.id, new.id)


async def test_with_every_desktop_lost_the_request_stays_accepted_and_a_returning_one_gets_it(world: World) -> None:
    only = await world.client()
    answer = await accepted(world)
    await falls_silent(world, only)
    await rounds(world.pool)
    row = await world.row("monitoring_collect_requests", answer.request_id)
    assert (row["status"], row["target_client_id"]) == ("accepted", None)
    await comes_back(world, only)
    await rounds(world.pool)
    assert len(await Hands(world, only).take()) == 2
    assert (await world.row("monitoring_collect_requests", answer.request_id))["status"] == "dispatching"


async def test_with_every_desktop_lost_past_the_ttl_the_request_times_out(world: World) -> None:
    only = await world.client()
    answer = await accepted(world)
    await falls_silent(world, only)
    ref = RequestRef(request_id=answer.request_id, tenant_id=world.tenant_id)
    assert (await requests.expire_request(world.pool, ref)).status == "timed_out"
    await comes_back(world, only)
    await rounds(world.pool)
    frames = await Hands(world, only).take()
    assert {frame.lane for frame in frames} == {"normal"}
    assert await whole(world)
