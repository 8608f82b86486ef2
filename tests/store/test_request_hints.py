"""`waiting_for_platform`: shown while what a click needs is held where nothing gives way to it (1-dispatch §1.3)."""

from typing import Any
from uuid import UUID

import pytest

from domain.lanes import Lane
from domain.messages import RequestRef
from store import requests
from store.database import Pool
from tests.support.clicks import Hands, accepted, finish, rounds
from tests.support.world import Lease, World, ago


@pytest.fixture
async def world(pool: Pool) -> World:
    """A tenant with a plan on two platforms, of which each takes one task at a time."""
    world = await World.create(pool)
    await world.plan(platforms=("qwen", "doubao"))
    await world.question()
    return world


async def hint(world: World, request: UUID) -> str | None:
    found: str | None = (await world.row("monitoring_collect_requests", request))["hint"]
    return found


async def held_elsewhere(world: World, **more: Any) -> Lease:
    """Another desktop, which cannot be chosen, runs a task on qwen."""
    other = await world.client()
    lease = await world.leased(other, status="in_progress", platform="qwen", **more)
    await world.set("desktop_clients", other.id, paused=True)
    return lease


async def test_it_is_shown_at_once_when_the_holder_may_not_be_chosen(world: World) -> None:
    client = await world.client()
    lease = await held_elsewhere(world)
    request = (await accepted(world)).request_id
    assert await hint(world, request) == "waiting_for_platform"
    await rounds(world.pool)
    [frame] = await Hands(world, client).take()
    assert frame.platform == "doubao"
    await Hands(world, client).run(frame)
    row = await world.row("monitoring_collect_requests", request)
    assert (row["hint"], row["status"], row["dispatched_task_count"]) == ("waiting_for_platform", "running", 1)
    await finish(world, lease.attempt_id)
    await rounds(world.pool)
    await Hands(world, client).take()
    assert await hint(world, request) is None


async def test_it_is_not_shown_when_the_holder_is_chosen_and_gives_way(world: World) -> None:
    await world.client()
    holder = await world.client()
    await world.leased(holder, status="in_progress", platform="qwen")
    answer = await accepted(world)
    assert (answer.target_client_id, answer.interrupt_requested_count) == (holder.id, 1)
    assert await hint(world, answer.request_id) is None


async def test_its_own_work_and_a_platform_with_room_are_no_reason(world: World) -> None:
    client = await world.client()
    await world.question()
    await world.platform_limit("doubao", 2)
    other = await world.client()
    await world.leased(other, status="in_progress", platform="doubao", lane=Lane.HIGH)
    request = (await accepted(world, target_client_id=client.id)).request_id
    assert await hint(world, request) is None
    await rounds(world.pool)
    frames = await Hands(world, client).take()
    assert sorted(frame.platform for frame in frames) == ["doubao", "qwen"]
    for frame in frames:
        await Hands(world, client).start(frame)
    assert await hint(world, request) is None, "the second question waits for the first"


async def test_a_platform_that_another_request_takes_meanwhile_is_shown_with_the_next_change(world: World) -> None:
    client, other = await world.client(), await world.client()
    request = (await accepted(world, target_client_id=client.id)).request_id
    await rounds(world.pool)
    frames = {frame.platform: frame for frame in await Hands(world, client).take()}
    await Hands(world, client).run(frames["doubao"], succeeded=False)
    await world.leased(other, status="in_progress", platform="doubao", lane=Lane.HIGH)
    await Hands(world, client).run(frames["qwen"])
    assert await hint(world, request) == "waiting_for_platform"


@pytest.mark.parametrize(("online", "expected"), [(False, "waiting_for_client"), (True, "waiting_for_slot")])
async def test_after_thirty_seconds_the_rows_say_what_it_waits_for(world: World, online: bool, expected: str) -> None:
    await world.client(online=online)
    request = (await accepted(world)).request_id
    ref = RequestRef(request_id=request, tenant_id=world.tenant_id, reason="waiting_for_dispatch")
    assert (await requests.set_hint(world.pool, ref)).hint == expected


@pytest.mark.parametrize("kind", ["lane", "tenant", "platforms"])
async def test_what_nothing_of_may_go_waits_for_the_end_of_the_pause(world: World, kind: str) -> None:
    await world.client()
    if kind == "lane":
        await world.setting("paused_lanes", ["high"])
    elif kind == "tenant":
        await world.set("tenants", world.tenant_id, paused=True)
    else:
        await world.pool.execute("insert into platform_settings (platform_id, paused) values ('qwen', true)")
    request = (await accepted(world, platforms=["qwen"])).request_id
    ref = RequestRef(request_id=request, tenant_id=world.tenant_id, reason="waiting_for_dispatch")
    assert (await requests.set_hint(world.pool, ref)).hint == "waiting_for_resume"


async def test_a_blocked_platform_is_the_better_reason_and_comes_back_after_a_passing_one(world: World) -> None:
    await world.client()
    await held_elsewhere(world)
    request = (await accepted(world, platforms=["qwen"])).request_id
    ref = RequestRef(request_id=request, tenant_id=world.tenant_id)
    asked = ref.model_copy(update={"reason": "waiting_for_dispatch"})
    assert (await requests.set_hint(world.pool, asked)).hint == "waiting_for_platform"
    await world.set("monitoring_collect_requests", request, hint="waiting_for_safe_point")
    assert (await requests.set_hint(world.pool, ref)).hint == "waiting_for_platform"


async def test_the_global_scope_counts_other_tenants_work(world: World) -> None:
    await world.client()
    stranger = await World.create(world.pool, "Other")
    await stranger.leased(await stranger.client(), status="in_progress", platform="qwen")
    first = (await accepted(world, platforms=["qwen"])).request_id
    assert await hint(world, first) is None
    await world.setting("platform_concurrency_scope", "global")
    second = (await accepted(world, platforms=["qwen"], user_id=2)).request_id
    assert await hint(world, second) == "waiting_for_platform"


async def test_a_legacy_lease_holds_its_platform_too(world: World) -> None:
    await world.client()
    other = await world.client()
    task = await world.business_task(platform="qwen", owner="legacy")
    await world.set(
        "monitoring_collect_tasks", task, status="leased", leased_to_executor=other.id, lease_token_hash=b"t",
        leased_at=ago(seconds=1), lease_expires_at=ago(seconds=-100),
    )  # fmt: skip
    request = (await accepted(world, platforms=["qwen"])).request_id
    assert await hint(world, request) == "waiting_for_platform"
