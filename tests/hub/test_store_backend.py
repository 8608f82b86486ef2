"""PostgreSQL behind the hub keeps the same contract as the backend of the hub's own tests."""

from uuid import UUID

import pytest

from store.database import Pool
from store.hub_backend import StoreHubBackend
from tests.hub.backend_contract import BackendContract, BackendWorld
from tests.support.world import World


class TestStoreHubBackend(BackendContract):
    @pytest.fixture
    async def world(self, pool: Pool) -> BackendWorld:
        data = await World.create(pool)
        desktop = await data.client(online=False)

        async def queue_task() -> UUID:
            return await data.execution_task(await data.business_task(client_id=desktop.id), desktop.id)

        return BackendWorld(StoreHubBackend(pool), desktop.token, queue_task)
