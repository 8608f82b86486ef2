"""A database of its own for a benchmark, on the given PostgreSQL or on an embedded one."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg

from devstack import record
from devstack.commands import STATE_DIR
from devstack.stack import Stack


@asynccontextmanager
async def own_database(on_progress: Callable[[str], None]) -> AsyncIterator[str]:
    """The address of an empty database; it is dropped afterwards.

    On the server of `DATABASE_URL`, else on that of the running stack, else on one that is started for it.
    """
    given = os.environ.get("DATABASE_URL")
    running = record.find(STATE_DIR)
    if given or running is not None:
        async with _database(given or (running.endpoints.database_url if running else "")) as url:
            yield url
        return
    STATE_DIR.mkdir(parents=True, exist_ok=True)
    async with (
        Stack(STATE_DIR, services={"postgres"}, on_progress=on_progress) as stack,
        _database(stack.endpoints.database_url) as url,
    ):
        yield url


@asynccontextmanager
async def own_database_and_broker(on_progress: Callable[[str], None]) -> AsyncIterator[tuple[str, str]]:
    """The addresses of an empty database, which is dropped afterwards, and of a broker that may be shared.

    On the servers of `DATABASE_URL` and `AMQP_URL`, else on those of the running stack, else on some started for it.
    """
    database, broker = os.environ.get("DATABASE_URL"), os.environ.get("AMQP_URL")
    running = record.find(STATE_DIR)
    if running is not None:
        database, broker = database or running.endpoints.database_url, broker or running.endpoints.amqp_url
    if database and broker:
        async with _database(database) as url:
            yield url, broker
        return
    STATE_DIR.mkdir(parents=True, exist_ok=True)
    async with (
        Stack(STATE_DIR, services={"postgres", "rabbitmq"}, on_progress=on_progress) as stack,
        _database(stack.endpoints.database_url) as url,
    ):
        yield url, stack.endpoints.amqp_url


@asynccontextmanager
async def _database(server: str) -> AsyncIterator[str]:
    name = f"giveway_bench_{uuid4().hex[:12]}"
    admin = await asyncpg.connect(urlunsplit(urlsplit(server)._replace(path="/postgres")))
    try:
        await admin.execute(f'create database "{name}"')
        try:
            yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
        finally:
            await admin.execute(f'drop database "{name}" with (force)')
    finally:
        await admin.close()
