"""One set of real servers a session, a database of its own for each test (cloned from a migrated template).

Servers named by DATABASE_URL, AMQP_URL and TEMPORAL_ADDRESS are used; what is missing runs from devstack.
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from leave import leave
from store.database import Pool, open_pool
from store.migrate import migrate
from tests.support.databases import DatabaseFarm

# Fixtures of more than one folder.
pytest_plugins = ["tests.support.broker"]

EXIT_STATUS = pytest.StashKey[int]()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Keep the status for the one way out."""
    session.config.stash[EXIT_STATUS] = int(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Tests that ran workflows leave as the commands do: the interpreter's end must not change the result."""
    if EXIT_STATUS in config.stash:
        leave(config.stash[EXIT_STATUS])


STATE_DIR = Path(__file__).resolve().parent.parent / ".giveway" / "test"


@dataclass(frozen=True, slots=True)
class Servers:
    """Addresses of the real parts."""

    database_url: str
    amqp_url: str
    temporal_address: str
    temporal_namespace: str = "giveway"


def database_named(url: str, name: str) -> str:
    """The same server, another database."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


class StackThread:
    """Runs the embedded stack in an event loop of its own, since the fixtures of a session outlive each test's loop."""

    def __init__(self) -> None:
        self._started = threading.Event()
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: BaseException | None = None
        self.servers: Servers | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="stack")

    async def _run(self) -> None:
        from devstack.stack import Stack

        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with Stack(STATE_DIR) as stack:
                ends = stack.endpoints
                self.servers = Servers(ends.database_url, ends.amqp_url, ends.temporal_address, ends.temporal_namespace)
                self._started.set()
                await self._stop.wait()
        except BaseException as error:
            self._failure = error
            raise
        finally:
            self._started.set()

    def start(self) -> Servers:
        self._thread.start()
        self._started.wait()
        if self.servers is None:
            raise RuntimeError(f"the embedded stack did not start: {self._failure}")
        return self.servers

    def stop(self) -> None:
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout=60)


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """The session's PostgreSQL, RabbitMQ and Temporal."""
    given = [os.environ.get(name) for name in ("DATABASE_URL", "AMQP_URL", "TEMPORAL_ADDRESS")]
    if given[0] and given[1] and given[2]:
        yield Servers(given[0], given[1], given[2])
        return
    stack = StackThread()
    yield stack.start()
    stack.stop()


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@pytest.fixture(scope="session")
def template_database(servers: Servers) -> Iterator[str]:
    """Name of a migrated database that tests are cloned from."""
    name = f"giveway_template_{os.getpid()}"
    admin = database_named(servers.database_url, "postgres")
    asyncio.run(_execute(admin, f'create database "{name}"'))
    migrate(database_named(servers.database_url, name))
    yield name
    asyncio.run(_execute(admin, f'drop database "{name}" with (force)'))


@pytest.fixture(scope="session")
def databases(servers: Servers, template_database: str) -> Iterator[DatabaseFarm]:
    """Clones of the template, made ahead of need."""
    farm = DatabaseFarm(database_named(servers.database_url, "postgres"), template_database)
    farm.start()
    yield farm
    farm.stop()


@pytest.fixture
def database_url(servers: Servers, databases: DatabaseFarm) -> Iterator[str]:
    """A fresh migrated database."""
    name = databases.take()
    yield database_named(servers.database_url, name)
    databases.give_back(name)


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    """A pool on the test's own database."""
    opened = await open_pool(database_url, size=10, name="giveway-test")
    yield opened
    opened.terminate()
