"""A changed question text resets the question's tasks (1-dispatch §1.1)."""

import asyncio

import pytest

from domain.lanes import Lane
from store.catalog import Reach, change_question
from store.database import Pool, transaction
from store.facts import RunFact, write_facts
from store.releases import Release, lock_executions, release
from store.settlement import SQL as SETTLEMENT
from tests.support.clicks import Hands, accepted, finish, rounds, task_of_today, whole
from tests.support.results import RECEIVED_AT
from tests.support.waiting import until_blocked
from tests.support.world import Desktop, Lease, Question, World

NEW = "Which brand is best now?"


@pytest.fixture
async def world(pool: Pool) -> World:
    """A tenant with a plan on one platform."""
    world = await World.create(pool)
    await world.plan()
    return world


@pytest.fixture
async def client(world: World) -> Desktop:
    """A desktop."""
    return await world.client()


async def reword(world: World, question: Question, text: str = NEW) -> int:
    """Change the text; returns the version."""
    reach = Reach(world.tenant_id, (world.workspace_id,))
    row = await change_question(world.pool, reach, question.id, {"text": text})
    version: int = row["current_version_id"]
    return version


async def question_of(world: World, lease: Lease) -> Question:
    """What a leased task asks."""
    task = await world.business(lease.business_id)
    text = (await world.row("questions", task["question_id"]))["text"]
    return Question(task["question_id"], task["question_version_id"], text)


async def done(world: World, client: Desktop, question: Question, batch: int, status: str = "completed") -> int:
    """A task of the batch that was dispatched and settled."""
    task = await task_of_today(world, question=question, batch_id=batch)
    await rounds(world.pool)
    [frame] = await Hands(world, client).take()
    await world.set("monitoring_collect_tasks", task, max_attempts=1)
    await Hands(world, client).run(frame, succeeded=status == "completed")
    await world.set("monitoring_collect_tasks", task, max_attempts=3)
    return task


async def test_a_waiting_task_is_asked_in_the_new_text(world: World, client: Desktop) -> None:
    question = await world.question()
    task = await task_of_today(world, question=question)
    before = await world.business(task)
    await reword(world, question)
    assert (await world.business(task))["enqueued_at"] == before["enqueued_at"]
    await rounds(world.pool)
    [frame] = await Hands(world, client).take()
    assert frame.question == NEW


async def test_a_task_in_a_desktops_queue_is_taken_back_and_sent_anew(world: World, client: Desktop) -> None:
    question = await world.question()
    await task_of_today(world, question=question)
    await rounds(world.pool)
    [old] = await Hands(world, client).take()
    await reword(world, question)
    [order] = await world.outbox("task_control")
    assert (order["payload"]["control"], order["payload"]["task_id"]) == ("canceled", old.task_id)
    await rounds(world.pool)
    [frame] = await Hands(world, client).take()
    assert frame.question == NEW
    assert await whole(world)


async def test_a_running_task_finishes_in_the_text_it_was_asked_in(world: World, client: Desktop) -> None:
    lease = await world.leased(client, status="in_progress", batch_id=await world.batch(expected=1))
    question = await question_of(world, lease)
    await reword(world, question)
    await finish(world, lease.attempt_id)
    task = await world.business(lease.business_id)
    assert (task["status"], task["question_version_id"]) == ("completed", question.version_id)
    assert await whole(world)


@pytest.mark.parametrize("failed", [True, False])
async def test_a_running_task_that_comes_back_undone_is_asked_in_the_new_text(
    world: World, client: Desktop, failed: bool
) -> None:
    lease = await world.leased(client, status="in_progress")
    version = await reword(world, await question_of(world, lease))
    if failed:
        await finish(world, lease.attempt_id, succeeded=False)
    else:
        async with transaction(world.pool) as connection:
            await lock_executions(connection, [lease.task_id])
            await release(connection, [lease.task_id], Release.PREEMPTED)
    assert (await world.business(lease.business_id))["question_version_id"] == version


@pytest.mark.parametrize("status", ["completed", "failed"])
async def test_a_settled_task_of_an_open_batch_is_asked_again_and_uncounted(
    world: World, client: Desktop, status: str
) -> None:
    question, batch = await world.question(), await world.batch(expected=1)
    task = await done(world, client, question, batch, status)
    assert (await world.business(task))["status"] == status
    version = await reword(world, question)
    row, counters = await world.business(task), await world.row("scheduled_batches", batch)
    assert (row["status"], row["question_version_id"], row["dispatch_attempts"]) == ("pending", version, 0)
    assert (counters["completed_count"], counters["failed_count"]) == (0, 0)
    assert await rounds(world.pool) == 1
    assert await whole(world)


@pytest.mark.parametrize("batch_status", ["completed", "cancelled"])
async def test_a_settled_task_of_a_batch_that_is_over_stays(world: World, client: Desktop, batch_status: str) -> None:
    question, batch = await world.question(), await world.batch(expected=1)
    task = await done(world, client, question, batch)
    await world.set("scheduled_batches", batch, status=batch_status)
    before = await world.business(task)
    await reword(world, question)
    assert await world.business(task) == before
    assert await whole(world)


async def test_a_task_of_a_day_that_is_over_stays(world: World) -> None:
    question = await world.question()
    task = await world.business_task(question=question)
    await reword(world, question)
    assert (await world.business(task))["question_version_id"] == question.version_id


async def test_an_open_requests_answered_task_is_asked_again_for_the_request(world: World, client: Desktop) -> None:
    first, second = await world.question(), await world.question()
    batch = await world.batch(expected=1)
    task = await task_of_today(world, question=first, batch_id=batch)
    request = (await accepted(world, question_ids=[first.id, second.id])).request_id
    await rounds(world.pool)
    frames = await Hands(world, client).take()
    await Hands(world, client).run(next(frame for frame in frames if frame.question == first.text))
    await reword(world, first)
    row = await world.row("monitoring_collect_requests", request)
    assert (row["completed_task_count"], row["requested_task_count"]) == (0, 2)
    again = await world.business(task)
    assert (again["status"], again["dispatch_lane"], again["collect_request_id"]) == ("pending", Lane.HIGH, request)
    assert await whole(world)


async def test_a_result_that_comes_in_meanwhile_and_the_change_cannot_lock_each_other_out(
    world: World, client: Desktop, pool: Pool
) -> None:
    lease = await world.leased(client, status="in_progress")
    batch = await world.batch()
    await world.set("monitoring_collect_tasks", lease.business_id, batch_id=batch)
    question = await question_of(world, lease)
    async with transaction(pool) as ingest:
        # As ingest does: the task first, then the run, which refers to the question.
        await ingest.execute(SETTLEMENT["lock_tasks"], [lease.attempt_id])
        changing = asyncio.create_task(reword(world, question))
        await until_blocked(pool)
        fact = RunFact(lease.attempt_id, world.tenant_id, RECEIVED_AT, failure_kind="desktop_error")
        async with asyncio.timeout(30):
            assert await write_facts(ingest, [fact])
    assert await changing != question.version_id


async def test_the_same_text_again_changes_nothing(world: World, client: Desktop) -> None:
    question, batch = await world.question(), await world.batch(expected=1)
    task = await done(world, client, question, batch)
    before = await world.business(task)
    await reword(world, question, question.text)
    assert await world.business(task) == before
