"""Aging on the real database: who is promoted, to which priority, and by how much (1-dispatch §1.4; dispatch §9.4)."""

import math
from datetime import timedelta

import pytest

from domain.aging import MOST_PROMOTIONS_A_SCAN, aged_priority
from domain.lanes import Lane
from store.aging import Aged, Waiting, age, share_promotions
from store.database import Pool, transaction
from tests.support.clicks import whole
from tests.support.world import World, ago

MINUTES = (0, 0.1, 4.99, 5, 7, 10, 15, 30, 35, 60, 75, 120, 600, 1440, 100_000, 10_000_000)
POWERS = tuple(5 * (2.0**power - 1) for power in range(1, 20))


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


async def waiting(world: World, minutes: float, *, lane: Lane = Lane.NORMAL, platform: str = "qwen") -> int:
    """A business task that has waited for so long."""
    task = await world.business_task(lane=lane, platform=platform)
    await world.set("monitoring_collect_tasks", task, enqueued_at=ago(minutes=minutes))
    return task


async def scan(world: World, index: int | None = None) -> Aged:
    async with transaction(world.pool) as connection:
        return await age(connection, index)


async def boosted(world: World) -> dict[int, int]:
    rows = await world.pool.fetch(
        "select id, dispatch_priority from monitoring_collect_tasks where dispatch_lane = 'normal_boosted' order by id"
    )
    return {row["id"]: row["dispatch_priority"] for row in rows}


async def test_the_database_and_the_rules_compute_the_same_priority(pool: Pool) -> None:
    cases = [(base, minutes) for base in (10, 50, 99, 100, 500, 999) for minutes in (*MINUTES, *POWERS)]
    for base, minutes in cases:
        found = await pool.fetchval("select aged_priority($1, $2)", base, timedelta(minutes=minutes))
        assert found == aged_priority(base, minutes), (base, minutes)


async def test_the_oldest_tenth_of_what_waited_long_enough_is_promoted(world: World) -> None:
    old = [await waiting(world, 100 - number) for number in range(20)]
    await waiting(world, 4)
    done = await scan(world)
    assert done.promoted == 2
    assert list(await boosted(world)) == old[:2]
    row = await world.business(old[0])
    assert row["dispatch_priority"] == aged_priority(100, 100)
    assert (row["origin_lane"], row["origin_priority"], row["unaged_priority"]) == (None, None, 100)
    assert await whole(world)


async def test_retries_age_from_their_own_priority_and_from_the_bottom_of_the_lane(world: World) -> None:
    retry = await waiting(world, 60, lane=Lane.RETRY)
    await scan(world)
    assert await boosted(world) == {retry: aged_priority(50, 60)}


async def test_nothing_younger_than_the_hot_setting_ages(world: World) -> None:
    task = await waiting(world, 4)
    assert (await scan(world)).promoted == 0
    await world.setting("aging_wait_seconds", 200)
    await scan(world)
    assert list(await boosted(world)) == [task]


async def test_a_task_of_an_open_request_stays_the_requests(world: World) -> None:
    request = await world.request()
    task = await waiting(world, 60)
    await world.set("monitoring_collect_tasks", task, collect_request_id=request)
    assert (await scan(world)).promoted == 0
    await world.set("monitoring_collect_requests", request, status="timed_out")
    assert (await scan(world)).promoted == 1


@pytest.mark.parametrize(
    "change",
    ["dispatch_after = now() + interval '1 hour'", "status = 'skipped'", "active_task_id = gen_random_uuid()"],
)
async def test_only_ready_work_ages(world: World, change: str) -> None:
    task = await waiting(world, 60)
    await world.pool.execute(f"update monitoring_collect_tasks set {change} where id = $1", task)
    assert (await scan(world)).promoted == 0


async def test_what_somebody_else_is_at_is_left_alone(world: World) -> None:
    task = await waiting(world, 60)
    async with transaction(world.pool) as other:
        await other.execute("select from monitoring_collect_tasks where id = $1 for update", task)
        assert (await scan(world)).promoted == 0
    assert (await scan(world)).promoted == 1


async def test_boosted_work_goes_on_aging_and_is_never_lowered(world: World) -> None:
    task = await waiting(world, 60)
    await scan(world)
    await world.set("monitoring_collect_tasks", task, enqueued_at=ago(minutes=240))
    assert (await scan(world)).raised == 1
    assert await boosted(world) == {task: aged_priority(100, 240)}
    await world.set("monitoring_collect_tasks", task, enqueued_at=ago(minutes=10))
    assert (await scan(world)).raised == 0
    assert await boosted(world) == {task: aged_priority(100, 240)}


async def test_a_younger_task_promoted_later_does_not_overtake_an_older_one(world: World) -> None:
    older = await waiting(world, 6)
    await scan(world)
    for task, minutes in ((older, 60), (await waiting(world, 0), 59)):
        await world.set("monitoring_collect_tasks", task, enqueued_at=ago(minutes=minutes))
    await scan(world)
    priorities = await boosted(world)
    assert len(priorities) == 2
    assert priorities[older] == max(priorities.values())


async def test_no_task_leaves_a_paused_lane_or_enters_one(world: World) -> None:
    await waiting(world, 60)
    retry = await waiting(world, 50, lane=Lane.RETRY)
    await world.setting("paused_lanes", ["normal"])
    await scan(world)
    assert list(await boosted(world)) == [retry]
    await world.setting("paused_lanes", ["normal_boosted"])
    assert (await scan(world)).promoted == 0


async def test_an_owner_ages_its_own_tenants_alone_and_a_paused_tenant_not_at_all(world: World) -> None:
    other = await World.create(world.pool, "Other")
    mine, theirs = await waiting(world, 60), await waiting(other, 60)
    await world.setting("coordinator_shards", 2)
    await scan(world, other.tenant_id % 2)
    assert list(await boosted(world)) == [theirs]
    await world.pool.execute("update tenants set paused = true")
    assert (await scan(world, world.tenant_id % 2)).promoted == 0
    await world.pool.execute("update tenants set paused = false")
    await scan(world, world.tenant_id % 2)
    assert set(await boosted(world)) == {mine, theirs}


def tenants(*ready: int) -> list[Waiting]:
    return [Waiting(number, count, ago(minutes=100 - number)) for number, count in enumerate(ready, start=1)]


def test_a_scan_promotes_a_bounded_number_and_small_tenants_are_not_crowded_out() -> None:
    given = share_promotions(tenants(10_000, 10_000, 30), MOST_PROMOTIONS_A_SCAN)
    assert given[3] == 3
    assert sum(given.values()) <= MOST_PROMOTIONS_A_SCAN
    assert math.isclose(given[1], given[2], abs_tol=1)
    assert share_promotions(tenants(5, 5, 5), 2) == {1: 1, 2: 1}
    assert share_promotions([], 1000) == {}
