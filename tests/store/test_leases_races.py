"""Two of heartbeat, sweep, start, revocation and result at the same moment: one wins, whole (2-desktop §2.2)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from uuid import UUID

import pytest

from activities.presence import PresenceSweeper
from domain.errors import LeaseLost
from domain.hub_port import HeartbeatRecord, SnapshotContent
from domain.protocol import Heartbeat, HeldAttempt, Hello, TaskAvailable
from store import leases, presence, residents, results
from store.database import Connection, Pool, transaction
from store.force_release import force_release
from store.hub_backend import StoreHubBackend
from store.leases import LeaseRef
from tests.support.clicks import finish, whole
from tests.support.lease_calls import identity, ref, result
from tests.support.waiting import until_blocked
from tests.support.world import Desktop, Lease, World, ago, digest

T = TypeVar("T")
NAME = "presence-sweeper/0"
PLATFORMS = ("qwen", "kimi", "doubao", "ernie")


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


@pytest.fixture
async def client(world: World) -> Desktop:
    return await world.client(max_concurrent=len(PLATFORMS))


@pytest.fixture
def hub(pool: Pool) -> StoreHubBackend:
    return StoreHubBackend(pool)


def held(lease: Lease) -> HeldAttempt:
    return HeldAttempt(task_id=str(lease.task_id), attempt_id=str(lease.attempt_id), phase="WAITING")


def beat(client: Desktop, *listed: Lease, epoch: int = 1) -> HeartbeatRecord:
    return HeartbeatRecord(client.id, epoch, Heartbeat(id="b", running=[held(lease) for lease in listed]))


async def expired(world: World, client: Desktop, status: str = "in_progress") -> Lease:
    """A lease that ran out a second ago and that nobody has noticed yet."""
    lease = await world.leased(client, status=status)
    await world.set("desktop_tasks", lease.task_id, lease_expires_at=ago(seconds=1))
    return lease


async def sweep(world: World) -> dict[str, int]:
    return await PresenceSweeper(world.pool).sweep(NAME, await residents.take(world.pool, NAME, "test"))


async def late_after(world: World, first: Callable[[Connection], Awaitable[Any]], late: Awaitable[T]) -> T:
    """The answer of `late`, which had read its rows before `first` committed, and then waited for them."""
    async with asyncio.timeout(20):
        async with transaction(world.pool) as connection:
            await first(connection)
            waiting = asyncio.ensure_future(late)
            await until_blocked(world.pool)
        return await waiting


async def test_a_beat_that_waits_while_its_client_connects_anew_extends_nothing(
    world: World, client: Desktop, hub: StoreHubBackend
) -> None:
    """Folded at one hub, the client meanwhile at another: the newer connection says what it holds."""
    lease = await expired(world, client)

    async def connects(connection: Connection) -> None:
        await presence._connect(connection, identity(world, client), Hello(id="h"), 0, "hub-b")

    await late_after(world, connects, hub.heartbeats([beat(client, lease)]))
    row = await world.execution(lease.task_id)
    assert (row["lease_expires_at"] < ago(), row["phase"]) == (True, "PREPARING")


@pytest.mark.parametrize(("status", "swept"), [("in_progress", "unknown"), ("queued", "expired")])
async def test_a_sweep_that_waits_while_the_lease_is_extended_takes_nothing_away(
    world: World, client: Desktop, status: str, swept: str
) -> None:
    lease = await expired(world, client, status)

    async def extends(connection: Connection) -> None:
        await connection.execute(leases.SQL["extend_lease"], lease.task_id, 120.0, None)

    assert (await late_after(world, extends, sweep(world)))[swept] == 0
    assert (await world.execution(lease.task_id))["status"] == status


async def test_a_beat_that_waits_while_the_sweep_finds_its_task_unknown_has_it_run_again(
    world: World, client: Desktop, hub: StoreHubBackend
) -> None:
    lease = await expired(world, client)
    await late_after(world, presence.make_expired_unknown, hub.heartbeats([beat(client, lease)]))
    row = await world.execution(lease.task_id)
    assert (row["status"], row["lease_expires_at"] > ago()) == ("in_progress", True)


async def test_a_beat_that_waits_while_the_lease_is_revoked_brings_it_not_back(
    world: World, client: Desktop, hub: StoreHubBackend
) -> None:
    lease = await world.leased(client, status="in_progress")

    async def revokes(connection: Connection) -> None:
        await force_release(connection, lease.task_id, actor="test")

    told = await late_after(world, revokes, hub.heartbeats([beat(client, lease)]))
    row = await world.execution(lease.task_id)
    assert (row["status"], row["lease_token_hash"], row["lease_expires_at"] < ago()) == ("unknown", None, True)
    assert told == {client.id: {lease.attempt_id}}


async def test_a_start_that_waits_while_the_sweep_returns_the_expired_lease_is_refused(
    world: World, client: Desktop
) -> None:
    lease = await world.leased(client)
    await world.set("desktop_tasks", lease.task_id, lease_expires_at=ago(seconds=1))
    with pytest.raises(LeaseLost):
        await late_after(world, presence.return_expired_queued, leases.start(world.pool, ref(world, client, lease)))
    business = await world.business(lease.business_id)
    assert (business["active_task_id"], business["dispatch_attempts"]) == (None, 0)


async def test_of_a_start_and_a_snapshot_that_leases_anew_one_has_the_task(
    world: World, client: Desktop, hub: StoreHubBackend
) -> None:
    """The hub that lost the client pushed the old token, the one that has it the new: never two that run."""
    old = [await world.leased(client, platform=platform) for platform in PLATFORMS]
    calls = [leases.start(world.pool, ref(world, client, lease)) for lease in old]
    one, content, *others = await asyncio.gather(
        calls[0], hub.snapshot(identity(world, client), 1, [], 0), *calls[1:], return_exceptions=True
    )
    started = [one, *others]
    assert isinstance(content, SnapshotContent)
    anew = {frame.task_id: frame for frame in content.available}
    assert [isinstance(each, LeaseLost) for each in started] == [str(lease.task_id) in anew for lease in old]
    for frame in anew.values():
        await leases.start(world.pool, lease_of(world, client, frame))
    for lease in old:
        token = anew[str(lease.task_id)].lease_token if str(lease.task_id) in anew else lease.token
        row = await world.execution(lease.task_id)
        assert (row["status"], row["lease_token_hash"]) == ("in_progress", digest(token))


def lease_of(world: World, client: Desktop, frame: TaskAvailable) -> LeaseRef:
    return LeaseRef(identity(world, client), UUID(frame.task_id), frame.lease_token)


async def test_a_result_that_is_published_while_its_lease_is_given_up_counts_once(
    world: World, client: Desktop
) -> None:
    """Found in time; then the lease ran out and its client was lost, which counts an attempt; then it was marked."""
    lease = await expired(world, client)
    target = await results.find_attempt_for_result(world.pool, identity(world, client), lease.task_id, result(lease))
    assert (await sweep(world))["unknown"] == 1
    await world.set("desktop_clients", client.id, last_heartbeat_at=ago(seconds=31))
    assert (await sweep(world))["resolved"] == 1
    assert await results.mark_result_received(world.pool, target, {})
    await finish(world, lease.attempt_id)
    business = await world.business(lease.business_id)
    assert (business["status"], business["dispatch_attempts"]) == ("completed", 1)
    assert await whole(world)


async def test_a_result_that_is_marked_while_the_sweep_waits_is_not_swept(world: World, client: Desktop) -> None:
    lease = await expired(world, client)

    async def marks(connection: Connection) -> None:
        await connection.execute(results.SQL["mark_task_received"], lease.task_id, lease.attempt_id)

    assert (await late_after(world, marks, sweep(world)))["unknown"] == 0
    assert (await world.execution(lease.task_id))["status"] == "in_progress"


async def test_when_the_newer_attempt_has_answered_a_late_answer_is_kept_as_a_fact_and_counts_nothing(
    world: World, client: Desktop
) -> None:
    """It was published while both ran: the newer one's came to ingest first."""
    other, batch = await world.client(), await world.batch()
    late = await world.leased(client, status="in_progress", batch_id=batch)
    await world.set("desktop_tasks", late.task_id, status="aborted", lease_expires_at=None)
    await world.set("desktop_task_attempts", late.attempt_id, outcome="revoked", ended_at=ago(seconds=1))
    target = await results.find_attempt_for_result(world.pool, identity(world, client), late.task_id, result(late))
    newer = await world.execution_task(late.business_id, other.id)
    content = await StoreHubBackend(world.pool).snapshot(identity(world, other), 1, [], 0)
    [frame] = content.available
    await leases.start(world.pool, LeaseRef(identity(world, other), newer, frame.lease_token))
    await finish(world, frame.attempt_id)
    assert await results.mark_result_received(world.pool, target, {})
    await finish(world, late.attempt_id)
    assert (await world.attempt(late.attempt_id))["outcome"] == "succeeded"
    assert (await world.row("scheduled_batches", batch))["completed_count"] == 1
