"""The coordinator as a resident: fenced, woken by NOTIFY, and healing by itself (1-dispatch §1.4, §1.9)."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from activities.coordinator import Coordinator
from domain.budgets import Refusal
from domain.errors import FencedOut
from domain.rounds import RoundPlan, plan_round
from store import residents
from store.database import Pool
from store.listen import Listener
from tests.support.clicks import accepted, scheduled, whole
from tests.support.world import World, ago

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
    client = await world.client()
    await world.setting("tenant_per_minute", 1)
    recent = await scheduled(world, client, platform="doubao")
    await world.set("desktop_tasks", recent, status="succeeded")
    await world.pool.execute("update desktop_tasks set created_at = now() - interval '59.5 seconds'")
    await world.pool.execute("update monitoring_collect_tasks set status = 'completed', active_task_id = null")
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


async def test_picks_that_cannot_be_written_are_tried_ever_more_rarely(world: World) -> None:
    client = await world.client()
    barred = await world.business_task()
    await world.set("desktop_tasks", await world.execution_task(barred, client.id), result_received_at=ago(seconds=1))
    await world.set("monitoring_collect_tasks", barred, active_task_id=None)
    coordinator, epoch = Coordinator(world.pool, Listener("unused")), await residents.take(world.pool, NAME, "test")
    pauses = [(await coordinator.round(NAME, epoch)).pause for _ in range(12)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.02, 2.0)
    await world.business_task(platform="doubao")
    assert (await coordinator.round(NAME, epoch)).dispatched == 1
    assert (await coordinator.round(NAME, epoch)).pause == 0.02


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

    def planned(*arguments: Any) -> RoundPlan:
        threads.append(threading.get_ident())
        return plan_round(*arguments)

    monkeypatch.setattr("activities.coordinator.plan_round", planned)
    coordinator, epoch = Coordinator(world.pool, Listener("unused")), await residents.take(world.pool, NAME, "test")
    await coordinator.round(NAME, epoch)
    monkeypatch.setattr("activities.coordinator.LARGE_ROUND", 0)
    await coordinator.round(NAME, epoch)
    here = threading.get_ident()
    assert [thread == here for thread in threads] == [True, False]
