"""The backend that the hub's tests use keeps the port's contract."""

from uuid import UUID

import pytest

from tests.hub.backend_contract import BackendContract, BackendWorld
from tests.hub.memory_backend import MemoryBackend


class TestMemoryBackend(BackendContract):
    @pytest.fixture
    async def world(self) -> BackendWorld:
        backend = MemoryBackend()
        (token, client), (other_token, other) = backend.register(), backend.register()

        async def queue_task() -> UUID:
            return backend.queue(client)

        async def queue_other() -> UUID:
            return backend.queue(other)

        async def open_call() -> UUID:
            return backend.open_call(client)

        return BackendWorld(backend, token, queue_task, other_token, queue_other, open_call)
