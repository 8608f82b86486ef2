"""Silence while the database was away is nobody's own (2-desktop §2.1)."""

from typing import Any, cast

import pytest

from activities.presence import PresenceSweeper
from store import residents
from store.database import Pool
from tests.support.world import World, ago

NAME = "presence-sweeper/0"


class Outage:
    """A pool whose database is away while `away`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.away = False

    async def acquire(self, *, timeout: float | None = None) -> Any:
        if self.away:
            raise ConnectionRefusedError
        return await self._pool.acquire(timeout=timeout)

    async def release(self, connection: Any) -> None:
        await self._pool.release(connection)


@pytest.mark.parametrize(("patience", "lost"), [(3600.0, None), (0.0, 1)])
async def test_after_an_outage_clients_have_time_to_be_heard_before_they_are_lost(
    pool: Pool, patience: float, lost: int | None
) -> None:
    world, outage = await World.create(pool), Outage(pool)
    sweeper, epoch = PresenceSweeper(cast(Pool, outage), patience=patience), await residents.take(pool, NAME, "test")
    assert (await sweeper.sweep(NAME, epoch))["lost"] == 0
    client = await world.client()
    outage.away = True
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            await sweeper.sweep(NAME, epoch)
    await world.set("desktop_clients", client.id, last_heartbeat_at=ago(seconds=40))
    outage.away = False
    changed = await sweeper.sweep(NAME, epoch)
    assert changed.get("lost") == lost
    # Everything else goes on.
    assert changed["expired"] == 0


async def test_without_an_outage_a_silent_client_is_lost_at_once(pool: Pool) -> None:
    world, sweeper = await World.create(pool), PresenceSweeper(pool)
    client = await world.client()
    await world.set("desktop_clients", client.id, last_heartbeat_at=ago(seconds=31))
    assert (await sweeper.sweep(NAME, await residents.take(pool, NAME, "test")))["lost"] == 1
