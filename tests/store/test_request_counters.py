"""What a request asked for stays known whatever becomes of it (dispatch §7.4).

requested = completed + failed + unfinished + returned, at every moment and at every end.
"""

from typing import Any
from uuid import UUID

import pytest

from domain.messages import RequestRef
from domain.protocol import TaskAvailable
from store import requests
from store.database import Pool, transaction
from store.releases import Release, lock_executions, release
from tests.support.clicks import Hands, accepted, rounds, whole
from tests.support.world import Desktop, World


@pytest.fixture
async def world(pool: Pool) -> World:
    """A tenant with a plan on one platform that takes two tasks at once."""
    world = await World.create(pool)
    await world.plan()
    await world.platform_limit("qwen", 2)
    return world


@pytest.fixture
async def client(world: World) -> Desktop:
    return await world.client()


async def ask(world: World, tasks: int = 4) -> UUID:
    questions = [(await world.question()).id for _ in range(tasks)]
    return (await accepted(world, question_ids=questions)).request_id


async def one_done_one_running(world: World, client: Desktop) -> TaskAvailable:
    await rounds(world.pool)
    done, running = await Hands(world, client).take()
    await Hands(world, client).run(done)
    await Hands(world, client).start(running)
    return running


async def counted(world: World, request: UUID) -> dict[str, Any]:
    """The counters, after the identity was checked against the rows."""
    row = await world.row("monitoring_collect_requests", request)
    names = ("requested", "completed", "failed", "returned")
    counts = {name: row[f"{name}_task_count"] for name in names}
    unfinished = await world.pool.fetchval(
        "select count(*) from monitoring_collect_tasks where collect_request_id = $1 and status = 'pending'", request
    )
    assert counts["requested"] == counts["completed"] + counts["failed"] + counts["returned"] + unfinished
    assert await whole(world)
    return {"status": row["status"], **counts}


async def test_a_cancel_keeps_what_was_asked_for(world: World, client: Desktop) -> None:
    request = await ask(world)
    running = await one_done_one_running(world, client)
    await requests.cancel_request(world.pool, RequestRef(request_id=request, tenant_id=world.tenant_id))
    open_still = {"status": "running", "requested": 4, "completed": 1, "failed": 0, "returned": 2}
    assert await counted(world, request) == open_still
    async with transaction(world.pool) as connection:
        await lock_executions(connection, [UUID(running.task_id)])
        await release(connection, [UUID(running.task_id)], Release.RETURNED)
    assert await counted(world, request) == open_still | {"status": "partial", "returned": 3}


@pytest.mark.parametrize(
    ("effect", "status"), [(requests.end_request, "partial"), (requests.expire_request, "running")]
)
async def test_every_end_counts_what_goes_back(world: World, client: Desktop, effect: Any, status: str) -> None:
    request = await ask(world)
    await one_done_one_running(world, client)
    await effect(world.pool, RequestRef(request_id=request, tenant_id=world.tenant_id))
    returned = 3 if status == "partial" else 0
    assert await counted(world, request) == {
        "status": status, "requested": 4, "completed": 1, "failed": 0, "returned": returned,
    }  # fmt: skip


async def test_the_ttl_returns_everything_and_says_so(world: World) -> None:
    request = await ask(world)
    await requests.expire_request(world.pool, RequestRef(request_id=request, tenant_id=world.tenant_id))
    assert await counted(world, request) == {
        "status": "timed_out", "requested": 4, "completed": 0, "failed": 0, "returned": 4,
    }  # fmt: skip


async def test_what_a_newer_request_takes_is_moved_and_not_returned(world: World) -> None:
    questions = [(await world.question()).id for _ in range(3)]
    older = (await accepted(world, question_ids=questions)).request_id
    await accepted(world, question_ids=questions[:1], user_id=2)
    assert await counted(world, older) == {
        "status": "accepted", "requested": 2, "completed": 0, "failed": 0, "returned": 0,
    }  # fmt: skip
    assert (await world.row("monitoring_collect_requests", older))["moved_task_count"] == 1
