"""Offers and pulls of the legacy path: 1-dispatch §1.4, §1.7, dispatch §16.1 item 2."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import cast
from uuid import UUID

import pytest

from domain.hub_port import GrantRequest, HeartbeatRecord
from domain.lanes import Lane
from domain.protocol import Heartbeat, HeldAttempt, Hello
from store import legacy_held, legacy_offers
from store.clients import revoke_client
from store.database import Pool, transaction
from store.hub_backend import StoreHubBackend
from store.legacy_pull import pull
from tests.support.clicks import accepted, whole
from tests.support.granting import grant
from tests.support.legacy import LegacyHands, legacy_task, number_of, numbers, offered, pick_of
from tests.support.statement_log import OneConnection
from tests.support.world import World, ago


@pytest.fixture
async def world(pool: Pool) -> World:
    made = await World.create(pool)
    await made.setting("platform_concurrency", 2)
    await made.setting("client_concurrency", 4)
    return made


async def test_an_offer_names_the_desktop_and_leases_nothing(world: World) -> None:
    client = await world.client()
    task = await legacy_task(world)
    assert await offered(world, client, task) == 1
    row = await world.business(task)
    assert (row["status"], row["target_client_id"], row["lease_token_hash"]) == ("pending", client.id, None)
    assert row["legacy_offer_expires_at"] - row["legacy_offered_at"] == timedelta(seconds=120)
    assert row["last_dispatched_at"] == row["legacy_offered_at"]
    [hint] = await world.outbox("task_available")
    assert hint["payload"]["task_id"] == f"l-{task}"
    assert hint["key"] == f"monitor.normal.{client.id}"


@pytest.mark.parametrize(
    "change",
    [
        {"status": "skipped"},
        {"dispatch_lane": "retry", "dispatch_priority": 50},
        {"execution_owner": "desktop_tasks"},
        {"legacy_offer_expires_at": datetime(2100, 1, 1, tzinfo=UTC)},
    ],
)
async def test_a_pick_that_is_not_what_the_round_read_is_not_offered(world: World, change: dict[str, object]) -> None:
    client = await world.client()
    task = await legacy_task(world)
    pick = await pick_of(world, task, client.id)
    await world.set("monitoring_collect_tasks", task, **change)
    async with transaction(world.pool) as connection:
        assert await legacy_offers.offer(connection, [pick]) == 0
    assert await world.outbox("task_available") == []


@pytest.mark.parametrize("change", [{"lost_at": ago(seconds=1)}, {"paused": True}, {"online": False}])
async def test_a_client_that_was_lost_or_paused_since_gets_no_offer(world: World, change: dict[str, object]) -> None:
    client = await world.client()
    task = await legacy_task(world)
    await world.set("desktop_clients", client.id, **change)
    assert await offered(world, client, task) == 0


async def test_a_pull_takes_offers_of_its_own_client_and_nothing_else(world: World) -> None:
    mine, other = await world.client(), await world.client()
    await legacy_task(world)
    elsewhere, here = await legacy_task(world), await legacy_task(world, platform="doubao")
    await offered(world, other, elsewhere)
    await offered(world, mine, here)
    [pulled] = await LegacyHands(world, mine).pull()
    assert number_of(pulled) == here
    row = await world.business(here)
    assert (row["status"], row["leased_to_executor"], row["legacy_offer_expires_at"]) == ("leased", mine.id, None)
    assert row["lease_expires_at"] - row["leased_at"] == timedelta(seconds=120)


async def test_a_pulled_task_says_all_that_a_pushed_one_does(world: World) -> None:
    client = await world.client()
    task = await LegacyHands(world, client).pull_one()
    attempt = await world.attempt(UUID(task.attempt_id))
    assert (attempt["monitor_task_id"], attempt["task_id"], attempt["client_id"]) == (number_of(task), None, client.id)
    assert (task.owner, task.status, task.source, task.attempt) == ("legacy", "leased", "daily_schedule", 1)
    assert task.question.startswith("Which brand")
    assert attempt["question_version_id"] is not None


async def test_a_pull_goes_by_lane_priority_dispatch_after_and_planned_at(world: World) -> None:
    client = await world.client(max_concurrent=4)
    await world.platform_limit("qwen", 2)
    now = datetime.now(UTC)
    rows = [
        (await legacy_task(world, lane=Lane.RETRY, platform="kimi"), {"planned_at": now}),
        (await legacy_task(world, platform="doubao"), {"planned_at": now}),
        (await legacy_task(world, platform="doubao"), {"planned_at": now, "dispatch_after": now - timedelta(hours=1)}),
        (await legacy_task(world), {"dispatch_priority": 200}),
        (await legacy_task(world, lane=Lane.NORMAL_BOOSTED), {"planned_at": now}),
        (await legacy_task(world, platform="openai"), {"planned_at": now - timedelta(hours=1)}),
    ]
    for task, columns in rows:
        await world.set("monitoring_collect_tasks", task, **columns)
    retry, plain, later, important, boosted, earlier = (task for task, _ in rows)
    await offered(world, client, *(task for task, _ in rows))
    first = await LegacyHands(world, client).pull(3)
    assert numbers(first) == [boosted, important, earlier]
    frames = await grant(StoreHubBackend(world.pool), LegacyHands(world, client).identity, 1, [retry, plain, later])
    assert [frame.task_id for frame in frames] == [f"l-{plain}", f"l-{later}", f"l-{retry}"]


async def test_a_pull_takes_no_more_than_asked_and_says_what_still_stands(world: World) -> None:
    client = await world.client()
    tasks = [await legacy_task(world, platform=platform) for platform in ("qwen", "doubao", "kimi")]
    await offered(world, client, *tasks)
    answer = await pull(world.pool, LegacyHands(world, client).identity, 2)
    assert (len(answer.tasks), answer.remaining) == (2, 1)


async def test_a_pull_leases_no_more_than_the_client_has_slots(world: World) -> None:
    client = await world.client(max_concurrent=2)
    await world.leased(client, status="in_progress", platform="openai")
    await offered(world, client, await legacy_task(world), await legacy_task(world, platform="doubao"))
    answer = await pull(world.pool, LegacyHands(world, client).identity, 10)
    assert (len(answer.tasks), answer.remaining) == (1, 1)
    again = await pull(world.pool, LegacyHands(world, client).identity, 10)
    assert (again.tasks, again.remaining) == ([], 1)


async def test_a_platform_held_on_another_desktop_by_either_path_stops_a_pull(world: World) -> None:
    await world.setting("platform_concurrency", 1)
    one, two = LegacyHands(world, await world.client()), LegacyHands(world, await world.client())
    await world.leased(one.desktop, status="in_progress", platform="qwen")
    held = await one.pull_one(platform="doubao")
    blocked = [await legacy_task(world, platform="qwen"), await legacy_task(world, platform="doubao")]
    free = await legacy_task(world, platform="kimi")
    await offered(world, two.desktop, *blocked, free)
    assert numbers(await two.pull()) == [free]
    await one.start(held)
    await one.result(held)
    assert numbers(await two.pull()) == [blocked[1]]


async def test_an_offer_that_has_run_out_is_not_taken(world: World) -> None:
    client = await world.client()
    task = await legacy_task(world)
    await offered(world, client, task)
    await world.set("monitoring_collect_tasks", task, legacy_offer_expires_at=ago(seconds=1))
    assert await LegacyHands(world, client).pull() == []


async def sweep(world: World) -> int:
    async with transaction(world.pool) as connection:
        return await legacy_offers.withdraw_stale(connection)


async def test_an_offer_that_has_run_out_frees_the_task_for_anybody(world: World) -> None:
    client = await world.client()
    task = await legacy_task(world)
    await offered(world, client, task)
    assert await sweep(world) == 0
    await world.set("monitoring_collect_tasks", task, legacy_offer_expires_at=ago(seconds=1))
    assert (await sweep(world), await sweep(world)) == (1, 0)
    row = await world.business(task)
    assert (row["target_client_id"], row["legacy_offer_expires_at"], row["last_dispatched_at"]) == (None, None, None)
    assert await offered(world, await world.client(), task) == 1


async def test_an_offer_that_has_run_out_stays_with_whom_an_open_request_bound(world: World) -> None:
    client = await world.client()
    request = await world.request(client_id=client.id)
    task = await legacy_task(world, lane=Lane.HIGH, request_id=request, client_id=client.id)
    await offered(world, client, task)
    await world.set("monitoring_collect_tasks", task, legacy_offer_expires_at=ago(seconds=1))
    assert await sweep(world) == 1
    assert (await world.business(task))["target_client_id"] == client.id


async def test_offers_to_a_lost_or_revoked_desktop_are_taken_back(world: World) -> None:
    lost, revoked = await world.client(), await world.client()
    tasks = [await legacy_task(world), await legacy_task(world)]
    await offered(world, lost, tasks[0])
    await offered(world, revoked, tasks[1])
    await world.set("desktop_clients", lost.id, lost_at=ago(seconds=1))
    await revoke_client(world.pool, world.tenant_id, revoked.id)
    assert await sweep(world) == 2
    assert [(await world.business(task))["target_client_id"] for task in tasks] == [None, None]


async def test_a_hint_that_was_lost_is_given_again_each_time_later(world: World) -> None:
    client = await world.client()
    task = await legacy_task(world)
    await offered(world, client, task)
    await world.set("monitoring_collect_tasks", task, updated_at=ago(seconds=11))
    repeated = []
    for _ in range(2):
        async with transaction(world.pool) as connection:
            repeated.append(await legacy_offers.repeat_hints(connection))
    assert repeated == [1, 0]
    assert len(await world.outbox("task_available")) == 2


async def test_the_hub_gets_an_offer_as_a_frame_without_lease(world: World) -> None:
    client = await world.client()
    task, unknown = await legacy_task(world), await legacy_task(world)
    await offered(world, client, task)
    hub, identity = StoreHubBackend(world.pool), LegacyHands(world, client).identity
    [frame] = await grant(hub, identity, 1, [task, unknown])
    assert (frame.task_id, frame.owner, frame.is_offer) == (f"l-{task}", "legacy", True)
    assert (frame.attempt_id, frame.attempt, frame.status) == ("", 0, "pending")
    assert await grant(hub, identity, 2, [task]) == [], "a replaced connection"
    assert (await world.business(task))["status"] == "pending"


async def test_offers_to_many_desktops_are_read_by_one_statement_each_its_own(world: World) -> None:
    clients = [await world.client() for _ in range(3)]
    tasks = [await legacy_task(world) for _ in clients]
    for client, task in zip(clients, tasks, strict=True):
        await offered(world, client, task)
    identities = [LegacyHands(world, client).identity for client in clients]
    requests = [GrantRequest(identity, 1, tuple(tasks)) for identity in identities]
    # Both connections of one client in one call: the newer one gets it.
    requests.insert(0, GrantRequest(identities[0], 0, tuple(tasks)))
    async with world.pool.acquire() as connection:
        log = OneConnection(connection)
        async with log.listening():
            frames = await legacy_offers.read_announced(cast(Pool, log), requests)
    assert [[frame.task_id for frame in each] for each in frames] == [[], *([f"l-{task}"] for task in tasks)]
    [(_, _, _, numbers_asked)] = log.statements.values()
    assert sorted(numbers_asked) == sorted(tasks * len(requests))
    answers = await StoreHubBackend(world.pool).grant(requests)
    assert [[frame.task_id for frame in answer.frames] for answer in answers] == [
        [frame.task_id for frame in each] for each in frames
    ]


async def test_a_snapshot_lists_offers_and_judges_what_is_held(world: World) -> None:
    client = await world.client(max_concurrent=4)
    hands = LegacyHands(world, client)
    leased, over = await hands.pull_one(), await hands.pull_one(platform="doubao")
    standing = await legacy_task(world, platform="kimi")
    await offered(world, client, standing)
    await hands.cancel(over)
    held = [HeldAttempt(task_id=task.task_id, attempt_id=task.attempt_id) for task in (leased, over)]
    content = await StoreHubBackend(world.pool).snapshot(hands.identity, 1, held, 0)
    assert [frame.task_id for frame in content.available] == [f"l-{standing}"]
    assert {each.task_id: (each.valid, each.status) for each in content.held} == {
        leased.task_id: (True, "leased"),
        over.task_id: (False, None),
    }
    replaced = await StoreHubBackend(world.pool).snapshot(hands.identity, 0, held, 0)
    assert (replaced.available, replaced.held) == ([], [])


async def test_a_heartbeat_extends_the_leases_it_lists_and_no_other(world: World) -> None:
    client, stranger = await world.client(max_concurrent=4), await world.client()
    hands = LegacyHands(world, client)
    listed, other = await hands.pull_one(), await hands.pull_one(platform="doubao")
    soon = datetime.now(UTC) + timedelta(seconds=5)
    for task in (listed, other):
        await world.set("monitoring_collect_tasks", number_of(task), lease_expires_at=soon)
    beat = Heartbeat(id="b", running=[HeldAttempt(task_id=listed.task_id, attempt_id=listed.attempt_id)])
    hub = StoreHubBackend(world.pool)
    assert await hub.heartbeats([HeartbeatRecord(stranger.id, 1, beat), HeartbeatRecord(client.id, 0, beat)]) == {}
    assert (await world.business(number_of(listed)))["lease_expires_at"] == soon
    await hub.heartbeats([HeartbeatRecord(client.id, 1, beat)])
    assert (await world.business(number_of(listed)))["lease_expires_at"] > soon
    assert (await world.business(number_of(other)))["lease_expires_at"] == soon
    await hands.cancel(listed)
    taken = await hub.heartbeats([HeartbeatRecord(client.id, 1, beat)])
    assert taken == {}, "the desktop gave it back itself"


async def test_a_hello_ends_what_it_does_not_list(world: World) -> None:
    client = await world.client(max_concurrent=4)
    hands = LegacyHands(world, client)
    kept, waiting, begun = [await hands.pull_one(platform=name) for name in ("qwen", "doubao", "kimi")]
    await hands.start(begun)
    held = [HeldAttempt(task_id=kept.task_id, attempt_id=kept.attempt_id)]
    await StoreHubBackend(world.pool).connected(hands.identity, Hello(id="h", held=held))
    rows = [await world.business(number_of(task)) for task in (kept, waiting, begun)]
    assert [(row["status"], row["dispatch_attempts"]) for row in rows] == [
        ("leased", 0),
        ("pending", 0),
        ("pending", 1),
    ]


async def test_a_hello_that_a_newer_connection_overtook_ends_nothing(world: World) -> None:
    client = await world.client()
    hands = LegacyHands(world, client)
    task = await hands.pull_one()
    await hands.start(task)
    await world.set("desktop_clients", client.id, connection_epoch=2)
    await legacy_held.end_unlisted(world.pool, hands.identity, 1, [])
    assert (await world.business(number_of(task)))["status"] == "leased"
    await legacy_held.end_unlisted(world.pool, hands.identity, 2, [])
    assert (await world.business(number_of(task)))["status"] == "pending"


async def test_pulls_that_race_lease_each_task_once_and_no_more_than_there_are_slots(world: World) -> None:
    client = await world.client(max_concurrent=3)
    tasks = [await legacy_task(world, platform=name) for name in ("qwen", "doubao", "kimi", "openai")]
    await offered(world, client, *tasks)
    hands = LegacyHands(world, client)
    pulled = numbers([task for tasks in await asyncio.gather(*(hands.pull(2) for _ in range(4))) for task in tasks])
    assert len(pulled) == len(set(pulled)) == 3


async def test_a_click_and_a_pull_that_race_leave_each_task_either_leased_or_taken_back(world: World) -> None:
    await world.plan(platforms=("openai",))
    client = await world.client(max_concurrent=4)
    task = await legacy_task(world)
    await offered(world, client, task)
    question = await world.question()
    pulled, answer = await asyncio.gather(
        LegacyHands(world, client).pull(), accepted(world, question_ids=[question.id])
    )
    orders = [row["payload"]["task_id"] for row in await world.outbox("task_control")]
    row = await world.business(task)
    if pulled:
        assert (row["status"], answer.aborted_queued_count, orders) == ("leased", 0, [f"l-{task}"])
    else:
        assert (row["status"], row["target_client_id"], answer.aborted_queued_count) == ("pending", None, 1)
    assert await whole(world)
