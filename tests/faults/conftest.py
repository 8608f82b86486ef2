"""What every fault test has: a seed that it prints, a look for leaks at its end, and a broker that it may break."""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.faults.own_broker import OwnBroker


@pytest.fixture
def rng() -> random.Random:
    """Chance that can be had again: FAULT_SEED."""
    seed = int(os.environ.get("FAULT_SEED") or random.SystemRandom().randrange(2**32))
    print(f"FAULT_SEED={seed}")  # noqa: T201 - shown with a failure
    return random.Random(seed)


@pytest.fixture(autouse=True)
async def no_leaks() -> AsyncIterator[None]:
    """Tasks and sockets that the test made in its event loop are gone after it."""
    tasks, watched = asyncio.all_tasks(), _watched()
    yield
    tasks |= {task for task in (asyncio.current_task(),) if task is not None}
    async with asyncio.timeout(10):
        while left := asyncio.all_tasks() - tasks:
            await asyncio.wait(left, timeout=0.05)
        while _watched() > watched:
            await asyncio.sleep(0.02)


def _watched() -> int:
    """Sockets and pipes that the running loop waits for. (Other threads have descriptors of their own.)"""
    return len(asyncio.get_running_loop()._selector.get_map())  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnBroker]:
    """Started once a run; each test takes a prefix of its own on it."""
    broker = OwnBroker(tmp_path_factory.mktemp("own-broker"))
    broker.start()
    yield broker
    broker.stop()
