"""A running giveway for each end-to-end test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conftest import Servers
from tests.e2e.installation import Installation, install


@pytest.fixture
async def installation(servers: Servers, database_url: str, tmp_path: Path) -> AsyncIterator[Installation]:
    """Server and worker processes on the session's servers, apart from every other test."""
    async with install(servers, database_url, tmp_path / "giveway") as running:
        yield running
