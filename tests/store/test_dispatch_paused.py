"""What cannot go, because it is paused, keeps nothing else from going (ADR 0034)."""

import pytest

from domain.lanes import Lane
from domain.round_state import Hold
from store.database import Pool
from store.explain import explain_task
from tests.support.clicks import rounds
from tests.support.world import Desktop, World


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


@pytest.fixture
async def client(world: World) -> Desktop:
    return await world.client()


async def paused_high(world: World, client: Desktop, kind: str) -> None:
    """High work of an open request, bound to the desktop before the pause."""
    request = await world.request(client_id=client.id)
    await world.business_task(lane=Lane.HIGH, request_id=request, client_id=client.id)
    await pause(world, kind)


async def pause(world: World, kind: str) -> None:
    if kind == "platform":
        await world.pool.execute("insert into platform_settings (platform_id, paused) values ('qwen', true)")
    else:
        await world.setting("paused_lanes", [kind])


@pytest.mark.parametrize("kind", ["high", "platform"])
@pytest.mark.parametrize("lane", [Lane.NORMAL, Lane.RETRY])
async def test_high_work_that_is_paused_blocks_no_scheduled_work(
    world: World, client: Desktop, kind: str, lane: Lane
) -> None:
    await paused_high(world, client, kind)
    await world.business_task(platform="doubao", lane=lane)
    assert await rounds(world.pool) == 1
    assert await world.pool.fetchval("select lane from desktop_tasks") == lane


@pytest.mark.parametrize("kind", ["normal", "platform"])
async def test_retries_do_not_wait_for_normal_work_that_is_paused(world: World, client: Desktop, kind: str) -> None:
    await world.setting("retry_low_water", 2)
    for _ in range(2):
        await world.business_task()
    retry = await world.business_task(platform="doubao", lane=Lane.RETRY)
    if kind == "normal":
        assert (await explain_task(world.pool, retry, None)).reason == Hold.RETRY_AFTER_NORMAL
    await pause(world, kind)
    assert (await explain_task(world.pool, retry, None)).waiting is not None
    assert (await explain_task(world.pool, retry, None)).reason == "may_go"
    assert await rounds(world.pool) == 1
