"""A binding names its request in foreign keys before it changes it: nobody who counts may stand in between (§1.1)."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from domain.lanes import Lane
from store import binding
from store.binding import bind_request
from store.database import Pool, transaction
from store.preemption import make_room
from store.releases import Release, lock_executions, release
from tests.support.clicks import scheduled
from tests.support.waiting import until_blocked
from tests.support.world import World


@pytest.fixture
async def world(pool: Pool) -> World:
    """A tenant with a plan."""
    world = await World.create(pool)
    await world.plan()
    return world


async def test_a_binding_and_a_release_of_the_same_request_do_not_block_each_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    away, here = await world.client(), await world.client()
    request = await world.request(tasks=2)
    lease = await world.leased(away, status="in_progress", platform="kimi", lane=Lane.HIGH, request_id=request)
    await world.business_task(platform="qwen", lane=Lane.HIGH, request_id=request)
    await world.set("desktop_clients", away.id, online=False)
    await scheduled(world, here, platform="doubao")
    named = asyncio.Event()

    async def make_room_and_wait(*given: Any) -> Any:
        made = await make_room(*given)
        named.set()
        await until_blocked(world.pool)
        return made

    monkeypatch.setattr(binding, "make_room", make_room_and_wait)

    async def bind() -> UUID | None:
        async with transaction(world.pool) as connection:
            return await bind_request(connection, request, world.tenant_id)

    async def give_back() -> None:
        await named.wait()
        async with transaction(world.pool) as connection:
            await lock_executions(connection, [lease.task_id])
            await release(connection, [lease.task_id], Release.RETURNED)

    bound, _ = await asyncio.gather(bind(), give_back())
    assert bound == here.id
