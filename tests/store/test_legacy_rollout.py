"""Which path work takes as the roll-out grows, and both paths in one round: 1-dispatch §1.4, §1.7, dispatch §16.2.2."""

import pytest

from domain.hub_port import ClientIdentity
from domain.legacy import execution_owner
from domain.messages import MaterialiseChunk
from store import batch_tasks
from store.audit import Integrity, check_integrity
from store.catalog import Reach, change_question
from store.client_choice import blocked_platforms, read_clients
from store.database import Pool
from store.fleet import FleetFilter, list_clients
from store.hub_backend import StoreHubBackend
from store.settings import read_dispatch_settings, read_platform_limits
from tests.support.clicks import Hands, rounds, task_of_today, whole
from tests.support.granting import grant
from tests.support.legacy import LegacyHands, legacy_task, number_of, offered
from tests.support.world import World


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


async def owners(world: World) -> list[str]:
    rows = await world.pool.fetch("select execution_owner from monitoring_collect_tasks order by id")
    return [row["execution_owner"] for row in rows]


@pytest.mark.parametrize("percent", [0, 1, 2, 100])
async def test_a_batch_creates_its_tasks_on_the_tenants_path(world: World, percent: int) -> None:
    await world.setting("rollout_percent", percent)
    await world.question()
    batch = await world.batch(expected=0, status="planned")
    await batch_tasks.materialise(world.pool, MaterialiseChunk(batch_id=batch, tenant_id=world.tenant_id))
    assert await owners(world) == [execution_owner(world.tenant_id, percent)]
    await world.setting("rollout_percent", 100 - percent)
    await batch_tasks.materialise(world.pool, MaterialiseChunk(batch_id=batch, tenant_id=world.tenant_id))
    assert await owners(world) == [execution_owner(world.tenant_id, percent)], "in flight, it keeps its path"


async def test_what_a_batch_left_is_taken_over_on_the_path_of_now(world: World) -> None:
    await world.question()
    batches = [await world.batch(expected=1, status="planned") for _ in range(2)]
    chunks = [MaterialiseChunk(batch_id=batch, tenant_id=world.tenant_id) for batch in batches]
    await batch_tasks.materialise(world.pool, chunks[0])
    await world.pool.execute("update monitoring_collect_tasks set status = 'expired'")
    await world.set("scheduled_batches", batches[0], status="completed", expired_count=1)
    await world.setting("rollout_percent", 0)
    await batch_tasks.materialise(world.pool, chunks[1])
    assert await owners(world) == ["legacy"]


async def test_a_finished_task_asked_in_a_new_text_takes_the_path_of_now(world: World) -> None:
    await world.plan()
    question = await world.question()
    batch = await world.batch(expected=1)
    task = await task_of_today(world, question=question, batch_id=batch)
    await world.set("monitoring_collect_tasks", task, status="failed")
    await world.set("scheduled_batches", batch, failed_count=1)
    await world.setting("rollout_percent", 0)
    reach = Reach(world.tenant_id, (world.workspace_id,))
    await change_question(world.pool, reach, question.id, {"text": "Which brand is best now?"})
    row = await world.business(task)
    assert (row["status"], row["execution_owner"]) == ("pending", "legacy")


async def test_a_round_offers_legacy_work_and_pushes_the_rest(world: World) -> None:
    client = await world.client(max_concurrent=4)
    legacy, new = await legacy_task(world, platform="qwen"), await task_of_today(world, platform="doubao")
    await rounds(world.pool)
    [pulled] = await LegacyHands(world, client).pull()
    [frame] = await Hands(world, client).take()
    assert number_of(pulled) == legacy
    assert (await world.business(new))["active_task_id"] is not None
    await LegacyHands(world, client).run(pulled)
    await Hands(world, client).run(frame)
    assert await whole(world)


async def test_what_was_given_back_is_offered_again_by_the_next_round(world: World) -> None:
    client = await world.client()
    task = await legacy_task(world)
    await rounds(world.pool)
    hands = LegacyHands(world, client)
    [first] = await hands.pull()
    await hands.cancel(first)
    await rounds(world.pool)
    [second] = await hands.pull()
    assert (number_of(second), second.attempt) == (task, 2)


async def test_a_legacy_lease_holds_its_platform_against_a_round(world: World) -> None:
    hands = LegacyHands(world, await world.client())
    await hands.pull_one(platform="qwen")
    await legacy_task(world, platform="qwen")
    await task_of_today(world, platform="qwen")
    assert await rounds(world.pool) == 0


async def test_leases_and_offers_show_where_desktops_are_chosen(world: World) -> None:
    hands = LegacyHands(world, await world.client(max_concurrent=2))
    await hands.pull_one(platform="qwen")
    await offered(world, hands.desktop, await legacy_task(world, platform="doubao"))
    async with world.pool.acquire() as connection:
        settings = await read_dispatch_settings(connection)
        [client] = await read_clients(connection, world.tenant_id, None, settings)
        limits = await read_platform_limits(connection, settings)
        blocked = await blocked_platforms(connection, world.tenant_id, limits)
        [listed] = await list_clients(connection, FleetFilter(tenant_id=world.tenant_id))
    assert client.free_slots == 1
    assert blocked == {"qwen": set(), "doubao": {hands.desktop.id}}
    assert (listed["running"], listed["queued"], listed["slots_used"]) == (1, 1, 1)


async def test_an_offer_of_one_tenant_is_nothing_to_another(world: World) -> None:
    other = await World.create(world.pool, "Other")
    client, stranger = await world.client(), await other.client()
    task = await legacy_task(world)
    await offered(world, client, task)
    hub = StoreHubBackend(world.pool)
    forged = ClientIdentity(client.id, other.tenant_id)
    for identity in (ClientIdentity(stranger.id, other.tenant_id), forged):
        assert await grant(hub, identity, 1, [task]) == []
        assert (await hub.snapshot(identity, 1, [], 0)).available == []
    assert await LegacyHands(other, client).pull() == []


async def test_the_recount_sees_a_lease_without_attempt_and_an_attempt_without_lease(world: World) -> None:
    hands = LegacyHands(world, await world.client(max_concurrent=4))
    leased, returned = await hands.pull_one(platform="qwen"), await hands.pull_one(platform="doubao")
    await hands.cancel(returned)
    await world.pool.execute(
        "update desktop_task_attempts set ended_at = case when monitor_task_id = $1 then now() end", number_of(leased)
    )
    found = await check_integrity(world.pool, world.tenant_id)
    assert found == Integrity(lost=1, duplicated=0, miscounted=0, overhanging=1)
