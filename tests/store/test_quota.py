"""Blocks of the cluster's minute that several coordinators share (1-dispatch §1.4)."""

import asyncio

import pytest

from activities.coordinator import ASK_AGAIN_SECONDS, FALLBACK_SECONDS, Coordinator
from domain.lanes import Lane
from domain.quota import Quota
from store import quota, residents
from store.database import Pool, transaction
from store.dispatch import lock_rounds
from store.listen import Listener
from tests.support.clicks import whole
from tests.support.waiting import until_blocked
from tests.support.world import World

PLATFORMS = ("qwen", "doubao", "kimi", "deepseek", "ernie", "zhipu", "google", "groq")
PLENTY = Quota(scheduled=10_000)


@pytest.fixture
async def world(pool: Pool) -> World:
    """Two coordinators share a minute of 40 (32 of them scheduled) under a fuse of 500."""
    world = await World.create(pool)
    await world.setting("coordinator_shards", 2)
    await world.setting("cluster_per_minute", 40)
    await world.setting("tenant_per_minute", 60)
    return world


async def take(world: World, shard: int, lacking: Quota, epoch: int = 1) -> Quota:
    async with transaction(world.pool) as connection:
        return await quota.take_block(connection, shard, epoch, lacking)


async def held(world: World, shard: int, epoch: int = 1) -> Quota:
    async with transaction(world.pool) as connection:
        return await quota.held_permits(connection, shard, epoch)


async def ledger(world: World, scheduled: int, high: int = 0) -> None:
    await world.pool.execute(
        "insert into dispatch_ledger (tenant_id, scheduled, high) values ($1, $2, $3)",
        world.tenant_id, scheduled, high,
    )  # fmt: skip


async def coordinators(world: World, number: int) -> list[tuple[Coordinator, str, int]]:
    made = []
    for index in range(number):
        name = f"coordinator/{index}"
        epoch = await residents.take(world.pool, name, "test")
        made.append((Coordinator(world.pool, Listener("unused"), index), name, epoch))
    return made


async def dispatched(world: World) -> int:
    found: int = await world.pool.fetchval("select count(*) from desktop_tasks")
    return found


async def test_blocks_never_exceed_what_window_and_other_blocks_leave(world: World) -> None:
    await ledger(world, 28)
    first = await take(world, 0, PLENTY)
    assert 0 < first.scheduled <= 4
    second = await take(world, 1, PLENTY)
    assert first.scheduled + second.scheduled <= 4
    assert (await take(world, 2, Quota(scheduled=100))).scheduled <= 4 - first.scheduled - second.scheduled


async def test_coordinators_that_ask_at_once_get_no_permit_twice(world: World) -> None:
    await ledger(world, 25)
    granted = await asyncio.gather(*(take(world, shard, Quota(scheduled=5)) for shard in range(6)))
    assert sum(one.scheduled for one in granted) <= 7


async def test_an_expired_block_is_the_others_again(world: World) -> None:
    await ledger(world, 30)
    assert (await take(world, 0, Quota(scheduled=5))).scheduled == 2
    assert (await take(world, 1, Quota(scheduled=5))).scheduled == 0
    await world.pool.execute("update dispatch_quota set expires_at = now()")
    assert await held(world, 0) == Quota()
    assert (await take(world, 1, Quota(scheduled=5))).scheduled == 2


WAITS = "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')"


async def test_a_block_that_expires_under_a_round_is_spent_before_others_count_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quota, "BLOCK_SECONDS", 1.0)
    await ledger(world, 30)
    await take(world, 0, Quota(scheduled=2))
    async with transaction(world.pool) as round_:
        assert await quota.held_permits(round_, 0, 1) == Quota(scheduled=2)
        while not await world.pool.fetchval("select expires_at <= now() from dispatch_quota"):
            await asyncio.sleep(0.05)
        asking = asyncio.create_task(take(world, 1, Quota(scheduled=2)))
        while not asking.done() and not await world.pool.fetchval(WAITS):
            await asyncio.sleep(0.01)
        await round_.execute(
            "insert into dispatch_ledger (tenant_id, scheduled, high) values ($1, 2, 0)", world.tenant_id
        )
        await quota.spend(round_, 0, 1, Quota(scheduled=2))
    assert await asking == Quota()


async def test_a_coordinator_that_was_replaced_holds_and_takes_nothing(world: World) -> None:
    await take(world, 0, PLENTY, epoch=2)
    kept = await held(world, 0, epoch=2)
    await take(world, 0, Quota(), epoch=1)
    assert await held(world, 0, epoch=1) == Quota()
    assert await held(world, 0, epoch=2) == kept


async def test_one_coordinator_alone_knows_no_quota(world: World) -> None:
    await world.setting("coordinator_shards", 1)
    await world.client()
    await world.business_task()
    [(coordinator, name, epoch)] = await coordinators(world, 1)
    await coordinator.dispatch_all(name, epoch)
    assert await dispatched(world) == 1
    assert await world.pool.fetchval("select count(*) from dispatch_quota") == 0


async def many(pool: Pool, tenants: int) -> None:
    """Tenants with a desktop and eight tasks each."""
    for number in range(tenants):
        world = await World.create(pool, f"Tenant {number}")
        await world.client()
        for platform in PLATFORMS:
            await world.business_task(platform=platform)


async def test_each_dispatches_its_own_tenants_and_together_they_keep_the_clusters_minute(world: World) -> None:
    await many(world.pool, 6)
    made = await coordinators(world, 2)
    for _ in range(3):
        await asyncio.gather(*(one.dispatch_all(name, epoch) for one, name, epoch in made))
    assert await dispatched(world) == 32
    assert await world.pool.fetchval("select sum(scheduled) from dispatch_ledger") == 32
    owners = await world.pool.fetch("select distinct tenant_id % 2 as owner from desktop_tasks")
    assert len(owners) == 2
    assert await whole(world)


async def test_high_work_gets_permits_beyond_the_scheduled_share(world: World) -> None:
    await ledger(world, 32)
    client = await world.client()
    await world.business_task(lane=Lane.HIGH, request_id=await world.request(), client_id=client.id)
    made = await coordinators(world, 2)
    for one, name, epoch in made:
        await one.dispatch_all(name, epoch)
    assert await dispatched(world) == 1
    spent = await world.pool.fetchrow("select high_permits from dispatch_quota where shard = $1", world.tenant_id % 2)
    assert spent is not None
    assert spent["high_permits"] == 0


async def test_scheduled_work_gets_its_floor_beside_the_high_work_of_another_owner(world: World) -> None:
    await ledger(world, 0, high=40)
    await world.client()
    await world.business_task()
    for one, name, epoch in await coordinators(world, 2):
        await one.dispatch_all(name, epoch)
    assert await dispatched(world) == 1


async def test_a_changed_number_of_owners_waits_for_the_round_under_way(world: World) -> None:
    await world.setting("coordinator_shards", 1)
    async with transaction(world.pool) as round_:
        await lock_rounds(round_)
        changing = asyncio.create_task(world.setting("coordinator_shards", 2))
        await until_blocked(world.pool)
        assert await round_.fetchval("select value from dispatch_settings where key = 'coordinator_shards'") == 1
    await changing


async def test_coordinators_that_count_platforms_over_all_tenants_decide_one_after_the_other(world: World) -> None:
    await world.setting("platform_concurrency_scope", "global")
    for number in range(4):
        other = await World.create(world.pool, f"Tenant {number}")
        await other.client()
        for _ in range(2):
            await other.business_task(platform="qwen")
    made = await coordinators(world, 2)
    for _ in range(2):
        await asyncio.gather(*(one.dispatch_all(name, epoch) for one, name, epoch in made))
    assert await dispatched(world) == 1


async def test_who_lacks_permits_asks_again_soon_and_who_lacks_none_sleeps(world: World) -> None:
    await ledger(world, 32)
    [(one, name, epoch), (other, other_name, other_epoch)] = await coordinators(world, 2)
    mine = (one, name, epoch) if world.tenant_id % 2 == 0 else (other, other_name, other_epoch)
    assert await mine[0].dispatch_all(*mine[1:]) == FALLBACK_SECONDS
    await world.client()
    await world.business_task()
    await world.pool.execute("update dispatch_ledger set scheduled = 31")
    await take(world, 7, Quota(scheduled=1))
    assert await mine[0].dispatch_all(*mine[1:]) == ASK_AGAIN_SECONDS
    assert await dispatched(world) == 0


async def test_an_owner_beyond_a_lowered_number_owns_nobody(world: World) -> None:
    await world.setting("coordinator_shards", 1)
    await world.client()
    await world.business_task()
    made = await coordinators(world, 3)
    for one, name, epoch in made[1:]:
        await one.dispatch_all(name, epoch)
    assert await dispatched(world) == 0
