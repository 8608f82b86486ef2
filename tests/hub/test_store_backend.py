"""PostgreSQL behind the hub keeps the same contract as the backend of the hub's own tests."""

from functools import partial
from uuid import UUID, uuid4

import pytest

from domain.hub_port import ClientIdentity
from store.database import Pool, transaction
from store.hub_backend import StoreHubBackend
from store.proxy_calls import open_call
from tests.hub.backend_contract import BackendContract, BackendWorld
from tests.hub.memory_backend import a_request
from tests.support.world import World


class TestStoreHubBackend(BackendContract):
    @pytest.fixture
    async def world(self, pool: Pool) -> BackendWorld:
        data = await World.create(pool)
        desktop, other = [await data.client(online=False) for _ in range(2)]

        async def queue(client_id: UUID) -> UUID:
            return await data.execution_task(await data.business_task(client_id=client_id), client_id)

        async def open_one() -> UUID:
            call_id = uuid4()
            async with transaction(pool) as connection:
                await open_call(connection, ClientIdentity(desktop.id, data.tenant_id), a_request(call_id))
            return call_id

        return BackendWorld(
            StoreHubBackend(pool),
            desktop.token,
            partial(queue, desktop.id),
            other.token,
            partial(queue, other.id),
            open_one,
        )
