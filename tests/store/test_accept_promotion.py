"""What an accept does to the tasks of its scope (1-dispatch §1.5 step 5)."""

import asyncio
from uuid import UUID

import pytest

from domain.lanes import Lane
from store.database import Pool, transaction
from store.statements import statements
from tests.support.clicks import Hands, accepted, finish, rounds, scheduled, task_of_today, today, whole
from tests.support.waiting import until_blocked
from tests.support.world import World, ago


@pytest.fixture
async def world(pool: Pool) -> World:
    """A tenant with a daily plan on one platform."""
    world = await World.create(pool)
    await world.plan()
    return world


async def test_missing_tasks_are_created_for_today_high_and_bound(world: World) -> None:
    client = await world.client()
    questions = [await world.question() for _ in range(3)]
    answer = await accepted(world)
    rows = await world.pool.fetch("select * from monitoring_collect_tasks order by question_id")
    assert [row["question_id"] for row in rows] == [question.id for question in questions]
    assert (answer.affected_task_count, answer.promoted_task_count, answer.target_client_id) == (3, 3, client.id)
    for row in rows:
        assert (row["dispatch_lane"], row["dispatch_priority"], row["status"]) == ("high", 5000, "pending")
        assert (row["origin_lane"], row["origin_priority"]) == ("normal", 100)
        assert (row["target_client_id"], row["collect_request_id"]) == (client.id, answer.request_id)
        assert (row["business_date"], row["trigger_source"]) == (await today(world), "manual")
        assert row["interrupt_generation"] == answer.interrupt_generation == 1
    assert await whole(world)


async def test_a_pending_task_keeps_its_age_its_batch_and_where_it_came_from(world: World) -> None:
    batch = await world.batch(expected=1)
    task = await task_of_today(world, lane=Lane.RETRY, batch_id=batch)
    await world.set(
        "monitoring_collect_tasks", task, enqueued_at=ago(hours=2), dispatch_attempts=2, dispatch_priority=60
    )
    before = await world.business(task)
    await accepted(world)
    row = await world.business(task)
    assert (row["enqueued_at"], row["batch_id"]) == (before["enqueued_at"], batch)
    assert (row["origin_lane"], row["origin_priority"], row["dispatch_attempts"]) == ("retry", 60, 0)
    assert await whole(world)


@pytest.mark.parametrize("status", ["completed", "failed", "skipped", "expired"])
async def test_a_finished_task_is_asked_again_and_its_batch_counts_it_as_unfinished(world: World, status: str) -> None:
    batch = await world.batch(expected=1)
    task = await task_of_today(world, batch_id=batch)
    await world.set("monitoring_collect_tasks", task, status=status, finished_at=ago(hours=1), enqueued_at=ago(hours=2))
    await world.set("scheduled_batches", batch, **{f"{status}_count": 1})
    await accepted(world)
    row, counters = await world.business(task), await world.row("scheduled_batches", batch)
    assert (row["status"], row["finished_at"], row["dispatch_lane"]) == ("pending", None, "high")
    assert row["enqueued_at"] > ago(minutes=1)
    assert (counters[f"{status}_count"], counters["expected_count"]) == (0, 1)
    assert await world.outbox("progress") == []
    assert await whole(world)


async def test_a_running_task_is_adopted_where_it_runs_and_its_interrupt_withdrawn(world: World) -> None:
    holder = await world.client(max_concurrent=1)
    batch = await world.batch(expected=1)
    older = await world.request(client_id=holder.id, generation=4)
    task = await scheduled(world, holder, batch_id=batch)
    await world.interrupt(task, older, 4)
    idle = await world.client()
    answer = await accepted(world, target_client_id=idle.id)
    execution = await world.execution(task)
    business = await world.business(execution["monitor_task_id"])
    assert (execution["status"], execution["source"], execution["lane"]) == ("in_progress", "collect_now", "high")
    assert (execution["target_client_id"], business["batch_id"]) == (holder.id, batch)
    assert (execution["control_flags"], execution["interrupt_request_id"]) == ({}, None)
    assert execution["interrupt_generation"] == answer.interrupt_generation == 5
    assert (business["collect_request_id"], business["active_task_id"]) == (answer.request_id, task)
    assert (answer.promoted_task_count, answer.affected_task_count) == (0, 1)
    [row] = await world.outbox("task_control")
    assert row["key"] == f"monitor.high.{holder.id}"
    assert row["payload"] == {
        "type": "task_control",
        "client_id": str(holder.id),
        "task_id": str(task),
        "control": "interrupt_withdrawn",
        "reason": "collect_now_promoted",
        "interrupt_generation": 5,
    }
    request = await world.row("monitoring_collect_requests", answer.request_id)
    assert (request["status"], request["dispatched_task_count"]) == ("running", 1)


async def test_nobody_gives_way_to_a_request_whose_tasks_all_run_already(world: World) -> None:
    client = await world.client()
    question = await world.question()
    await scheduled(world, client, question=question)
    other = await scheduled(world, client, platform="doubao", status="queued")
    answer = await accepted(world, question_ids=[question.id])
    assert (answer.interrupt_requested_count, answer.aborted_queued_count) == (0, 0)
    assert (await world.execution(other))["status"] == "queued"


async def test_a_queued_task_of_the_scope_is_taken_back_and_dispatched_anew_as_high(world: World) -> None:
    before, now = await world.client(), await world.client()
    task = await scheduled(world, before, status="queued")
    [frame] = await Hands(world, before).take()
    answer = await accepted(world, target_client_id=now.id)
    old, attempt = await world.execution(task), await world.attempt(UUID(frame.attempt_id))
    assert (old["status"], old["lease_expires_at"], attempt["outcome"]) == ("aborted", None, "cancelled")
    business = await world.business(old["monitor_task_id"])
    assert (business["active_task_id"], business["dispatch_lane"]) == (None, "high")
    [control] = await world.outbox("task_control")
    assert (control["payload"]["control"], control["client_id"]) == ("canceled", before.id)
    assert answer.aborted_queued_count == 0
    assert await rounds(world.pool) == 1
    [fresh] = await Hands(world, now).take()
    assert (fresh.lane, fresh.priority, fresh.source, fresh.interrupt_generation) == ("high", 5000, "collect_now", 1)
    assert await whole(world)


async def test_a_changed_question_is_asked_in_its_current_version(world: World) -> None:
    question = await world.question("old text")
    task = await task_of_today(world, question=question)
    version = await world.pool.fetchval(
        "insert into question_versions (tenant_id, question_id, text, text_hash) values ($1, $2, 'new text', 'h')"
        " returning id",
        world.tenant_id, question.id,
    )  # fmt: skip
    await world.set("questions", question.id, text="new text", current_version_id=version)
    client = await world.client()
    await accepted(world)
    assert (await world.business(task))["question_version_id"] == version
    await rounds(world.pool)
    [frame] = await Hands(world, client).take()
    assert frame.question == "new text"


async def test_an_adopted_success_satisfies_the_request_although_it_began_before(world: World) -> None:
    client = await world.client()
    await world.question()
    await task_of_today(world, question=await world.question())
    await rounds(world.pool)
    hands = Hands(world, client)
    [frame] = await hands.take()
    await hands.start(frame)
    answer = await accepted(world)
    await finish(world, frame.attempt_id)
    request = await world.row("monitoring_collect_requests", answer.request_id)
    assert (request["completed_task_count"], request["requested_task_count"]) == (1, 2)
    assert await whole(world)


async def test_rows_get_the_generation_only_forward(world: World) -> None:
    client = await world.client()
    task = await scheduled(world, client, platform="doubao")
    for expected in (1, 2):
        answer = await accepted(world, question_ids=[(await world.question()).id])
        assert answer.interrupt_generation == expected
    assert (await world.execution(task))["interrupt_generation"] == 1
    rows = await world.pool.fetch("select interrupt_generation from monitoring_collect_tasks order by id desc limit 2")
    assert [row["interrupt_generation"] for row in rows] == [2, 1]


async def test_an_answer_that_came_while_the_click_waited_its_turn_is_not_one_of_the_new_asking(world: World) -> None:
    """The click's transaction began before the answer's: by its clock the task would be older than the answer."""
    hands = Hands(world, await world.client())
    question = await world.question()
    await scheduled(world, hands.desktop, status="queued", question=question)
    [frame] = await hands.take()
    await hands.start(frame)
    async with transaction(world.pool) as other:
        await other.execute(statements("locks")["lock_tenant_requests"], world.tenant_id)
        clicking = asyncio.create_task(accepted(world))
        await until_blocked(world.pool)
        await finish(world, frame.attempt_id)
    await clicking
    await rounds(world.pool)
    [again] = await hands.take()
    await hands.run(again)
    assert await whole(world)
