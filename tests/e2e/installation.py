"""A whole giveway of a test's own: database, Temporal namespace, broker names, server and worker processes."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from devstack import config, temporal
from devstack.apps import app_parts
from devstack.demo.server import Server, describe
from devstack.ports import APP_PORTS, AppPorts, PortBook
from devstack.record import Endpoints
from devstack.supervisor import Supervisor
from tests.conftest import Servers


@dataclass(frozen=True, slots=True)
class Installation:
    """The running processes, supervised as in `make up`: a killed one is started again."""

    server: Server
    supervisor: Supervisor
    state_dir: Path


@asynccontextmanager
async def install(servers: Servers, database_url: str, state_dir: Path) -> AsyncIterator[Installation]:
    """Migrate, serve and work on the session's servers, apart from every other test."""
    name = f"e2e-{uuid4().hex[:8]}"
    await temporal.prepare(servers.temporal_address, name, replace(config.load(), namespace=name))
    endpoints = Endpoints(database_url, servers.amqp_url, servers.temporal_address, None, name)
    supervisor = Supervisor(state_dir)
    supervisor.clean_up()
    book = PortBook(state_dir, {}, {})
    ports = AppPorts(**{name: book.take(name) for name in APP_PORTS})
    try:
        for part in app_parts(endpoints, state_dir, ports, _environment(name)):
            await supervisor.start(part)
        yield Installation(describe(endpoints, state_dir, ports, None), supervisor, state_dir)
    finally:
        await supervisor.stop_all()
        book.close()


def _environment(name: str) -> dict[str, str]:
    # Two shards are enough for a test, and eight residents fewer to start.
    return {**os.environ, "AMQP_PREFIX": f"{name}.", "INGEST_SHARDS": "2", "DATABASE_POOL_SIZE": "10"}
