"""Which leases a heartbeat extends, and which not, whatever it lists (2-desktop §2.2)."""

import pytest

from activities.presence import PresenceSweeper
from domain.hub_port import HeartbeatRecord
from domain.ids import new_uuid
from domain.protocol import LEASE_SECONDS, Heartbeat, HeldAttempt
from store import residents
from store.database import Pool
from store.hub_backend import StoreHubBackend
from tests.support.clicks import rounds, task_of_today
from tests.support.lease_calls import identity
from tests.support.world import Desktop, Lease, World

SOON = "update desktop_tasks set lease_expires_at = now() + interval '5 seconds' where id = any($1::uuid[])"
LEFT = "select extract(epoch from lease_expires_at - now())::float8 from desktop_tasks where id = $1"


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


@pytest.fixture
async def client(world: World) -> Desktop:
    return await world.client()


@pytest.fixture
def hub(pool: Pool) -> StoreHubBackend:
    return StoreHubBackend(pool)


def held(lease: Lease, state: str = "queued") -> HeldAttempt:
    return HeldAttempt(task_id=str(lease.task_id), attempt_id=str(lease.attempt_id), state=state)


def beat(client: Desktop, *queued: HeldAttempt, running: tuple[HeldAttempt, ...] = ()) -> HeartbeatRecord:
    return HeartbeatRecord(client.id, 1, Heartbeat(id="b", running=list(running), queued=list(queued)))


async def run_low(world: World, *leases: Lease) -> None:
    """Five seconds are left of each."""
    await world.pool.execute(SOON, [lease.task_id for lease in leases])


async def left(world: World, lease: Lease) -> float:
    """Seconds until the lease runs out, by the database's clock."""
    return float(await world.pool.fetchval(LEFT, lease.task_id))


async def test_a_beat_that_lists_an_attempt_which_was_leased_anew_extends_nothing_and_is_told(
    world: World, client: Desktop, hub: StoreHubBackend
) -> None:
    old = await world.leased(client)
    [fresh] = (await hub.snapshot(identity(world, client), 1, [], 0)).available
    await run_low(world, old)
    assert await hub.heartbeats([beat(client, held(old))]) == {client.id: {old.attempt_id}}
    assert await left(world, old) < 6
    listed = HeldAttempt(task_id=fresh.task_id, attempt_id=fresh.attempt_id, state="queued")
    assert await hub.heartbeats([beat(client, listed)]) == {}
    assert await left(world, old) > LEASE_SECONDS - 10


async def test_a_frame_full_of_attempts_that_nobody_has_extends_the_clients_own_and_nothing_else(
    world: World, client: Desktop, hub: StoreHubBackend
) -> None:
    """As many as fit a frame of 64 KB, several times over, with everybody's ids among them and some twice."""
    other, stranger = await world.client(), await World.create(world.pool, "Stranger")
    mine = await world.leased(client)
    theirs, foreign = await world.leased(other), await stranger.leased(await stranger.client())
    await run_low(world, mine, theirs, foreign)
    invented = [HeldAttempt(task_id=str(new_uuid()), attempt_id=str(new_uuid())) for _ in range(2000)]
    crossed = HeldAttempt(task_id=str(theirs.task_id), attempt_id=str(mine.attempt_id))
    full = beat(client, held(mine), held(theirs), held(foreign), held(mine), crossed, *invented)
    assert await hub.heartbeats([full]) == {}
    assert await left(world, mine) > LEASE_SECONDS - 10
    assert [await left(world, each) < 6 for each in (theirs, foreign)] == [True, True]


async def test_what_waits_on_a_busy_desktop_keeps_its_lease_as_long_as_it_is_listed(
    world: World, client: Desktop, hub: StoreHubBackend
) -> None:
    running, listed = await world.leased(client, status="in_progress"), await world.leased(client)
    await run_low(world, running, listed)
    await hub.heartbeats([beat(client, held(listed), running=(held(running, "running"),))])
    assert min([await left(world, running), await left(world, listed)]) > LEASE_SECONDS - 10
    forgotten = await world.leased(client)
    await world.pool.execute("update desktop_tasks set lease_expires_at = now() where id = $1", forgotten.task_id)
    assert (await sweep(world))["expired"] == 1
    assert (await world.execution(listed.task_id))["status"] == "queued"


async def test_a_local_queue_deeper_than_the_limit_is_kept_and_gets_nothing_more(
    world: World, client: Desktop, hub: StoreHubBackend
) -> None:
    """The limit was lowered: it bounds what is dispatched, and takes nothing away from a desktop that is at work."""
    deep = [await world.leased(client, platform=name) for name in ("kimi", "doubao", "ernie")]
    await world.set("desktop_clients", client.id, max_queue_depth=1)
    waiting = await task_of_today(world)
    await run_low(world, *deep)
    assert await hub.heartbeats([beat(client, *map(held, deep))]) == {}
    content = await hub.snapshot(identity(world, client), 1, [held(lease) for lease in deep], 0)
    assert ([verdict.valid for verdict in content.held], content.available) == ([True] * 3, [])
    assert min([await left(world, lease) for lease in deep]) > LEASE_SECONDS - 10
    assert await rounds(world.pool) == 0
    await world.set("desktop_clients", client.id, max_queue_depth=4)
    assert await rounds(world.pool) == 1
    assert (await world.business(waiting))["active_task_id"] is not None


async def sweep(world: World) -> dict[str, int]:
    name = "presence-sweeper/0"
    return await PresenceSweeper(world.pool).sweep(name, await residents.take(world.pool, name, "test"))
