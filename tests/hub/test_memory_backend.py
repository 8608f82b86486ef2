"""The backend that the hub's tests use keeps the port's contract."""

from uuid import UUID

import pytest

from tests.hub.backend_contract import BackendContract, BackendWorld
from tests.hub.memory_backend import MemoryBackend


class TestMemoryBackend(BackendContract):
    @pytest.fixture
    async def world(self) -> BackendWorld:
        backend = MemoryBackend()
        token, client = backend.register()

        async def queue_task() -> UUID:
            return backend.queue(client)

        return BackendWorld(backend, token, queue_task)
