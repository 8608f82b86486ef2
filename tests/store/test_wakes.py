"""The coordinator is woken when something has become possible, and only then (1-dispatch §1.4)."""

from collections.abc import Awaitable
from typing import Any

import pytest

from domain.hub_port import ClientIdentity, HeartbeatRecord
from domain.protocol import Heartbeat
from store import leases
from store.database import Pool, transaction
from store.dispatch import read_round
from store.listen import DISPATCH
from store.presence import record_heartbeats
from store.windows import frees_in
from tests.support.world import Desktop, Lease, World, ago


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


async def wakes(world: World, call: Awaitable[Any]) -> bool:
    """Whether the call wakes the coordinator."""
    heard: list[str] = []
    async with world.pool.acquire() as connection:
        listener: Any = lambda *told: heard.append(told[2])  # noqa: E731
        await connection.add_listener(DISPATCH, listener)
        await call
        # What was sent before it comes before its answer.
        await connection.execute("select 1")
        await connection.remove_listener(DISPATCH, listener)
    return bool(heard)


def start(world: World, client: Desktop, lease: Lease) -> Awaitable[Any]:
    return leases.start(
        world.pool, leases.LeaseRef(ClientIdentity(client.id, world.tenant_id), lease.task_id, lease.token)
    )


def beat(world: World, client: Desktop, *, healthy: bool = True, **sessions: str) -> Awaitable[None]:
    frame = Heartbeat(id="b", running=[], queued=[], platform_sessions=sessions, healthy=healthy)
    return record_heartbeats(world.pool, [HeartbeatRecord(client.id, 1, frame)])


async def test_a_start_wakes_where_the_queue_was_full(world: World) -> None:
    client = await world.client()
    await world.set("desktop_clients", client.id, max_queue_depth=2)
    first, second = [await world.leased(client, platform=name) for name in ("qwen", "doubao")]
    assert await wakes(world, start(world, client, first))
    assert not await wakes(world, start(world, client, second))


async def test_a_beat_wakes_when_login_or_health_has_changed_or_the_desktop_is_back(world: World) -> None:
    client = await world.client()
    assert not await wakes(world, beat(world, client))
    assert await wakes(world, beat(world, client, qwen="login_required"))
    assert not await wakes(world, beat(world, client, qwen="login_required"))
    assert await wakes(world, beat(world, client, qwen="healthy"))
    assert await wakes(world, beat(world, client, qwen="healthy", healthy=False))
    assert await wakes(world, beat(world, client, qwen="healthy"))
    await world.set("desktop_clients", client.id, last_heartbeat_at=ago(seconds=31))
    assert await wakes(world, beat(world, client, qwen="healthy"))
    assert not await wakes(world, beat(world, client, qwen="healthy"))


async def test_a_window_frees_when_its_scheduled_part_falls_below_the_floor(world: World) -> None:
    await world.client()
    await world.setting("tenant_per_minute", 10)
    for scheduled, high, seconds in ((1, 0, 50), (1, 20, 10)):
        await world.pool.execute(
            "insert into dispatch_ledger (tenant_id, scheduled, high, at)"
            " values ($1, $2, $3, now() - make_interval(secs => $4))",
            world.tenant_id, scheduled, high, seconds,
        )  # fmt: skip
    async with transaction(world.pool) as connection:
        settings = (await read_round(connection)).settings
        full = {world.tenant_id: 10}
        assert await frees_in(connection, full) == pytest.approx(50, abs=9)
        assert await frees_in(connection, full, settings) == pytest.approx(10, abs=9)
        # Below the floor already: then something else keeps the window shut.
        await connection.execute("delete from dispatch_ledger where high = 0")
        assert await frees_in(connection, full, settings) == pytest.approx(50, abs=9)
