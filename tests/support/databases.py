"""Fresh databases for tests: cloned from a migrated template ahead of need, and emptied for the next test.

A clone takes longer than most tests. A database whose schema a test changed, or that it filled, is dropped instead.
"""

import asyncio
import queue
import threading
from typing import Final
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg

AHEAD: Final = 4
# More than this over the template, and emptied tables would no longer be like new ones.
MAX_GROWTH_BYTES: Final = 3_000_000
SEEDED: Final = ("ai_platforms", "platform_settings")

SHAPE: Final = """
select (select count(*) from pg_class where relnamespace = 'public'::regnamespace) as classes,
    (select count(*) from pg_constraint where connamespace = 'public'::regnamespace) as constraints,
    (select count(*) from pg_trigger) as triggers, (select count(*) from pg_rules) as rules,
    (select count(*) from pg_proc where pronamespace = 'public'::regnamespace) as functions,
    (select count(*) from pg_attribute a join pg_class c on c.oid = a.attrelid
     where c.relnamespace = 'public'::regnamespace and not a.attisdropped) as columns
"""
# What a connection says that was cut while nobody looked.
BROKEN: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
EMPTY: Final = """
do $$
declare t text; s text;
begin
    set local session_replication_role = replica;
    for t in select tablename from pg_tables where schemaname = 'public' and tablename <> 'alembic_version' loop
        execute format('delete from %I', t);
    end loop;
    for s in select format('%I', sequencename) from pg_sequences
             where schemaname = 'public' and last_value is not null loop
        perform setval(s, 1, false);
    end loop;
end $$
"""


class DatabaseFarm:
    """A thread of its own makes databases ready while tests run."""

    def __init__(self, admin_url: str, template: str) -> None:
        self._admin_url = admin_url
        self._template = template
        self._ready: queue.Queue[str | BaseException] = queue.Queue()
        self._used: queue.Queue[str] = queue.Queue()
        # One to each database, kept: a new one would read the catalog anew, which costs more than emptying the tables.
        self._connections: dict[str, asyncpg.Connection[asyncpg.Record]] = {}
        self._wanted = threading.Semaphore(AHEAD)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="databases", daemon=True)

    def start(self) -> None:
        """Begin to make databases."""
        self._thread.start()

    def take(self) -> str:
        """The name of a fresh database."""
        name = self._ready.get(timeout=60)
        if isinstance(name, BaseException):
            raise name
        return name

    def give_back(self, name: str) -> None:
        """The test is over."""
        self._used.put(name)
        self._wanted.release()

    def stop(self) -> None:
        """Drop everything."""
        self._stopping.set()
        self._thread.join(timeout=60)

    async def _run(self) -> None:
        admin = await asyncpg.connect(self._admin_url)
        try:
            await self._learn()
            while not self._stopping.is_set():
                if self._wanted.acquire(timeout=0.05):
                    self._ready.put(await self._next(admin))
            await self._drop_all(admin)
        finally:
            await admin.close()

    def _url(self, name: str) -> str:
        return urlunsplit(urlsplit(self._admin_url)._replace(path=f"/{name}"))

    async def _learn(self) -> None:
        """What a fresh database looks like: its shape, its size, the rows that the migration put there."""
        connection = await asyncpg.connect(self._url(self._template))
        self._shape = await connection.fetchrow(SHAPE)
        self._size = await connection.fetchval("select pg_database_size(current_database())")
        self._seeds = {
            table: await connection.fetchval(f"select jsonb_agg(to_jsonb(t))::text from {table} t") for table in SEEDED
        }
        await connection.close()

    async def _next(self, admin: "asyncpg.Connection[asyncpg.Record]") -> str | BaseException:
        """A used database emptied, else a new clone."""
        try:
            if not self._used.empty():
                name = self._used.get()
                if await self._emptied(admin, name):
                    return name
                await self._drop(admin, name)
            name = f"giveway_{uuid4().hex}"
            await admin.execute(f'create database "{name}" template "{self._template}"')
        except (asyncpg.PostgresError, OSError) as error:
            return error
        return name

    async def _emptied(self, admin: "asyncpg.Connection[asyncpg.Record]", name: str) -> bool:
        """Empty the database; False when it is not worth it: another shape, too large, or somebody holds on to it."""
        try:
            connection = await self._connection(name)
            await admin.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and pid <> $2",
                name,
                connection.get_server_pid(),
            )
            size = await connection.fetchval("select pg_database_size(current_database())")
            if await connection.fetchrow(SHAPE) != self._shape or size > self._size + MAX_GROWTH_BYTES:
                return False
            async with connection.transaction():
                await connection.execute("set local lock_timeout = '2s'")
                await connection.execute(EMPTY)
                for table, rows in self._seeds.items():
                    await connection.execute(
                        f"insert into {table} select * from jsonb_populate_recordset(null::{table}, $1::text::jsonb)",
                        rows,
                    )
            return True
        except BROKEN:
            return False

    async def _connection(self, name: str) -> "asyncpg.Connection[asyncpg.Record]":
        """Ours to this database; a test may have cut it."""
        connection = self._connections.get(name)
        if connection is None or connection.is_closed():
            connection = self._connections[name] = await asyncpg.connect(self._url(name))
        return connection

    async def _drop(self, admin: "asyncpg.Connection[asyncpg.Record]", name: str) -> None:
        if (connection := self._connections.pop(name, None)) is not None:
            connection.terminate()
        await admin.execute(f'drop database if exists "{name}" with (force)')

    async def _drop_all(self, admin: "asyncpg.Connection[asyncpg.Record]") -> None:
        for names in (self._ready, self._used):
            while not names.empty():
                await self._drop(admin, str(names.get()))
