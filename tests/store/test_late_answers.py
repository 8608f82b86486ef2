"""An answer belongs to the text that its attempt asked, whenever it comes (1-dispatch §1.1, 2-desktop §2.2)."""

from typing import Any

import pytest

from activities.interpret import interpret
from store.database import Pool, transaction
from store.facts import read_brands, read_contexts, write_facts
from store.settlement import Ending, settle
from tests.support.clicks import Hands, rounds, task_of_today, whole
from tests.support.results import chat_answer, result
from tests.support.world import Desktop, Lease, Question, World

NEW = "Which brand lasts longest?"


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


@pytest.fixture
async def client(world: World) -> Desktop:
    return await world.client()


async def leased(world: World, client: Desktop) -> Lease:
    """What waits is dispatched and started."""
    await rounds(world.pool)
    [frame] = await Hands(world, client).take()
    await Hands(world, client).start(frame)
    row = await world.pool.fetchrow("select * from desktop_tasks where status = 'in_progress'")
    assert row is not None
    return Lease(row["id"], row["monitor_task_id"], row["attempt_id"], frame.lease_token)


async def reworded(world: World, question: Question) -> int:
    version: int = await world.pool.fetchval(
        "insert into question_versions (tenant_id, question_id, text, text_hash) values ($1, $2, $3, 'new')"
        " returning id",
        world.tenant_id, question.id, NEW,
    )  # fmt: skip
    await world.set("questions", question.id, text=NEW, current_version_id=version)
    return version


async def revoked(world: World, lease: Lease) -> None:
    """The lease was taken away and the task waits again, in the current text."""
    await world.set("desktop_tasks", lease.task_id, status="aborted", lease_expires_at=None)
    await world.pool.execute(
        "update desktop_task_attempts set ended_at = now(), outcome = 'revoked' where id = $1", lease.attempt_id
    )
    await world.pool.execute(
        "update monitoring_collect_tasks t set active_task_id = null, question_version_id = q.current_version_id"
        " from questions q where t.id = $1 and q.id = t.question_id",
        lease.business_id,
    )


async def ingested(world: World, lease: Lease, client: Desktop, text: str = "Acme is fine.") -> str:
    """What ingest does with the answer; returns the question that it was judged against."""
    context = (await read_contexts(world.pool, [(lease.attempt_id, world.tenant_id)]))[lease.attempt_id]
    brands = await read_brands(world.pool, [(world.tenant_id, world.brand_id)])
    message = result(world, lease, client, raw=chat_answer(text))
    fact = interpret(message, context, brands[world.brand_id], "raw/key").fact
    async with transaction(world.pool) as connection:
        await write_facts(connection, [fact])
        await settle(connection, [Ending(lease.attempt_id, True)])
    return context.question


async def run_of(world: World) -> dict[str, Any]:
    [row] = await world.pool.fetch("select * from question_monitor_runs")
    return dict(row)


async def test_a_late_answer_to_an_older_text_is_stored_under_it_and_the_new_text_is_still_asked(
    world: World, client: Desktop
) -> None:
    question = await world.question()
    task = await task_of_today(world, question=question)
    late = await leased(world, client)
    version = await reworded(world, question)
    await revoked(world, late)
    assert await ingested(world, late, client) == question.text
    assert (await run_of(world))["question_version_id"] == question.version_id
    row = await world.business(task)
    assert (row["status"], row["question_version_id"], row["active_task_id"]) == ("pending", version, None)
    again = await leased(world, client)
    assert await ingested(world, again, client) == NEW
    run = await run_of(world)
    assert (run["question_version_id"], run["attempt_id"]) == (version, again.attempt_id)
    assert (await world.business(task))["status"] == "completed"
    assert await whole(world)


async def test_a_late_answer_to_the_present_text_completes_the_task(world: World, client: Desktop) -> None:
    task = await task_of_today(world)
    late = await leased(world, client)
    await revoked(world, late)
    await ingested(world, late, client)
    assert (await world.business(task))["status"] == "completed"


async def test_an_answer_to_an_older_text_does_not_stop_who_asks_the_new_one(world: World, client: Desktop) -> None:
    question = await world.question()
    await task_of_today(world, question=question)
    late = await leased(world, client)
    await reworded(world, question)
    await revoked(world, late)
    again = await leased(world, client)
    await ingested(world, late, client)
    assert (await world.execution(again.task_id))["status"] == "in_progress"
