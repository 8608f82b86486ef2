"""A click that cannot go now takes nothing from anybody; when the pause ends, room is made then (ADR 0034)."""

from uuid import UUID

import pytest

from domain.pauses import PauseKind, PauseTarget, pause_target
from store.binding import bind_request
from store.database import Pool, transaction
from store.dispatch import find_unbound_requests
from store.pauses import pause, resume
from tests.support.clicks import accepted, policy_needed, rounds, scheduled, whole
from tests.support.world import Desktop, World

KINDS = [PauseKind.LANE, PauseKind.TENANT, PauseKind.PLATFORM]


@pytest.fixture
async def world(pool: Pool) -> World:
    world = await World.create(pool)
    await world.plan()
    return world


@pytest.fixture
async def client(world: World) -> Desktop:
    return await world.client(max_concurrent=2)


def target_of(world: World, kind: PauseKind) -> PauseTarget:
    return pause_target(kind, {"lane": "high", "tenant": str(world.tenant_id), "platform": "qwen"}[kind])


async def paused(world: World, target: PauseTarget) -> None:
    async with transaction(world.pool) as connection:
        await pause(connection, target, drain=False, actor="ops")


async def resumed(world: World, target: PauseTarget) -> None:
    async with transaction(world.pool) as connection:
        await resume(connection, target, actor="ops")


async def bound_to(world: World, request: UUID) -> dict[str, UUID | None]:
    """The client of each task of the request, by platform."""
    rows = await world.pool.fetch(
        "select ai_platform_id, target_client_id from monitoring_collect_tasks where collect_request_id = $1", request
    )
    return {row["ai_platform_id"]: row["target_client_id"] for row in rows}


@pytest.mark.parametrize("kind", KINDS)
async def test_nobody_gives_way_to_a_click_that_cannot_go(world: World, client: Desktop, kind: PauseKind) -> None:
    running = await scheduled(world, client, platform="doubao")
    queued = await scheduled(world, client, platform="kimi", status="queued")
    await paused(world, target_of(world, kind))
    answer = await accepted(world, question_ids=[(await world.question()).id])
    assert (answer.promoted_task_count, answer.aborted_queued_count, answer.interrupt_requested_count) == (1, 0, 0)
    assert answer.target_client_id == client.id
    await rounds(world.pool)
    async with transaction(world.pool) as connection:
        assert await find_unbound_requests(connection) == []
        assert await bind_request(connection, answer.request_id, world.tenant_id) is None
    assert (await world.execution(running))["control_flags"] == {}
    assert (await world.execution(queued))["status"] == "queued"
    assert await whole(world)


@pytest.mark.parametrize("kind", KINDS)
async def test_room_is_made_when_the_pause_ends_on_the_desktop_that_was_named(
    world: World, client: Desktop, kind: PauseKind
) -> None:
    await world.client(max_concurrent=4)
    running = await scheduled(world, client, platform="doubao")
    queued = await scheduled(world, client, platform="kimi", status="queued")
    target = target_of(world, kind)
    await paused(world, target)
    answer = await accepted(world, question_ids=[(await world.question()).id], target_client_id=client.id)
    await resumed(world, target)
    assert await rounds(world.pool) >= 1
    assert await bound_to(world, answer.request_id) == {"qwen": client.id}
    victim = await world.execution(running)
    assert (victim["control_flags"]["interrupt_requested"], victim["interrupt_request_id"]) == (True, answer.request_id)
    assert (await world.execution(queued))["status"] == "aborted"
    request = await world.row("monitoring_collect_requests", answer.request_id)
    assert request["interrupt_requested_count"] == 1
    assert (
        await world.pool.fetchval("select count(*) from desktop_tasks where lane = 'high' and status = 'queued'") == 1
    )
    assert await whole(world)


async def test_only_tasks_on_open_platforms_need_room(world: World, client: Desktop) -> None:
    await world.plan(platforms=("qwen", "ernie"))
    await policy_needed(world)
    for platform in ("doubao", "kimi"):
        await scheduled(world, client, platform=platform)
    await paused(world, target_of(world, PauseKind.PLATFORM))
    answer = await accepted(world, question_ids=[(await world.question()).id])
    assert (answer.promoted_task_count, answer.interrupt_requested_count) == (2, 1)
    assert await bound_to(world, answer.request_id) == {"qwen": None, "ernie": client.id}


async def test_a_desktop_goes_on_with_scheduled_work_beside_a_click_that_cannot_go(
    world: World, client: Desktop
) -> None:
    await paused(world, target_of(world, PauseKind.LANE))
    await accepted(world, question_ids=[(await world.question()).id])
    await world.business_task(platform="doubao")
    assert await rounds(world.pool) == 1
