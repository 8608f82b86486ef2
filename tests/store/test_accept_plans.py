"""Every statement of a click finds its rows by an index, whatever the backlog and history (1-dispatch §1.4, §1.5)."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

import pytest

from domain.messages import AcceptOutcome, RequestRef
from store import requests, requests_read
from store.accept import accept_collect_now
from store.binding import bind_request
from store.catalog import Reach
from store.database import Pool, transaction
from tests.support.backlog import add_attempts, add_backlog, add_history, add_requests
from tests.support.clicks import Hands, accepted, command, rounds
from tests.support.statement_log import OneConnection, plans_of, wasteful
from tests.support.world import Desktop, World

LARGE = {"monitoring_collect_tasks", "desktop_tasks", "desktop_task_attempts", "monitoring_collect_requests"}


@dataclass(frozen=True, slots=True)
class Scene:
    """A tenant with 4,000 waiting tasks, as many finished execution tasks and attempts, and 2,000 old requests."""

    world: World
    client: Desktop
    log: OneConnection

    @property
    def pool(self) -> Pool:
        """Hands out the connection that is listened to."""
        return cast(Pool, self.log)

    async def check(self, *, at_least: int) -> None:
        """What was sent since the last check, so many statements or more, read nothing whole."""
        assert len(self.log.statements) >= at_least
        assert wasteful(await plans_of(self.world.pool, self.log), LARGE) == {}
        self.log.statements.clear()


@pytest.fixture
async def scene(pool: Pool) -> AsyncIterator[Scene]:
    world = await World.create(pool)
    client = await world.client()
    await add_backlog(world, 4_000)
    await add_history(world, client.id)
    await world.plan()
    await add_attempts(world)
    await add_requests(world, 2_000)
    await world.leased(client, platform="doubao", status="in_progress")
    await world.leased(client, platform="kimi")
    await pool.execute("vacuum analyze")
    async with pool.acquire() as connection:
        yield Scene(world, client, OneConnection(connection))


async def questions(scene: Scene, count: int = 3) -> list[int]:
    return [(await scene.world.question()).id for _ in range(count)]


async def ask(scene: Scene, user_id: int = 1) -> UUID:
    return (await accepted(scene.world, question_ids=await questions(scene), user_id=user_id)).request_id


async def test_no_statement_of_a_click_and_its_request_reads_a_large_table_whole(scene: Scene) -> None:
    """One scene for all: it takes longer to build than to look at."""
    await an_accept_and_its_replay(scene)
    await a_late_binding(scene)
    for effect in EFFECTS:
        await an_effect_of_the_workflow(scene, effect)
    await the_reading_api(scene)


async def an_accept_and_its_replay(scene: Scene) -> None:
    """One that supersedes, adopts, takes back, aborts and interrupts."""
    ids = await questions(scene)
    older = await accepted(scene.world, question_ids=ids, user_id=2)
    await rounds(scene.world.pool)
    frame, *_ = await Hands(scene.world, scene.client).take()
    await Hands(scene.world, scene.client).start(frame)
    given = command(scene.world, question_ids=ids, idempotency_key="key")
    async with scene.log.listening():
        result = await accept_collect_now(scene.pool, given)
        again = await accept_collect_now(scene.pool, command(scene.world, question_ids=ids, idempotency_key="key"))
    assert (result.outcome, again.outcome) == (AcceptOutcome.ACCEPTED, AcceptOutcome.REPLAYED)
    assert (await scene.world.row("monitoring_collect_requests", older.request_id))["status"] == "superseded"
    await scene.check(at_least=35)
    await over(scene)


async def over(scene: Scene) -> None:
    """Open requests end, so that the next are not refused."""
    rows = await scene.world.pool.fetch(
        "select id from monitoring_collect_requests where status in ('accepted', 'dispatching', 'running')"
    )
    for row in rows:
        ref = RequestRef(request_id=row["id"], tenant_id=scene.world.tenant_id)
        await requests.end_request(scene.world.pool, ref)


async def a_late_binding(scene: Scene) -> None:
    await scene.world.set("desktop_clients", scene.client.id, online=False)
    request = await ask(scene)
    await scene.world.set("desktop_clients", scene.client.id, online=True)
    async with scene.log.listening(), transaction(scene.pool) as connection:
        assert await bind_request(connection, request, scene.world.tenant_id) == scene.client.id
    await scene.check(at_least=15)
    await over(scene)


EFFECTS = (
    requests.set_hint,
    requests.release_client,
    requests.force_release,
    requests.cancel_request,
    requests.withdraw_interrupts,
    requests.end_request,
)


async def an_effect_of_the_workflow(scene: Scene, effect: Any) -> None:
    """On a request that has victims, beside one that would inherit them."""
    await scene.world.leased(scene.client, platform="doubao", status="in_progress")
    request = await ask(scene)
    await ask(scene, user_id=2)
    ref = RequestRef(
        request_id=request,
        tenant_id=scene.world.tenant_id,
        client_id=scene.client.id,
        generation=2**40,
        reason="waiting_for_safe_point" if effect is requests.set_hint else None,
        waited_ms=10**9,
    )
    if effect is requests.withdraw_interrupts:
        await scene.world.set("monitoring_collect_requests", request, status="succeeded")
    async with scene.log.listening():
        counters = await effect(scene.pool, ref)
    assert counters.touched, effect
    await scene.check(at_least=9)
    await over(scene)


async def the_reading_api(scene: Scene) -> None:
    request = await ask(scene)
    await scene.world.set("monitoring_collect_requests", request, failed_task_count=1)
    reach = Reach(scene.world.tenant_id, (scene.world.workspace_id,))
    async with scene.log.listening():
        row = await requests_read.read_request(scene.pool, reach, request)
        await requests_read.read_failures(scene.pool, scene.world.tenant_id, row)
        await requests_read.list_requests(scene.pool, reach, None, None, 50)
        await requests_read.is_dispatched(scene.pool, scene.world.tenant_id, request)
    await scene.check(at_least=4)
