"""Every statement of a desktop's lease calls finds its rows by an index, whatever the history (2-desktop §2.2)."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, cast

import pytest

from domain.desktop_calls import CancelCall, InterruptAckCall, ResultCall
from domain.errors import StaleGeneration
from domain.hub_port import ClientIdentity, GrantRequest
from domain.ids import new_uuid
from domain.phases import Phase
from domain.protocol import HeldAttempt, Hello
from store import leases, presence, results, snapshots
from store.database import Pool
from tests.support.backlog import add_attempts, add_backlog, add_history, add_requests
from tests.support.clicks import accepted
from tests.support.statement_log import OneConnection, plans_of, wasteful
from tests.support.world import Desktop, Lease, World

LARGE = {"monitoring_collect_tasks", "desktop_tasks", "desktop_task_attempts", "monitoring_collect_requests"}


@dataclass(frozen=True, slots=True)
class Scene:
    """A desktop with 4,000 finished tasks and attempts behind it, in a tenant with 4,000 that wait."""

    world: World
    client: Desktop
    log: OneConnection

    @property
    def pool(self) -> Pool:
        return cast(Pool, self.log)

    @property
    def identity(self) -> ClientIdentity:
        return ClientIdentity(self.client.id, self.world.tenant_id)

    def lease(self, held: Lease) -> leases.LeaseRef:
        return leases.LeaseRef(self.identity, held.task_id, held.token)

    async def check(self) -> None:
        """What was sent since the last check read nothing whole."""
        assert self.log.statements
        assert wasteful(await plans_of(self.world.pool, self.log), LARGE) == {}
        self.log.statements.clear()


@pytest.fixture
async def scene(pool: Pool) -> AsyncIterator[Scene]:
    world = await World.create(pool)
    client = await world.client(max_concurrent=4)
    await add_backlog(world, 4_000)
    await add_history(world, client.id)
    await add_attempts(world)
    await add_requests(world, 2_000)
    await pool.execute("vacuum analyze")
    async with pool.acquire() as connection:
        yield Scene(world, client, OneConnection(connection))


async def running(scene: Scene, platform: str, **more: Any) -> Lease:
    return await scene.world.leased(scene.client, status="in_progress", platform=platform, **more)


async def test_no_statement_of_a_lease_call_reads_a_large_table_whole(scene: Scene) -> None:
    """One scene for all: it takes longer to build than to look at."""
    await a_connection_its_snapshot_and_its_grants(scene)
    await start_and_extend(scene)
    await a_result(scene)
    await cancel_and_acknowledge(scene)


async def start_and_extend(scene: Scene) -> None:
    held = await scene.world.leased(scene.client)
    async with scene.log.listening():
        await leases.start(scene.pool, scene.lease(held))
        await leases.extend(scene.pool, scene.lease(held), Phase.WAITING)
    await scene.check()


async def cancel_and_acknowledge(scene: Scene) -> None:
    """Given back before the start, given way after an interrupt, and with an older generation."""
    victim = await running(scene, "doubao")
    await scene.world.plan()
    await accepted(scene.world, question_ids=[(await scene.world.question()).id])
    waiting = await scene.world.leased(scene.client, platform="ernie")
    async with scene.log.listening():
        await leases.cancel(scene.pool, scene.lease(waiting), CancelCall(lease_token=waiting.token, reason="busy"))
        stale = InterruptAckCall(lease_token=victim.token, interrupt_generation=0)
        with pytest.raises(StaleGeneration):
            await leases.acknowledge_interrupt(scene.pool, scene.identity, victim.task_id, stale)
        fresh = InterruptAckCall(lease_token=victim.token, interrupt_generation=1, phase=Phase.NAVIGATING)
        await leases.acknowledge_interrupt(scene.pool, scene.identity, victim.task_id, fresh)
    await scene.check()


async def a_result(scene: Scene) -> None:
    held = await running(scene, "doubao")
    call = ResultCall(lease_token=held.token, attempt_id=held.attempt_id, outcome="succeeded", raw="{}")
    async with scene.log.listening():
        target = await results.find_attempt_for_result(scene.pool, scene.identity, held.task_id, call)
        await results.mark_result_received(scene.pool, target, {}, 1000.0)
    await scene.check()


async def a_connection_its_snapshot_and_its_grants(scene: Scene) -> None:
    kept, lost, waiting = (
        await running(scene, "doubao"),
        await running(scene, "kimi"),
        await scene.world.leased(scene.client),
    )
    held = [HeldAttempt(task_id=str(kept.task_id), attempt_id=str(kept.attempt_id), phase="WAITING")]
    async with scene.log.listening():
        epoch = await presence.connect(scene.pool, scene.identity, Hello(id="1", held=held))
        await snapshots.take_snapshot(scene.pool, scene.identity, epoch, held, 0)
        await snapshots.mark_pushed(scene.pool, [waiting.task_id])
        hinted = [await scene.world.execution_task(await scene.world.business_task(), scene.client.id) for _ in "12"]
        others = [GrantRequest(ClientIdentity(new_uuid(), scene.world.tenant_id), 1, (new_uuid(),)) for _ in range(50)]
        mine = GrantRequest(scene.identity, epoch, tuple(hinted))
        [answer, *_] = await snapshots.grant_leases(scene.pool, [mine, *others])
        assert len(answer.frames) == 2
    assert (await scene.world.execution(lost.task_id))["status"] == "failed"
    await scene.check()
