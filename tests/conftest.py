"""One set of real servers a run, a database of its own for each test (cloned from a migrated template).

Servers named by DATABASE_URL, AMQP_URL and TEMPORAL_ADDRESS are used; what is missing runs from devstack.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import hypothesis
import pytest

from leave import leave
from store.database import Pool, open_pool
from store.migrate import migrate
from tests.support.databases import DatabaseFarm
from tests.support.session_stack import FrontDesk, Servers, StackThread, Ticket, ask, given_servers

__all__ = ["Servers"]

# Fixtures of more than one folder.
pytest_plugins = ["tests.support.broker"]

# How long an example takes is the machine's affair.
hypothesis.settings.register_profile("giveway", hypothesis.settings(), deadline=None)
hypothesis.settings.load_profile("giveway")

EXIT_STATUS = pytest.StashKey[int]()
FRONT_DESK = pytest.StashKey[FrontDesk]()

# The longest tests, first: begun last they would keep one worker busy when the others are done.
LONGEST = ("tests/e2e/", "tests/faults/", "tests/bench/")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores, since a test waits for servers about as long as it computes."""
    return min((os.cpu_count() or 1) + 1, 8)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """In xdist's controller, before it starts a worker: tell it where to ask for the run's servers."""
    if FRONT_DESK not in node.config.stash:
        node.config.stash[FRONT_DESK] = FrontDesk()
    node.workerinput["front_desk"] = asdict(node.config.stash[FRONT_DESK].ticket)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Among several workers the longest tests come first; alone, everything in the order of the folders."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Keep the status for the one way out."""
    session.config.stash[EXIT_STATUS] = int(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Tests that ran workflows leave as the commands do: the interpreter's end must not change the result."""
    if FRONT_DESK in config.stash:
        config.stash[FRONT_DESK].close()
    if EXIT_STATUS in config.stash:
        leave(config.stash[EXIT_STATUS])


def database_named(url: str, name: str) -> str:
    """The same server, another database."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


@pytest.fixture(scope="session")
def servers(pytestconfig: pytest.Config) -> Iterator[Servers]:
    """The run's PostgreSQL, RabbitMQ and Temporal."""
    if given := given_servers():
        yield given
        return
    if told := getattr(pytestconfig, "workerinput", None):
        yield ask(Ticket(**told["front_desk"]))
        return
    stack = StackThread()
    yield stack.servers()
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
