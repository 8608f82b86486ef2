"""A database that is away is told from a statement that is wrong."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import asyncpg
import pytest

from domain.errors import DatabaseUnavailable
from domain.hub_port import ClientIdentity
from domain.ids import new_uuid
from domain.protocol import Hello
from store.database import Pool, open_pool
from store.hub_backend import StoreHubBackend
from store.outages import as_unavailable
from tests.support.waiting import until_blocked
from tests.support.world import World

TERMINATE = """
select count(pg_terminate_backend(pid)) from pg_stat_activity
where datname = current_database() and application_name = 'to-be-terminated'
"""


async def test_a_terminated_connection_makes_every_call_of_the_hub_unavailable_and_the_next_one_works(
    pool: Pool, database_url: str
) -> None:
    world = await World.create(pool)
    client = await world.client(online=False)
    identity = ClientIdentity(client.id, world.tenant_id)
    victim = await open_pool(database_url, size=1, name="to-be-terminated", stateless=True)
    backend = StoreHubBackend(victim)
    epoch = await backend.connected(identity, Hello(id="1"))
    calls: tuple[Callable[[], Coroutine[Any, Any, object]], ...] = (
        lambda: backend.authenticate(client.token),
        lambda: backend.connected(identity, Hello(id="1")),
        lambda: backend.snapshot(identity, epoch, [], 0),
        lambda: backend.pushed([new_uuid()]),
    )
    for call in calls:
        # Locked out, so that the connection ends under the call and not before it.
        async with pool.acquire() as other, other.transaction():
            await other.execute("lock table desktop_clients, desktop_tasks in access exclusive mode")
            calling = asyncio.create_task(call())
            await until_blocked(pool)
            assert await pool.fetchval(TERMINATE) == 1
            with pytest.raises(DatabaseUnavailable):
                await calling
        await call()
    victim.terminate()


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.AdminShutdownError("terminating connection"),
        asyncpg.TooManyConnectionsError("sorry, too many clients already"),
        asyncpg.InterfaceError("cannot call Transaction.__aexit__(): the underlying connection is closed"),
        asyncpg.InternalClientError("got result for unknown protocol state 3"),
        asyncpg.DeadlockDetectedError("deadlock detected"),
        asyncpg.QueryCanceledError("canceling statement due to statement timeout"),
        ConnectionRefusedError(),
        TimeoutError(),
    ],
)
async def test_what_passes_by_itself_is_unavailable(error: Exception) -> None:
    @as_unavailable
    async def call() -> None:
        raise error

    with pytest.raises(DatabaseUnavailable):
        await call()


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.UniqueViolationError("duplicate key"),
        asyncpg.UndefinedColumnError("no such column"),
        asyncpg.exceptions.DataError("invalid input for query argument"),
        KeyError("a mistake of ours"),
    ],
)
async def test_what_is_wrong_passes_as_it_is(error: Exception) -> None:
    @as_unavailable
    async def call() -> None:
        raise error

    with pytest.raises(type(error)):
        await call()
