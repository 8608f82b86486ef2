"""The servers that operators' commands talk to: the database, and Temporal for orders to workflows."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from commands.common import running_settings

if TYPE_CHECKING:
    from api.processes import TemporalProcesses
    from store.database import Pool


@asynccontextmanager
async def open_database(name: str) -> AsyncIterator["Pool"]:
    """A small pool on the running installation's database, named after the command."""
    from store.database import open_pool

    pool = await open_pool(running_settings().database_url, size=2, name=f"giveway-{name}")
    try:
        yield pool
    finally:
        await pool.close()


async def connect_processes() -> "TemporalProcesses":
    """Orders to workflows. DispatchUnavailable comes from the first order when Temporal is away, not from here."""
    from temporalio.client import Client
    from temporalio.contrib.pydantic import pydantic_data_converter

    from api.processes import TemporalProcesses

    settings = running_settings()
    client = await Client.connect(
        settings.temporal_address,
        namespace=settings.temporal_namespace,
        data_converter=pydantic_data_converter,
        lazy=True,
    )
    return TemporalProcesses(client)
