"""The pool, transactions, and JSON at the edge."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncpg
import orjson

from telemetry.effects import counted_at_commit

if TYPE_CHECKING:
    Connection = asyncpg.pool.PoolConnectionProxy[asyncpg.Record] | asyncpg.Connection[asyncpg.Record]
    Pool = asyncpg.Pool[asyncpg.Record]
else:
    # The runtime classes take no parameters; only the stubs do.
    Connection = asyncpg.Connection
    Pool = asyncpg.Pool


CONNECT_SECONDS = 5.0
ACQUIRE_SECONDS = 10.0


def _encode(value: Any) -> str:
    return orjson.dumps(value, default=str).decode()


async def prepare_connection(connection: Any) -> None:
    """json and jsonb as Python values, on every connection of ours."""
    for kind in ("json", "jsonb"):
        await connection.set_type_codec(kind, encoder=_encode, decoder=orjson.loads, schema="pg_catalog")


async def _leave_as_it_is(_connection: Any) -> None:
    """In place of the driver's `RESET ALL`; an open transaction is rolled back all the same."""


async def open_pool(
    url: str, *, size: int = 20, name: str = "giveway", command_timeout: float = 60, stateless: bool = False
) -> Pool:
    """Open a pool of at most `size` connections; each statement is bounded to 30 s by the server.

    `stateless`: nobody changes the session, so that a connection is not reset after each use: one round trip less.
    """
    return await asyncpg.create_pool(
        url,
        min_size=1,
        max_size=size,
        init=prepare_connection,
        command_timeout=command_timeout,
        reset=_leave_as_it_is if stateless else None,
        # Of one connect: a frozen server accepts and then says nothing.
        timeout=CONNECT_SECONDS,
        server_settings={
            "application_name": name,
            "statement_timeout": "30000",
            "idle_in_transaction_session_timeout": "30000",
            "timezone": "UTC",
        },
    )


@asynccontextmanager
async def transaction(pool: Pool) -> AsyncIterator[Connection]:
    """One short READ COMMITTED transaction on a pooled connection.

    A connection cancelled inside a transaction is discarded, not returned: its state on the wire is unknown. What is
    counted inside (`telemetry.effects`) counts at the commit.
    """
    connection = await pool.acquire(timeout=ACQUIRE_SECONDS)
    try:
        with counted_at_commit():
            async with connection.transaction():
                yield connection
    except asyncio.CancelledError:
        connection.terminate()
        raise
    finally:
        await asyncio.shield(pool.release(connection))
