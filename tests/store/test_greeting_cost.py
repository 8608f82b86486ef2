"""What a herd of reconnects costs the database (ADR 0048)."""

import asyncio
from typing import Any, cast
from uuid import uuid4

from domain.hub_port import ConnectionEnd
from domain.protocol import Hello
from store.database import Pool
from store.hub_backend import StoreHubBackend
from tests.support.world import World

# Authentication, greeting and snapshot of a client without work, BEGIN and COMMIT counted.
MOST_STATEMENTS = 10


async def test_a_client_without_work_is_greeted_with_few_statements(pool: Pool) -> None:
    world = await World.create(pool)
    desktop = await world.client(online=False)
    hello = Hello(id="h", highest_generation=5)
    async with pool.acquire() as connection:
        backend = StoreHubBackend(cast(Pool, _Alone(connection)))
        await _greet(backend, desktop.token, hello)
        sent: list[str] = []
        with connection.query_logger(lambda query: sent.append(query.query)):
            await _greet(backend, desktop.token, hello)
            await asyncio.sleep(0)
    assert len(sent) <= MOST_STATEMENTS, sent


async def _greet(backend: StoreHubBackend, token: str, hello: Hello) -> None:
    client = await backend.authenticate(token)
    assert client is not None
    epoch = await backend.connected(client, hello)
    await backend.snapshot(client, epoch, [], hello.highest_generation)


class _Alone:
    """A pool of one connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def acquire(self, *, timeout: float | None = None) -> Any:
        return self._connection

    async def release(self, _connection: Any) -> None:
        return None


async def test_a_thousand_ends_are_one_statement_in_which_only_the_newest_connections_count(pool: Pool) -> None:
    world = await World.create(pool)
    await pool.execute(
        "insert into desktop_clients (id, tenant_id, workspace_id, user_id, name, token_hash, online, connection_epoch,"
        " last_heartbeat_at) select gen_random_uuid(), $1, $2, 1, 'd' || n, sha256(n::text::bytea), true, 7, now()"
        " from generate_series(1, 1000) n",
        world.tenant_id,
        world.workspace_id,
    )
    ids = [row["id"] for row in await pool.fetch("select id from desktop_clients order by id")]
    ends = [ConnectionEnd(each, 7 if number % 2 else 6, 1012) for number, each in enumerate(ids)]
    async with pool.acquire() as connection:
        backend = StoreHubBackend(cast(Pool, _Alone(connection)))
        # The driver learns the types of the arguments at the first call.
        await backend.disconnected([ConnectionEnd(uuid4(), 1, 1012)])
        sent: list[str] = []
        with connection.query_logger(lambda query: sent.append(query.query)):
            await backend.disconnected(ends)
            await asyncio.sleep(0)
    assert len(sent) == 1
    assert await pool.fetchval("select count(*) from desktop_clients where not online") == 500
