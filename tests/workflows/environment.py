"""Two Temporal servers: one of the session's own with virtual time, and the real one that everybody uses."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from itertools import chain

import pytest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from devstack.temporal import binary
from domain.messages import SearchAttribute
from store.database import Pool
from tests.conftest import Servers
from tests.workflows.clock import Clock
from tests.workflows.stage import Stage, on_stage


def _keys() -> list[SearchAttributeKey[int] | SearchAttributeKey[str]]:
    numbers: list[SearchAttributeKey[int] | SearchAttributeKey[str]] = [
        SearchAttributeKey.for_int(SearchAttribute.GENERATION)
    ]
    words = [name for name in SearchAttribute if name is not SearchAttribute.GENERATION]
    return numbers + [SearchAttributeKey.for_keyword(name) for name in words]


# A task that is due at once waits for this long on the server, a second unless told.
PROMPT = {"history.timerProcessorMaxTimeShift": "20ms"}


def _dynamic_config() -> list[str]:
    settings = {"frontend.WorkflowTimeSkippingEnabled": True, **PROMPT}
    given = [["--dynamic-config-value", f"{name}={json.dumps(value)}"] for name, value in settings.items()]
    return list(chain.from_iterable(given))


@pytest.fixture(scope="session")
def virtual_time() -> Iterator[WorkflowEnvironment]:
    """A server whose workflows have clocks that a test moves forward."""
    environment = asyncio.run(
        WorkflowEnvironment.start_time_skipping_v2(
            data_converter=pydantic_data_converter,
            dev_server_existing_path=str(binary()),
            dev_server_log_level="error",
            search_attributes=_keys(),
            dev_server_extra_args=_dynamic_config(),
        )
    )
    yield environment
    asyncio.run(environment.shutdown())


@pytest.fixture
def clock(virtual_time: WorkflowEnvironment) -> Iterator[Clock]:
    """Moves the time of single workflows; until then they live in the real one."""
    with virtual_time.with_time_skipping_disabled():
        yield Clock(virtual_time)


@pytest.fixture
async def stage(clock: Clock, pool: Pool) -> AsyncIterator[Stage]:
    """Two questions of one brand, nothing online; the clock moves by hand."""
    async with on_stage(clock.client, pool) as opened:
        yield opened


@pytest.fixture
async def temporal(servers: Servers) -> Client:
    """A client of the real server."""
    return await Client.connect(
        servers.temporal_address, namespace=servers.temporal_namespace, data_converter=pydantic_data_converter
    )


@pytest.fixture
async def real_stage(temporal: Client, pool: Pool) -> AsyncIterator[Stage]:
    """The same on the real server, in real time."""
    async with on_stage(temporal, pool) as opened:
        yield opened
