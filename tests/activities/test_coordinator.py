"""The coordinator as a resident: fenced, woken by NOTIFY, and healing by itself (1-dispatch §1.4, §1.9)."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from activities.coordinator import FALLBACK_SECONDS, Coordinator
from domain.budgets import Refusal
from domain.errors import FencedOut
from domain.lanes import Lane
from domain.rounds import RoundPlan, plan_round
from store import residents
from store.database import Pool, transaction
from store.listen import Listener
from tests.support.clicks import accepted, scheduled, whole
from tests.support.world import Desktop, World, ago

NAME = "resident/coordinator/0"


@pytest.fixture
async def world(pool: Pool) -> World:
    """A tenant with a daily plan."""
    world = await World.create(pool)
    await world.plan()
    return world


@asynccontextmanager
async def running(pool: Pool, url: str) -> AsyncIterator[Coordinator]:
    """A coordinator at work, its listener connected."""
    async with Listener(url) as listener:
        await asyncio.wait_for(listener.ready.wait(), 10)
        coordinator = Coordinator(pool, listener)
        task = asyncio.create_task(coordinator.run(NAME, await residents.take(pool, NAME, "test")))
        try:
            yield coordinator
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(20):
        while not await condition():
            await asyncio.sleep(0.02)


async def held(world: World) -> int:
    found: int = await world.pool.fetchval("select count(*) from desktop_tasks where status = 'queued'")
    return found


async def test_an_accept_wakes_it(world: World, database_url: str) -> None:
    await world.client()
    async with running(world.pool, database_url):
        await accepted(world, question_ids=[(await world.question()).id])

        async def dispatched() -> bool:
            return await held(world) == 1

        await until(dispatched)
    assert await whole(world)


async def test_a_request_without_a_client_is_bound_and_dispatched_when_one_comes(
    world: World, database_url: str
) -> None:
    answer = await accepted(world, question_ids=[(await world.question()).id])
    async with running(world.pool, database_url):
        client = await world.client()
        await world.pool.execute("select pg_notify('giveway_dispatch', '')")

        async def dispatched() -> bool:
            return await held(world) == 1

        await until(dispatched)
    row = await world.pool.fetchrow("select target_client_id, interrupt_generation from desktop_tasks")
    assert row is not None
    assert tuple(row) == (client.id, 2)
    [signal] = await world.outbox("client_bound")
    assert signal["key"] == f"collect-now/{answer.request_id}"
    assert await whole(world)


async def test_it_goes_on_after_its_connections_were_terminated(world: World, database_url: str) -> None:
    await world.client()
    async with running(world.pool, database_url):
        await world.pool.fetch(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database()"
            " and pid <> pg_backend_pid()"
        )
        await world.business_task()

        async def dispatched() -> bool:
            return await held(world) == 1

        await until(dispatched)


async def test_a_fenced_one_writes_nothing_and_ends(world: World, database_url: str) -> None:
    await world.client()
    await world.business_task()
    answer = await accepted(world, question_ids=[(await world.question()).id])
    await world.set("desktop_clients", answer.target_client_id, online=False, revoked_at=answer.ttl_expires_at)
    await world.client()
    epoch = await residents.take(world.pool, NAME, "first")
    await residents.take(world.pool, NAME, "second")
    async with Listener(database_url) as listener:
        frozen = Coordinator(world.pool, listener)
        for call in (frozen.round, frozen.bind, frozen.run):
            with pytest.raises(FencedOut):
                await call(NAME, epoch)
    assert await world.pool.fetchval("select count(*) from desktop_tasks") == 0
    assert await world.pool.fetchval("select interrupt_generation from tenants") == 1
    assert await world.outbox("client_bound") == []


async def test_two_at_once_dispatch_each_task_once(world: World, database_url: str) -> None:
    for _ in range(3):
        await world.client()
    for platform in ("qwen", "doubao", "kimi", "ernie", "zhipu", "groq"):
        for _ in range(3):
            await world.business_task(platform=platform)
    async with Listener(database_url) as listener:
        epoch = await residents.take(world.pool, NAME, "test")
        both = [Coordinator(world.pool, listener) for _ in range(4)]
        await asyncio.gather(*(one.round(NAME, epoch) for one in both))
    doubled = await world.pool.fetch("select monitor_task_id from desktop_tasks group by 1 having count(*) > 1")
    assert doubled == []
    assert await held(world) >= 6
    assert await whole(world)


async def test_refusals_are_counted_by_reason_and_a_full_window_says_when_to_look_again(
    world: World, database_url: str
) -> None:
    await world.client()
    await world.setting("tenant_per_minute", 1)
    await world.pool.execute(
        "insert into dispatch_ledger (tenant_id, scheduled, high, at)"
        " values ($1, 1, 0, now() - interval '59.5 seconds')",
        world.tenant_id,
    )  # fmt: skip
    await world.business_task()
    async with Listener(database_url) as listener:
        coordinator = Coordinator(world.pool, listener)
        done = await coordinator.round(NAME, await residents.take(world.pool, NAME, "test"))
    assert done.dispatched == 0
    assert 0 < done.pause <= 0.5
    assert coordinator.refusals[Refusal.TENANT_MINUTE] == 1


class LateClient(Coordinator):
    """A client comes right after the first look at who waits for one."""

    def __init__(self, world: World) -> None:
        super().__init__(world.pool, Listener("unused"))
        self._world, self.looks = world, 0

    async def bind(self, name: str, epoch: int) -> int:
        bound = await super().bind(name, epoch)
        self.looks += 1
        if self.looks == 1:
            await self._world.client()
        return bound


async def test_a_client_that_comes_between_binding_and_round_is_bound_before_anything_goes(world: World) -> None:
    await accepted(world, question_ids=[(await world.question()).id])
    coordinator = LateClient(world)
    await coordinator.dispatch_all(NAME, await residents.take(world.pool, NAME, "test"))
    row = await world.pool.fetchrow("select interrupt_generation, lane from desktop_tasks")
    assert row is not None
    assert tuple(row) == (2, "high")
    assert len(await world.outbox("client_bound")) == 1
    assert await whole(world)


async def test_picks_that_somebody_else_holds_are_tried_ever_more_rarely(world: World) -> None:
    await world.client()
    held = await world.business_task()
    coordinator, epoch = Coordinator(world.pool, Listener("unused")), await residents.take(world.pool, NAME, "test")
    async with transaction(world.pool) as other:
        await other.execute("select from monitoring_collect_tasks where id = $1 for update", held)
        pauses = [(await coordinator.round(NAME, epoch)).pause for _ in range(12)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.02, 2.0)
    assert (await coordinator.round(NAME, epoch)).dispatched == 1
    assert await whole(world)


async def test_high_work_that_somebody_else_holds_keeps_no_others_waiting(world: World) -> None:
    held_high = await high_task(world, await world.client())
    other = await World.create(world.pool, "Other")
    await other.client()
    await other.business_task()
    coordinator, epoch = await coordinator_of(world)
    async with transaction(world.pool) as holder:
        await holder.execute("select from monitoring_collect_tasks where id = $1 for update", held_high)
        for _ in range(2):
            await coordinator.dispatch_all(NAME, epoch)
        assert await held(world) == 1
    await coordinator.dispatch_all(NAME, epoch)
    assert await held(world) == 2


async def test_a_task_that_cannot_be_written_blocks_nobody_behind_it(world: World) -> None:
    client = await world.client()
    barred = await world.business_task()
    await world.set("desktop_tasks", await world.execution_task(barred, client.id), result_received_at=ago(seconds=1))
    await world.set("monitoring_collect_tasks", barred, active_task_id=None)
    behind = await world.business_task()
    coordinator, epoch = Coordinator(world.pool, Listener("unused")), await residents.take(world.pool, NAME, "test")
    await coordinator.round(NAME, epoch)
    assert (await coordinator.round(NAME, epoch)).dispatched == 1
    assert (await world.business(behind))["active_task_id"] is not None


async def test_a_request_that_cannot_be_bound_holds_up_nobody(world: World) -> None:
    bad = await accepted(world, question_ids=[(await world.question()).id])
    good = await accepted(world, question_ids=[(await world.question()).id])
    await world.pool.execute(
        "alter table monitoring_collect_requests add constraint bad"
        f" check (target_client_id is null or id <> '{bad.request_id}')"
    )
    await world.client()
    coordinator = Coordinator(world.pool, Listener("unused"))
    await coordinator.dispatch_all(NAME, await residents.take(world.pool, NAME, "test"))
    rows = await world.pool.fetch(
        "select t.collect_request_id from desktop_tasks d join monitoring_collect_tasks t on t.id = d.monitor_task_id"
    )
    assert [row["collect_request_id"] for row in rows] == [good.request_id]


async def test_a_large_round_is_planned_off_the_loop(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.client()
    for platform in ("qwen", "doubao", "kimi"):
        await world.business_task(platform=platform)
    threads: list[int] = []

    def planned(*arguments: Any, **more: Any) -> RoundPlan:
        threads.append(threading.get_ident())
        return plan_round(*arguments, **more)

    monkeypatch.setattr("activities.coordinator.plan_round", planned)
    coordinator, epoch = Coordinator(world.pool, Listener("unused")), await residents.take(world.pool, NAME, "test")
    await coordinator.round(NAME, epoch)
    monkeypatch.setattr("activities.coordinator.LARGE_ROUND", 0)
    await coordinator.round(NAME, epoch)
    here = threading.get_ident()
    assert [thread == here for thread in threads] == [True, False]


async def coordinator_of(world: World, **more: Any) -> tuple[Coordinator, int]:
    return Coordinator(world.pool, Listener("unused"), **more), await residents.take(world.pool, NAME, "test")


async def ledger(world: World, *, scheduled: int = 0, high: int = 0) -> None:
    """Dispatches of the last minute that hold nothing any more."""
    await world.pool.execute(
        "insert into dispatch_ledger (tenant_id, scheduled, high) values ($1, $2, $3)",
        world.tenant_id, scheduled, high,
    )  # fmt: skip


async def high_task(world: World, client: Desktop, platform: str = "qwen") -> int:
    request = await world.request(client_id=client.id)
    return await world.business_task(platform=platform, lane=Lane.HIGH, request_id=request, client_id=client.id)


async def test_a_click_goes_before_the_scheduled_work_of_others_is_even_read(world: World) -> None:
    client = await world.client()
    await high_task(world, client)
    other = await World.create(world.pool, "Other")
    await other.client()
    await other.business_task()
    coordinator, epoch = await coordinator_of(world)
    lanes = []
    for _ in range(2):
        await coordinator.round(NAME, epoch)
        lanes.append(await world.pool.fetchval("select array_agg(lane order by lane) from desktop_tasks"))
    assert lanes == [["high"], ["high", "normal"]]


async def test_under_endless_high_the_floor_of_the_minute_is_scheduled_works_on_other_clients(world: World) -> None:
    client = await world.client()
    await world.setting("cluster_per_minute", 10)
    await world.pool.execute("insert into dispatch_fuses (key, value) values ('cluster_per_minute', 12)")
    await ledger(world, high=10)
    for platform in ("qwen", "doubao", "kimi", "ernie"):
        await high_task(world, client, platform)
    other = await World.create(world.pool, "Other")
    await other.client()
    for platform in ("qwen", "doubao", "kimi", "ernie"):
        await other.business_task(platform=platform)
    coordinator, epoch = await coordinator_of(world)
    await coordinator.dispatch_all(NAME, epoch)
    rows = await world.pool.fetch("select lane, count(*) as n from desktop_tasks group by lane")
    assert {row["lane"]: row["n"] for row in rows} == {"normal": 2}


async def test_work_that_has_waited_long_is_promoted_by_the_loop_and_goes(world: World) -> None:
    old = await world.business_task()
    await world.set("monitoring_collect_tasks", old, enqueued_at=ago(minutes=30))
    coordinator, epoch = await coordinator_of(world)
    assert await coordinator.dispatch_all(NAME, epoch) == 0.0
    assert (await world.business(old))["dispatch_lane"] == "normal_boosted"
    assert await coordinator.dispatch_all(NAME, epoch) > 0.0
    await world.client()
    assert (await coordinator.round(NAME, epoch)).dispatched == 1


async def test_a_shorter_time_between_scans_is_in_force_at_once(world: World) -> None:
    await world.setting("aging_scan_seconds", 3600)
    coordinator, epoch = await coordinator_of(world)
    await coordinator.dispatch_all(NAME, epoch)
    old = await world.business_task()
    await world.set("monitoring_collect_tasks", old, enqueued_at=ago(minutes=30))
    await world.setting("aging_scan_seconds", 1)
    async with asyncio.timeout(10):
        while (await world.business(old))["dispatch_lane"] != "normal_boosted":
            await coordinator.dispatch_all(NAME, epoch)
            await asyncio.sleep(0.02)


class Ageing(Coordinator):
    """Notes how much had been dispatched whenever aging had its turn."""

    def __init__(self, world: World) -> None:
        super().__init__(world.pool, Listener("unused"))
        self._world, self.dispatched = world, list[int]()

    async def age(self, name: str, epoch: int) -> int:
        self.dispatched.append(await held(self._world))
        return await super().age(name, epoch)


async def test_rounds_that_go_on_for_long_do_not_keep_work_from_ageing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("activities.coordinator.MOST_PICKS", 1)
    await world.client()
    for platform in ("qwen", "doubao", "kimi"):
        await world.business_task(platform=platform)
    coordinator = Ageing(world)
    await coordinator.dispatch_all(NAME, await residents.take(world.pool, NAME, "test"))
    assert coordinator.dispatched == [1, 2, 3, 3]


async def test_a_round_of_high_work_alone_leaves_bound_scheduled_work_to_its_turn(world: World) -> None:
    client, second = await world.client(), await world.client()
    await high_task(world, client)
    await world.business_task(platform="kimi", client_id=second.id)
    coordinator, epoch = await coordinator_of(world)
    lanes = []
    for _ in range(2):
        await coordinator.round(NAME, epoch)
        lanes.append(await world.pool.fetchval("select array_agg(lane order by lane) from desktop_tasks"))
    assert lanes == [["high"], ["high", "normal"]]


async def test_a_scan_that_fails_keeps_nothing_from_going(world: World) -> None:
    await world.client()
    old = await world.business_task()
    await world.business_task()
    await world.set("monitoring_collect_tasks", old, enqueued_at=ago(minutes=30), dispatch_after=ago(minutes=-30))
    await world.pool.execute("drop function aged_priority(integer, interval)")
    coordinator, epoch = await coordinator_of(world)
    await coordinator.dispatch_all(NAME, epoch)
    assert await held(world) == 1
    # Nor is it tried again at each wake-up.
    assert await coordinator.dispatch_all(NAME, epoch) == FALLBACK_SECONDS


async def test_legacy_work_is_offered_under_the_same_windows(world: World) -> None:
    client = await world.client()
    task = await world.business_task(owner="legacy")
    await world.setting("platform_concurrency", 2)
    await world.setting("tenant_per_minute", 1)
    second = await world.business_task(owner="legacy")
    coordinator, epoch = await coordinator_of(world)
    assert (await coordinator.round(NAME, epoch)).dispatched == 1
    row = await world.business(task)
    assert (row["target_client_id"], row["active_task_id"]) == (client.id, None)
    assert row["legacy_offer_expires_at"] is not None
    assert (await coordinator.round(NAME, epoch)).dispatched == 0
    assert (await world.business(second))["legacy_offer_expires_at"] is None
    assert coordinator.refusals[Refusal.TENANT_MINUTE] == 2


async def test_a_legacy_lease_holds_its_platform_and_its_slot(world: World) -> None:
    client = await world.client(max_concurrent=1)
    leased = await world.business_task(owner="legacy")
    await world.set(
        "monitoring_collect_tasks", leased, status="leased", lease_token_hash=b"x", leased_to_executor=client.id,
        leased_at=ago(seconds=1), lease_expires_at=ago(seconds=-60),
    )  # fmt: skip
    await world.business_task(platform="doubao")
    coordinator, epoch = await coordinator_of(world)
    assert (await coordinator.round(NAME, epoch)).dispatched == 0
    assert coordinator.refusals[Refusal.CLIENT_CONCURRENCY] == 1
    await world.client()
    await world.business_task(platform="qwen")
    await coordinator.round(NAME, epoch)
    rows = await world.pool.fetch("select ai_platform_id from desktop_tasks")
    assert [row["ai_platform_id"] for row in rows] == ["doubao"]


async def test_refusals_where_nothing_can_go_are_told_once_a_while(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scheduled(world, await world.client(max_concurrent=1), platform="doubao")
    await world.business_task()
    told: list[Mapping[Refusal, int]] = []
    coordinator, epoch = await coordinator_of(world, count_refusals=told.append)
    for _ in range(3):
        await coordinator.round(NAME, epoch)
    assert [dict(one) for one in told] == [{Refusal.CLIENT_CONCURRENCY: 1}, {}, {}]
    monkeypatch.setattr("activities.coordinator.LOOK_SECONDS", 0.0)
    coordinator, epoch = await coordinator_of(world, count_refusals=told.append)
    for _ in range(2):
        await coordinator.round(NAME, epoch)
    assert [dict(one) for one in told[3:]] == [{Refusal.CLIENT_CONCURRENCY: 1}] * 2


async def test_a_large_round_is_cut_and_the_next_one_goes_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("activities.coordinator.MOST_PICKS", 2)
    await world.client()
    for platform in ("qwen", "doubao", "kimi", "ernie", "groq"):
        await world.business_task(platform=platform)
    coordinator, epoch = await coordinator_of(world)
    sizes = [(await coordinator.round(NAME, epoch)).dispatched for _ in range(4)]
    assert sizes == [2, 2, 1, 0]


async def test_tenants_share_by_weight_over_many_rounds(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("activities.coordinator.MOST_PICKS", 2)
    await world.setting("platform_concurrency", 2)
    heavy = await World.create(world.pool, "Heavy")
    await world.pool.execute("update tenants set fair_weight = 3 where id = $1", heavy.tenant_id)
    for one in (world, heavy):
        for _ in range(2):
            await one.client()
        for platform in ("qwen", "doubao", "kimi", "ernie", "groq", "zhipu"):
            for _ in range(2):
                await one.business_task(platform=platform)
    coordinator, epoch = await coordinator_of(world)
    for _ in range(4):
        await coordinator.round(NAME, epoch)
    rows = await world.pool.fetch("select tenant_id, count(*) as n from desktop_tasks group by 1")
    assert {row["tenant_id"]: row["n"] for row in rows} == {world.tenant_id: 2, heavy.tenant_id: 6}
