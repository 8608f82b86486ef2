"""Pausing and draining by lane, tenant, platform and client (1-dispatch §1.3; dispatch §15.3)."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from domain.errors import InvalidInput, NotFound
from domain.lanes import Lane
from domain.pauses import PauseKind, PauseTarget, pause_target
from store.database import Pool, transaction
from store.dispatch import lock_rounds, read_round
from store.pauses import Paused, drain_rest, pause, resume
from tests.support.clicks import Hands, accepted, rounds, whole
from tests.support.waiting import until_blocked
from tests.support.world import Desktop, World, ago


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


@pytest.fixture
async def client(world: World) -> Desktop:
    return await world.client()


def target_of(kind: PauseKind, world: World, client: Desktop) -> PauseTarget:
    keys = {"lane": "normal", "tenant": str(world.tenant_id), "platform": "qwen", "client": str(client.id)}
    return pause_target(kind, keys[kind])


async def paused(world: World, target: PauseTarget, *, drain: bool = False) -> Paused:
    async with transaction(world.pool) as connection:
        return await pause(connection, target, drain=drain, actor="ops")


async def resumed(world: World, target: PauseTarget) -> Paused:
    async with transaction(world.pool) as connection:
        return await resume(connection, target, actor="ops")


async def status_of(world: World, execution: UUID) -> Any:
    return (await world.execution(execution))["status"]


@pytest.mark.parametrize("kind", list(PauseKind))
async def test_nothing_new_goes_to_what_is_paused_until_it_is_resumed(
    world: World, client: Desktop, kind: PauseKind
) -> None:
    await world.business_task()
    target = target_of(kind, world, client)
    assert (await paused(world, target)).changed
    assert not (await paused(world, target)).changed
    assert await rounds(world.pool) == 0
    assert (await resumed(world, target)).changed
    assert not (await resumed(world, target)).changed
    assert await rounds(world.pool) == 1
    audit = await world.pool.fetch("select action, subject, actor from audit_events order by id")
    assert [tuple(row) for row in audit] == [
        (action, f"{kind} {target.key}", "ops") for action in ("paused", "paused", "resumed", "resumed")
    ]


@pytest.mark.parametrize("kind", list(PauseKind))
async def test_what_is_not_paused_goes_on(world: World, client: Desktop, kind: PauseKind) -> None:
    other = await World.create(world.pool, "Other")
    await other.client()
    await other.business_task(platform="doubao", lane=Lane.NORMAL_BOOSTED)
    await paused(world, target_of(kind, world, client))
    assert await rounds(world.pool) == 1


@pytest.mark.parametrize("kind", list(PauseKind))
async def test_draining_takes_back_what_waits_tells_the_desktop_and_lets_run_what_runs(
    world: World, client: Desktop, kind: PauseKind
) -> None:
    running = await world.leased(client, status="in_progress", platform="qwen")
    waiting = await world.leased(client, platform="qwen")
    done = await paused(world, target_of(kind, world, client), drain=True)
    assert (done.taken_back, done.more) == (1, False)
    assert await status_of(world, running.task_id) == "in_progress"
    assert await status_of(world, waiting.task_id) == "aborted"
    row = await world.business(waiting.business_id)
    assert (row["status"], row["active_task_id"], row["dispatch_attempts"]) == ("pending", None, 0)
    assert (await world.attempt(waiting.attempt_id))["outcome"] == "cancelled"
    [order] = await world.outbox("task_control")
    assert (order["payload"]["task_id"], order["payload"]["control"]) == (str(waiting.task_id), "canceled")
    assert await whole(world)


async def test_a_large_drain_goes_on_in_further_transactions(
    world: World, client: Desktop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.pauses.DRAIN_CHUNK", 2)
    for platform in ("qwen", "doubao", "kimi", "ernie", "groq"):
        await world.leased(client, platform=platform)
    target = target_of(PauseKind.CLIENT, world, client)
    first = await paused(world, target, drain=True)
    assert (first.taken_back, first.more) == (2, True)
    assert await drain_rest(world.pool, target) == 3
    assert await world.pool.fetchval("select count(*) from desktop_tasks where status = 'queued'") == 0
    assert await whole(world)


async def test_a_drain_ends_and_takes_back_the_rest_beside_what_is_no_longer_its_own(
    world: World, client: Desktop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.pauses.DRAIN_CHUNK", 1)
    received, waiting = [await world.leased(client, platform=name) for name in ("qwen", "doubao")]
    await world.set("desktop_tasks", received.task_id, result_received_at=ago(seconds=1))
    async with asyncio.timeout(20):
        assert await drain_rest(world.pool, target_of(PauseKind.CLIENT, world, client)) == 1
    assert await status_of(world, received.task_id) == "queued"
    assert await status_of(world, waiting.task_id) == "aborted"


async def test_draining_withdraws_offers_of_the_legacy_path(world: World, client: Desktop) -> None:
    task = await world.business_task(owner="legacy")
    assert await rounds(world.pool) == 1
    assert (await world.business(task))["target_client_id"] == client.id
    done = await paused(world, target_of(PauseKind.TENANT, world, client), drain=True)
    assert done.taken_back == 1
    row = await world.business(task)
    assert (row["target_client_id"], row["legacy_offer_expires_at"]) == (None, None)


async def test_high_work_of_a_paused_client_goes_to_another_one(world: World, client: Desktop) -> None:
    await world.plan()
    answer = await accepted(world, question_ids=[(await world.question()).id])
    assert answer.target_client_id == client.id
    await rounds(world.pool)
    await paused(world, target_of(PauseKind.CLIENT, world, client), drain=True)
    other = await world.client()
    await rounds(world.pool)
    live = await world.pool.fetch("select target_client_id from desktop_tasks where status = 'queued'")
    assert [row["target_client_id"] for row in live] == [other.id]
    assert await whole(world)


async def test_a_paused_tenants_click_waits_and_interrupts_nobody(world: World) -> None:
    await world.plan()
    await accepted(world, question_ids=[(await world.question()).id])
    await world.pool.execute("update tenants set paused = true")
    client = await world.client()
    running = await world.leased(client, status="in_progress", platform="doubao")
    await rounds(world.pool)
    assert (await world.execution(running.task_id))["interrupt_request_id"] is None
    await world.pool.execute("update tenants set paused = false")
    await rounds(world.pool)
    assert (await world.execution(running.task_id))["interrupt_request_id"] is not None


async def test_a_pause_waits_for_the_round_under_way_and_takes_back_what_it_dispatched(
    world: World, client: Desktop
) -> None:
    await world.business_task()
    target = target_of(PauseKind.CLIENT, world, client)
    async with transaction(world.pool) as round_:
        await lock_rounds(round_)
        pausing = asyncio.create_task(paused(world, target, drain=True))
        await until_blocked(world.pool)
        execution = await world.execution_task(await world.business_task(platform="kimi"), client.id)
    assert (await pausing).taken_back == 1
    assert await status_of(world, execution) == "aborted"


async def test_a_platform_whose_login_is_broken_on_a_client_is_paused_there(world: World, client: Desktop) -> None:
    await world.set("desktop_clients", client.id, platform_sessions={"qwen": "login_required"})
    await world.business_task(platform="qwen")
    elsewhere = await world.business_task(platform="doubao")
    await rounds(world.pool)
    assert [frame.platform for frame in await Hands(world, client).take()] == ["doubao"]
    assert (await world.business(elsewhere))["active_task_id"] is not None
    healthy = await world.client()
    await rounds(world.pool)
    assert [frame.platform for frame in await Hands(world, healthy).take()] == ["qwen"]


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        (PauseKind.LANE, "urgent"),
        (PauseKind.LANE, "no lane"),
        (PauseKind.TENANT, "x"),
        (PauseKind.TENANT, str(2**64)),
        (PauseKind.CLIENT, "7"),
    ],
)
def test_a_key_that_cannot_be_one_is_refused(kind: PauseKind, key: str) -> None:
    with pytest.raises(InvalidInput):
        pause_target(kind, key)


@pytest.mark.parametrize(
    ("kind", "key"),
    [(PauseKind.TENANT, "999"), (PauseKind.PLATFORM, "nowhere"), (PauseKind.CLIENT, str(UUID(int=7)))],
)
async def test_what_is_not_there_is_not_found(world: World, kind: PauseKind, key: str) -> None:
    with pytest.raises(NotFound):
        await paused(world, pause_target(kind, key))


async def test_the_reading_of_a_paused_tenant_holds_no_candidates(world: World, client: Desktop) -> None:
    await world.business_task()
    await paused(world, target_of(PauseKind.TENANT, world, client))
    async with transaction(world.pool) as connection:
        assert (await read_round(connection)).candidates == []
