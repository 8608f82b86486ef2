"""A random day: clicks, rounds, starts, interrupts, lost leases and clients, in any order, keep every invariant."""

import os
import random

import pytest

from store.database import Pool
from tests.support.walk import Walk
from tests.support.world import World

STEPS = int(os.environ.get("GIVEWAY_WALK_STEPS", "150"))


async def test_a_random_day_loses_nothing_and_counts_everything(pool: Pool) -> None:
    seed = int(os.environ.get("GIVEWAY_SEED", random.SystemRandom().randrange(2**32)))
    walk = Walk(await World.create(pool), random.Random(seed))
    await walk.prepare()
    try:
        for _ in range(STEPS):
            await walk.step()
        await walk.drain()
    except Exception as error:
        pytest.fail(f"GIVEWAY_SEED={seed}, after {walk.history[-12:]}: {error!r}")
