"""The worker starts the coordinators that a raised setting asks for, on the real server (1-dispatch §1.4, §1.9)."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

import worker
from devstack import config, temporal
from settings import Settings
from store.database import Pool
from tests.conftest import Servers
from tests.support.world import World


@pytest.fixture
async def resources(servers: Servers, pool: Pool) -> worker.Resources:
    """What keeping residents needs, in a namespace of its own; nobody works there."""
    name = f"kept-{uuid4().hex[:8]}"
    await temporal.prepare(servers.temporal_address, name, replace(config.load(), namespace=name))
    client = await Client.connect(servers.temporal_address, namespace=name, data_converter=pydantic_data_converter)
    return cast(worker.Resources, SimpleNamespace(settings=Settings(ingest_shards=1), pool=pool, temporal=client))


async def running(client: Client) -> set[str]:
    return {found.id async for found in client.list_workflows("WorkflowType = 'Resident'")}


async def wait_for(client: Client, wanted: set[str]) -> None:
    async with asyncio.timeout(30):
        while not wanted <= await running(client):
            await asyncio.sleep(0.1)


async def test_a_raised_number_of_coordinators_is_started(
    resources: worker.Resources, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "KEEP_SECONDS", 0.1)
    world = await World.create(pool)
    keeping: asyncio.Task[Any] = asyncio.create_task(worker.keep_residents(resources))
    try:
        await wait_for(resources.temporal, {"resident/coordinator/0", "resident/presence/0", "resident/ingest/0"})
        assert "resident/coordinator/1" not in await running(resources.temporal)
        await world.setting("coordinator_shards", 3)
        await wait_for(resources.temporal, {"resident/coordinator/1", "resident/coordinator/2"})
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        for workflow_id in await running(resources.temporal):
            await resources.temporal.get_workflow_handle(workflow_id).terminate()
