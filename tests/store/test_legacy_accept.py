"""Collect-now over the legacy path: 1-dispatch §1.5 and §1.7, dispatch §16.1 (what becomes of an active lease)."""

from typing import cast
from uuid import UUID

import pytest

from domain.errors import NoSlot
from domain.messages import RequestRef
from store import legacy_ends, legacy_offers, requests
from store.accept import accept_collect_now
from store.binding import bind_request
from store.database import Pool, transaction
from store.legacy_preemption import SQL as LEGACY
from store.presence import resume_all_batches
from store.progress import refresh_requests
from tests.support.clicks import Hands, accepted, command, finish, policy_needed, scheduled, task_of_today, whole
from tests.support.legacy import LegacyHands, legacy_task, number_of, offered
from tests.support.statement_log import OneConnection
from tests.support.world import World, ago


@pytest.fixture
async def world(pool: Pool) -> World:
    made = await World.create(pool)
    await made.plan(platforms=("qwen", "doubao"))
    await made.setting("platform_concurrency", 2)
    return made


def ref_of(world: World, request_id: UUID) -> RequestRef:
    return RequestRef(request_id=request_id, tenant_id=world.tenant_id)


async def controls(world: World) -> list[tuple[str, str, int]]:
    """What desktops were told: task, order, generation."""
    rows = [row["payload"] for row in await world.outbox("task_control")]
    return [(row["task_id"], row["control"], row["interrupt_generation"]) for row in rows]


async def test_a_click_takes_scheduled_offers_back_at_once_and_tells_nobody(world: World) -> None:
    client = await world.client()
    batch = await world.batch(expected=1)
    waiting = await legacy_task(world, batch_id=batch)
    await offered(world, client, waiting)
    clicked = await world.question()
    answer = await accepted(world, question_ids=[clicked.id])
    assert answer.aborted_queued_count == 1
    row = await world.business(waiting)
    assert (row["status"], row["dispatch_lane"], row["target_client_id"], row["legacy_offer_expires_at"]) == (
        "pending", "normal", None, None,
    )  # fmt: skip
    assert await LegacyHands(world, client).pull() == []
    assert await controls(world) == []
    gave_way = await world.pool.fetchval("select task_count from batch_yields where batch_id = $1", batch)
    assert gave_way == 1


async def test_a_click_advises_a_leased_task_to_stop_and_leaves_its_lease_alone(world: World) -> None:
    hands = LegacyHands(world, await world.client())
    task = await hands.pull_one()
    await hands.start(task)
    before = await world.business(number_of(task))
    answer = await accepted(world, question_ids=[(await world.question()).id])
    row = await world.business(number_of(task))
    lease = ("status", "lease_token_hash", "lease_expires_at", "leased_to_executor", "collect_request_id")
    assert [row[name] for name in lease] == [before[name] for name in lease]
    assert (row["legacy_interrupt_request_id"], row["interrupt_generation"]) == (
        answer.request_id, answer.interrupt_generation,
    )  # fmt: skip
    assert await controls(world) == [(task.task_id, "interrupt_requested", answer.interrupt_generation)]
    assert answer.interrupt_requested_count == 0, "advice is nothing that the request waits for"
    await hands.run(task)
    assert await whole(world)


async def test_a_leased_task_asked_for_a_second_time_is_not_told_twice(world: World) -> None:
    hands = LegacyHands(world, await world.client())
    await hands.pull_one()
    for _ in range(2):
        await accepted(world, question_ids=[(await world.question()).id])
    assert len(await controls(world)) == 1


async def test_advice_for_a_request_that_is_over_is_given_anew(world: World) -> None:
    hands = LegacyHands(world, await world.client())
    task, question = await hands.pull_one(), await world.question()
    first = await accepted(world, question_ids=[question.id])
    second = await accepted(world, question_ids=[question.id], platforms=["qwen", "doubao"])
    assert (await world.row("monitoring_collect_requests", first.request_id))["status"] == "superseded"
    await requests.withdraw_interrupts(world.pool, ref_of(world, first.request_id))
    row = await world.business(number_of(task))
    assert row["legacy_interrupt_request_id"] == second.request_id
    assert [control for _, control, _ in await controls(world)] == ["interrupt_requested"] * 2


async def test_advice_passes_to_another_request_that_waits_on_the_desktop(world: World) -> None:
    hands = LegacyHands(world, await world.client())
    task = await hands.pull_one()
    first = await accepted(world, question_ids=[(await world.question()).id])
    second = await accepted(world, question_ids=[(await world.question()).id])
    await requests.cancel_request(world.pool, ref_of(world, first.request_id))
    row = await world.business(number_of(task))
    assert row["legacy_interrupt_request_id"] == second.request_id
    await requests.cancel_request(world.pool, ref_of(world, second.request_id))
    assert [control for _, control, _ in await controls(world)] == ["interrupt_requested", "interrupt_withdrawn"]


async def test_an_offer_that_is_taken_back_was_no_dispatch(world: World) -> None:
    far, near = await world.client(), await world.client()
    question = await world.question()
    high = await legacy_task(world, question=question)
    answer = await accepted(world, question_ids=[question.id], platforms=["qwen"], target_client_id=far.id)
    await offered(world, far, high)
    await world.set("desktop_clients", far.id, online=False, lost_at=ago(seconds=1))
    ref = ref_of(world, answer.request_id).model_copy(update={"client_id": far.id})
    await requests.release_client(world.pool, ref)
    await dispatched_nothing(world, answer.request_id)
    await offered(world, near, high)
    await world.set("desktop_clients", far.id, online=True, lost_at=None)
    await world.set("desktop_clients", near.id, lost_at=ago(seconds=1))
    async with transaction(world.pool) as connection:
        assert await bind_request(connection, answer.request_id, world.tenant_id) == far.id
    await dispatched_nothing(world, answer.request_id)
    assert (await requests.expire_request(world.pool, ref)).status == "timed_out"


async def dispatched_nothing(world: World, request_id: UUID) -> None:
    async with transaction(world.pool) as connection:
        await refresh_requests(connection, [request_id])
    assert (await world.row("monitoring_collect_requests", request_id))["dispatched_task_count"] == 0


async def test_policy_needed_advises_no_more_than_the_high_tasks_lack(world: World) -> None:
    await policy_needed(world)
    hands = LegacyHands(world, await world.client(max_concurrent=3))
    older, newer = await hands.pull_one(), await hands.pull_one(platform="doubao")
    await world.set("monitoring_collect_tasks", number_of(older), leased_at=ago(minutes=1))
    await accepted(world, question_ids=[(await world.question()).id])
    assert [task for task, _, _ in await controls(world)] == [newer.task_id]


@pytest.mark.parametrize("legacy", [False, True])
async def test_a_click_asks_the_legacy_path_only_where_there_is_some(world: World, legacy: bool) -> None:
    client, question = await world.client(), await world.question()
    if legacy:
        await LegacyHands(world, client).pull_one()
    advice = {LEGACY["adopt"], LEGACY["find_leased"], legacy_offers.SQL["withdraw_scheduled"]}
    async with world.pool.acquire() as connection:
        log = OneConnection(connection)
        async with log.listening():
            await accept_collect_now(cast(Pool, log), command(world, question_ids=[question.id]))
    assert (advice & log.statements.keys()) == (advice if legacy else set())


async def test_a_click_without_preemption_leaves_legacy_work_alone(world: World) -> None:
    hands = LegacyHands(world, await world.client())
    await hands.pull_one()
    waiting = await legacy_task(world, platform="doubao")
    await offered(world, hands.desktop, waiting)
    await accepted(world, question_ids=[(await world.question()).id], preempt=False)
    assert await controls(world) == []
    assert (await world.business(waiting))["legacy_offer_expires_at"] is not None


async def test_a_leased_task_in_the_scope_is_adopted_and_its_answer_counts(world: World) -> None:
    hands = LegacyHands(world, await world.client())
    question = await world.question()
    batch = await world.batch(expected=1)
    task = await hands.pull_one(question=question, batch_id=batch)
    await hands.start(task)
    answer = await accepted(world, question_ids=[question.id], platforms=["qwen"])
    assert (answer.affected_task_count, answer.promoted_task_count) == (1, 0)
    row = await world.business(number_of(task))
    assert (row["status"], row["dispatch_lane"], row["origin_lane"], row["batch_id"]) == (
        "leased", "high", "normal", batch,
    )  # fmt: skip
    await hands.result(task)
    await finish(world, task.attempt_id)
    request = await world.row("monitoring_collect_requests", answer.request_id)
    assert (request["status"], request["completed_task_count"]) == ("succeeded", 1)
    assert await whole(world)


async def test_a_result_on_its_way_is_adopted_too(world: World) -> None:
    hands = LegacyHands(world, await world.client())
    question = await world.question()
    task = await hands.pull_one(question=question)
    await hands.start(task)
    await hands.result(task)
    answer = await accepted(world, question_ids=[question.id], platforms=["qwen"])
    assert (await world.business(number_of(task)))["status"] == "received"
    await finish(world, task.attempt_id)
    assert (await world.row("monitoring_collect_requests", answer.request_id))["status"] == "succeeded"


async def test_an_answer_from_before_the_accept_that_was_not_adopted_does_not_satisfy(world: World) -> None:
    hands = LegacyHands(world, await world.client())
    question = await world.question()
    early = await hands.pull_one(question=question)
    await hands.start(early)
    await world.set("monitoring_collect_tasks", number_of(early), lease_expires_at=ago(seconds=1))
    await world.set("desktop_task_attempts", UUID(early.attempt_id), started_at=ago(minutes=1))
    async with transaction(world.pool) as connection:
        assert await legacy_ends.fail_expired(connection) == 1
    answer = await accepted(world, question_ids=[question.id], platforms=["qwen"])
    await finish(world, early.attempt_id)
    assert (await world.business(number_of(early)))["status"] == "pending"
    assert (await world.row("monitoring_collect_requests", answer.request_id))["completed_task_count"] == 0


async def test_an_advised_task_that_a_newer_click_asks_for_may_go_on(world: World) -> None:
    hands = LegacyHands(world, await world.client())
    question = await world.question()
    task = await hands.pull_one(question=question)
    await accepted(world, question_ids=[(await world.question()).id])
    second = await accepted(world, question_ids=[question.id], platforms=["qwen"])
    assert (await controls(world))[-1] == (task.task_id, "interrupt_withdrawn", second.interrupt_generation)
    assert (await hands.start(task)).interrupt_requested is False


async def test_an_offered_task_in_the_scope_is_promoted_and_bound_anew(world: World) -> None:
    far, near = await world.client(), await world.client()
    question = await world.question()
    task = await legacy_task(world, question=question)
    await offered(world, far, task)
    answer = await accepted(world, question_ids=[question.id], platforms=["qwen"], target_client_id=near.id)
    row = await world.business(task)
    assert (row["dispatch_lane"], row["target_client_id"], row["legacy_offer_expires_at"]) == ("high", near.id, None)
    assert answer.promoted_task_count == 1
    assert await LegacyHands(world, far).pull() == []
    assert await offered(world, near, task) == 1
    [pulled] = await LegacyHands(world, near).pull()
    assert (pulled.lane, pulled.source, pulled.interrupt_generation) == (
        "high",
        "collect_now",
        answer.interrupt_generation,
    )


async def test_the_hint_says_that_the_task_before_must_finish_when_no_slot_is_left(world: World) -> None:
    hands = LegacyHands(world, await world.client(max_concurrent=1))
    task = await hands.pull_one()
    answer = await accepted(world, question_ids=[(await world.question()).id], platforms=["doubao"])
    request = await world.row("monitoring_collect_requests", answer.request_id)
    assert request["hint"] == "waiting_for_current_task"
    await hands.run(task)
    [high] = await world.pool.fetch(
        "select id from monitoring_collect_tasks where collect_request_id = $1", answer.request_id
    )
    await world.set("monitoring_collect_tasks", high["id"], execution_owner="legacy")
    await offered(world, hands.desktop, high["id"])
    await hands.pull()
    assert (await world.row("monitoring_collect_requests", answer.request_id))["hint"] is None


async def test_a_cancelled_request_withdraws_its_advice_and_offers(world: World) -> None:
    hands = LegacyHands(world, await world.client())
    victim = await hands.pull_one()
    question = await world.question()
    high = await legacy_task(world, question=question, platform="doubao")
    answer = await accepted(world, question_ids=[question.id], platforms=["doubao"])
    await offered(world, hands.desktop, high)
    await requests.cancel_request(world.pool, RequestRef(request_id=answer.request_id, tenant_id=world.tenant_id))
    orders = await controls(world)
    assert [order for _, order, _ in orders] == ["interrupt_requested", "interrupt_withdrawn"]
    assert orders[1][2] > orders[0][2], "a newer generation"
    row = await world.business(high)
    assert (row["dispatch_lane"], row["target_client_id"], row["legacy_offer_expires_at"]) == ("normal", None, None)
    assert (await hands.start(victim)).interrupt_requested is False
    assert await whole(world)


async def test_a_cancelled_request_waits_for_its_leased_tasks(world: World) -> None:
    hands = LegacyHands(world, await world.client())
    question = await world.question()
    task = await hands.pull_one(question=question)
    answer = await accepted(world, question_ids=[question.id], platforms=["qwen"])
    ref = RequestRef(request_id=answer.request_id, tenant_id=world.tenant_id)
    assert (await requests.cancel_request(world.pool, ref)).status in ("dispatching", "running")
    await hands.run(task)
    request = await world.row("monitoring_collect_requests", answer.request_id)
    assert (request["status"], request["completed_task_count"]) == ("partial", 1)
    assert await whole(world)


async def test_a_leased_task_of_a_request_that_ended_comes_back_to_its_lane(world: World) -> None:
    hands = LegacyHands(world, await world.client())
    question = await world.question()
    task = await hands.pull_one(question=question)
    answer = await accepted(world, question_ids=[question.id], platforms=["qwen"])
    ref = RequestRef(request_id=answer.request_id, tenant_id=world.tenant_id)
    await requests.end_request(world.pool, ref)
    await hands.cancel(task, generation=10**6)
    row = await world.business(number_of(task))
    assert (row["dispatch_lane"], row["collect_request_id"], row["target_client_id"]) == ("normal", None, None)
    assert await whole(world)


async def test_a_desktop_resumes_its_batches_only_after_its_high_lease(world: World) -> None:
    hands = LegacyHands(world, await world.client())
    batch = await world.batch(expected=1)
    waiting = await legacy_task(world, batch_id=batch)
    await offered(world, hands.desktop, waiting)
    question = await world.question()
    high = await legacy_task(world, question=question)
    await accepted(world, question_ids=[question.id], platforms=["qwen"])
    await offered(world, hands.desktop, high)
    [task] = await hands.pull()
    async with transaction(world.pool) as connection:
        assert await resume_all_batches(connection) == 0
    await hands.run(task)
    async with transaction(world.pool) as connection:
        await resume_all_batches(connection)
    assert await world.pool.fetchval("select count(*) from batch_yields where resumed_at is null") == 0


async def test_both_paths_share_a_desktops_slots(world: World) -> None:
    client = await world.client(max_concurrent=2)
    legacy, new = LegacyHands(world, client), Hands(world, client)
    await legacy.pull_one()
    running = await scheduled(world, client, status="queued", platform="doubao")
    [frame] = await new.take()
    await new.start(frame)
    third = await scheduled(world, client, status="queued", platform="kimi")
    frames = await new.take()
    with pytest.raises(NoSlot):
        await new.start(frames[0])
    assert (str(running), str(third)) == (frame.task_id, frames[0].task_id)


@pytest.mark.parametrize(("percent", "path"), [(0, "legacy"), (100, "desktop_tasks")])
async def test_new_work_takes_the_path_of_the_rollout_and_waiting_work_keeps_its_own(
    world: World, percent: int, path: str
) -> None:
    await world.client()
    question, asked_before = await world.question(), await world.question()
    owner = "desktop_tasks" if path == "legacy" else "legacy"
    waiting = await task_of_today(world, question=question, owner=owner)
    finished = await task_of_today(world, question=asked_before, owner=owner)
    await world.set("monitoring_collect_tasks", finished, status="failed")
    await world.setting("rollout_percent", percent)
    await accepted(world, question_ids=[question.id, asked_before.id])
    created = await world.pool.fetch(
        "select distinct execution_owner from monitoring_collect_tasks where id <> all($1::bigint[])",
        [waiting, finished],
    )
    assert [row["execution_owner"] for row in created] == [path]
    assert (await world.business(waiting))["execution_owner"] == owner
    assert (await world.business(finished))["execution_owner"] == path
    assert await world.pool.fetchval("select count(*) from desktop_tasks") == 0
