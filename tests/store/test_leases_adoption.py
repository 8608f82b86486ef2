"""Which answers satisfy a request: of attempts from before its accept only those that it adopted (2-desktop §2.2)."""

import pytest

from domain.errors import LeaseLost
from domain.protocol import TaskAvailable
from store import results
from store.database import Pool, transaction
from store.settlement import fail_tasks
from tests.support.clicks import Hands, accepted, finish, rounds, whole
from tests.support.lease_calls import result
from tests.support.world import Lease, World


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


@pytest.fixture
async def hands(world: World) -> Hands:
    return Hands(world, await world.client())


async def clicked(hands: Hands, question_id: int, user: int) -> None:
    client = hands.desktop.id
    await accepted(hands.world, question_ids=[question_id], user_id=user, target_client_id=client)


async def asked_by_a_click(hands: Hands) -> tuple[int, TaskAvailable, Lease]:
    """A question that somebody's click has begun on the desktop."""
    question = await hands.world.question()
    await hands.world.plan(platforms=("qwen",))
    await clicked(hands, question.id, user=1)
    await rounds(hands.world.pool)
    [frame] = await hands.take()
    await hands.start(frame)
    row = await hands.world.pool.fetchrow("select * from desktop_tasks where status = 'in_progress'")
    assert row is not None
    return question.id, frame, Lease(row["id"], row["monitor_task_id"], row["attempt_id"], frame.lease_token)


async def lost(world: World, lease: Lease) -> None:
    """The desktop fell silent, its lease ran out, and it counts as a failure."""
    async with transaction(world.pool) as connection:
        assert await fail_tasks(connection, [lease.task_id], "the desktop is lost") == 1


async def test_an_answer_begun_for_an_earlier_click_does_not_satisfy_a_later_one(world: World, hands: Hands) -> None:
    question, _, late = await asked_by_a_click(hands)
    await lost(world, late)
    await clicked(hands, question, user=2)
    with pytest.raises(LeaseLost):
        await results.find_attempt_for_result(world.pool, hands.identity, late.task_id, result(late))


async def test_nor_does_it_when_it_was_on_its_way_already(world: World, hands: Hands) -> None:
    """Received and published before the click, ingested after it: kept as a fact, and the click asks all the same."""
    question, _, late = await asked_by_a_click(hands)
    await lost(world, late)
    await clicked(hands, question, user=2)
    await finish(world, late.attempt_id)
    assert (await world.attempt(late.attempt_id))["outcome"] == "succeeded"
    assert (await world.business(late.business_id))["status"] == "pending"
    await rounds(world.pool)
    [fresh] = await hands.take()
    await hands.run(fresh)
    assert (await world.business(late.business_id))["status"] == "completed"
    assert await whole(world)


async def test_the_answer_of_an_attempt_that_the_later_click_adopted_satisfies_it_even_if_its_lease_was_lost(
    world: World, hands: Hands
) -> None:
    question, _, late = await asked_by_a_click(hands)
    await clicked(hands, question, user=2)
    await lost(world, late)
    await results.find_attempt_for_result(world.pool, hands.identity, late.task_id, result(late))
    await finish(world, late.attempt_id)
    assert (await world.business(late.business_id))["status"] == "completed"
    assert await whole(world)
