"""Leases whose tokens were lost on their way: committed, and the hub never heard of it (2-desktop §2.1, §2.2)."""

from collections.abc import Sequence
from uuid import UUID

import pytest

from domain.errors import DatabaseUnavailable, LeaseLost
from domain.hub_port import ClientIdentity, GrantAnswer, GrantRequest, SnapshotContent
from domain.protocol import HeldAttempt, Snapshot, TaskAvailable
from store import leases
from store.database import Pool
from store.hub_backend import StoreHubBackend
from store.leases import LeaseRef
from tests.hub.conftest import Desk, MakeRig, Rig
from tests.support.world import Desktop, World


class Forgetful(StoreHubBackend):
    """Commits the named calls, and loses the answer of the first of each with its connection."""

    def __init__(self, pool: Pool, *calls: str) -> None:
        super().__init__(pool)
        self.left = set(calls)

    def lose(self, call: str) -> None:
        if call in self.left:
            self.left.remove(call)
            raise DatabaseUnavailable("the connection was lost after the commit")

    async def grant(self, requests: Sequence[GrantRequest]) -> list[GrantAnswer]:
        answers = await super().grant(requests)
        self.lose("grant")
        return answers

    async def snapshot(
        self, client: ClientIdentity, epoch: int, held: Sequence[HeldAttempt], highest_generation: int
    ) -> SnapshotContent:
        content = await super().snapshot(client, epoch, held, highest_generation)
        self.lose("snapshot")
        return content


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


@pytest.fixture
async def client(world: World) -> Desktop:
    return await world.client(online=False)


async def connected(rig: Rig, world: World, client: Desktop) -> Desk:
    return await rig.desk((client.token, ClientIdentity(client.id, world.tenant_id)))


async def check_leased_anew(world: World, desk: Desk, task: UUID, frame: TaskAvailable, attempts: int) -> None:
    """The frame's is the one lease: the lost ones are over and count nothing."""
    rows = await world.pool.fetch(
        "select outcome, token_hash from desktop_task_attempts where task_id = $1 order by attempt", task
    )
    assert (frame.task_id, frame.attempt) == (str(task), attempts)
    assert [row["outcome"] for row in rows] == [*["replaced"] * (attempts - 1), None]
    started = await leases.start(world.pool, LeaseRef(desk.client, task, frame.lease_token))
    business = await world.business((await world.execution(task))["monitor_task_id"])
    assert (started.status, business["dispatch_attempts"]) == ("in_progress", 0)


async def test_a_grant_that_committed_and_was_lost_is_leased_anew_by_a_snapshot_at_once(
    world: World, client: Desktop, make_rig: MakeRig
) -> None:
    rig = await make_rig(over=Forgetful(world.pool, "grant"))
    desk = await connected(rig, world, client)
    await desk.hello()
    task = await world.execution_task(await world.business_task(), client.id)
    await rig.hint(desk.client, task)
    snapshot = await desk.next(Snapshot)
    assert [frame for frame in desk.seen if isinstance(frame, TaskAvailable)] == []
    [frame] = snapshot.available
    await check_leased_anew(world, desk, task, frame, attempts=2)


async def test_a_snapshot_that_committed_and_was_lost_is_taken_again(
    world: World, client: Desktop, make_rig: MakeRig
) -> None:
    rig = await make_rig(over=Forgetful(world.pool, "snapshot"))
    task = await world.execution_task(await world.business_task(), client.id)
    desk = await connected(rig, world, client)
    [frame] = (await desk.hello()).available
    await check_leased_anew(world, desk, task, frame, attempts=2)


async def test_a_frame_that_was_written_and_never_read_is_leased_anew_by_the_next_connection(
    world: World, client: Desktop, make_rig: MakeRig
) -> None:
    """The token that was on the wire is nobody's from then on."""
    rig = await make_rig(over=StoreHubBackend(world.pool))
    task = await world.execution_task(await world.business_task(), client.id)
    first = await connected(rig, world, client)
    [lost] = (await first.hello()).available
    second = await connected(rig, world, client)
    [frame] = (await second.hello()).available
    with pytest.raises(LeaseLost):
        await leases.start(world.pool, LeaseRef(first.client, task, lost.lease_token))
    await check_leased_anew(world, second, task, frame, attempts=2)
