"""A running hub, and desktops that end with the test."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest

from desktop.backoff import Backoff
from desktop.config import DesktopConfig, Timings
from desktop.rest import RestPolicy, Tries
from tests.desktop.desk import Desk
from tests.desktop.hub import TOKEN, Hub, running_hub
from tests.desktop.stepdriver import StepDriver

SOON = Backoff(0.01, 0.05)
QUICK = Timings(no_slot=0.05, stale_grace=5.0, reconnect=SOON, crowded=SOON, resend=Backoff(0.02, 0.1))
QUICK_CALLS = RestPolicy(Tries(3, 5.0, 0.01, 0.02), Tries(4, 5.0, 0.01, 0.02), Tries(1, 5.0))

OpenDesk = Callable[..., Any]


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    async with running_hub() as running:
        yield running


@pytest.fixture
def driver() -> StepDriver:
    return StepDriver()


@pytest.fixture
async def open_desk(hub: Hub, driver: StepDriver, tmp_path: Path) -> AsyncIterator[OpenDesk]:
    """Start a desktop: `desk = await open_desk(max_concurrent=1)`; it is connected when this returns."""
    async with AsyncExitStack() as stack:

        async def start(*, connected: bool = True, rng: Random | None = None, **changes: Any) -> Desk:
            fields: dict[str, Any] = {
                "client_id": "0198-desk",
                "token": TOKEN,
                "ws_url": hub.ws_url,
                "api_url": hub.api_url,
                "state_dir": tmp_path,
                "driver": driver,
                "timings": QUICK,
            }
            desk = Desk(DesktopConfig(**{**fields, **changes}), QUICK_CALLS, rng)
            await stack.enter_async_context(desk)
            if connected:
                await desk.connected()
            return desk

        yield start
