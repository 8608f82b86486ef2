"""A chain of clicks whose scopes overlap: what moves, what is counted, who is told (1-dispatch §1.5 steps 2 and 3)."""

from typing import Any
from uuid import UUID

import pytest

from domain.messages import AcceptOutcome, RequestRef
from store import requests
from store.database import Pool
from tests.support.clicks import Hands, accepted, click, finish, rounds, whole
from tests.support.world import World


@pytest.fixture
async def world(pool: Pool) -> World:
    """A tenant with a plan on one platform that takes two tasks at once, a desktop and five questions."""
    world = await World.create(pool)
    await world.plan()
    await world.platform_limit("qwen", 2)
    await world.client()
    for _ in range(5):
        await world.question()
    return world


async def ids(world: World) -> list[int]:
    return [row["id"] for row in await world.pool.fetch("select id from questions order by id")]


async def state(world: World, request: UUID) -> dict[str, Any]:
    row = await world.row("monitoring_collect_requests", request)
    return {
        "status": row["status"],
        "requested": row["requested_task_count"],
        "moved": row["moved_task_count"],
        "by": row["superseded_by_request_id"],
    }


async def test_a_chain_of_overlapping_clicks_moves_each_task_to_the_newest(world: World) -> None:
    one, two, three, four, five = await ids(world)
    a = (await accepted(world, question_ids=[one, two, three])).request_id
    b = (await accepted(world, question_ids=[three, four], user_id=2)).request_id
    assert await state(world, a) == {"status": "accepted", "requested": 2, "moved": 1, "by": None}
    c = (await accepted(world, question_ids=[one, two, four, five], user_id=3)).request_id
    assert await state(world, a) == {"status": "superseded", "requested": 0, "moved": 3, "by": c}
    assert await state(world, b) == {"status": "accepted", "requested": 1, "moved": 1, "by": None}
    assert await state(world, c) == {"status": "accepted", "requested": 4, "moved": 0, "by": None}
    d = (await accepted(world, user_id=4)).request_id
    assert await state(world, b) == {"status": "superseded", "requested": 0, "moved": 2, "by": d}
    assert await state(world, c) == {"status": "superseded", "requested": 0, "moved": 4, "by": d}
    told = [(row["key"], row["payload"]["by"]) for row in await world.outbox("superseded")]
    assert told == [(f"collect-now/{a}", str(c)), (f"collect-now/{b}", str(d)), (f"collect-now/{c}", str(d))]
    tasks = await world.pool.fetch("select collect_request_id, superseded_by_request_id from monitoring_collect_tasks")
    assert {tuple(row) for row in tasks} == {(d, d)}
    assert await whole(world)


async def test_a_chain_ends_each_link_partial_that_had_results(world: World) -> None:
    one, two, *_ = await ids(world)
    desktop = Hands(world, await world.client())
    a = (await accepted(world, question_ids=[one, two], target_client_id=desktop.desktop.id)).request_id
    await rounds(world.pool)
    done, _ = await desktop.take()
    await desktop.run(done)
    left = await world.pool.fetchval("select question_id from monitoring_collect_tasks where status = 'pending'")
    b = (await accepted(world, question_ids=[left], user_id=2)).request_id
    assert await state(world, a) == {"status": "partial", "requested": 1, "moved": 1, "by": b}
    c = (await accepted(world, question_ids=[left], user_id=3)).request_id
    assert await state(world, b) == {"status": "superseded", "requested": 0, "moved": 1, "by": c}
    assert await whole(world)


async def test_a_request_refused_by_the_limit_supersedes_nobody(world: World) -> None:
    one, two, three, *_ = await ids(world)
    a = (await accepted(world, question_ids=[one, two])).request_id
    await accepted(world, question_ids=[three])
    refused = await click(world, question_ids=[two], user_id=2)
    assert (refused.outcome, refused.error_status, refused.retry_after) == (AcceptOutcome.REFUSED, 429, 30)
    assert await state(world, a) == {"status": "accepted", "requested": 2, "moved": 0, "by": None}
    assert await world.outbox("superseded") == []


async def test_the_replay_of_a_superseded_click_is_a_new_request(world: World) -> None:
    """Only an active or succeeded request is repeated: the tasks of this one are somebody else's."""
    one, *_ = await ids(world)
    first = (await accepted(world, question_ids=[one])).request_id
    await accepted(world, question_ids=[one], user_id=2)
    again = await accepted(world, question_ids=[one])
    assert again.request_id != first


async def test_a_click_after_a_cancel_takes_what_still_runs_of_it(world: World) -> None:
    """Whoever changes his mind gets a request of his own, not the one that is being wound down."""
    one, two, *_ = await ids(world)
    desktop = Hands(world, await world.client())
    first = (await accepted(world, question_ids=[one, two], target_client_id=desktop.desktop.id)).request_id
    await rounds(world.pool)
    frame, *_ = await desktop.take()
    await desktop.start(frame)
    await requests.cancel_request(world.pool, RequestRef(request_id=first, tenant_id=world.tenant_id))
    again = await accepted(world, question_ids=[one, two], target_client_id=desktop.desktop.id)
    assert again.request_id != first
    assert await state(world, first) == {"status": "superseded", "requested": 1, "moved": 1, "by": again.request_id}
    assert await state(world, again.request_id) == {"status": "running", "requested": 2, "moved": 0, "by": None}
    assert [row["key"] for row in await world.outbox("superseded")] == [f"collect-now/{first}"]
    await finish(world, frame.attempt_id)
    assert (await world.row("monitoring_collect_requests", again.request_id))["completed_task_count"] == 1
    assert await whole(world)
