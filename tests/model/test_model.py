"""Random days on the real database: whatever happens in whatever order, every invariant holds (issue 3, faults.md)."""

import os
import random

import pytest

from store.database import Pool
from tests.model.server import impatient_reconcile
from tests.model.walk import walk

__all__ = ["impatient_reconcile"]

STEPS = int(os.environ.get("GIVEWAY_WALK_STEPS", "500"))
SEED = os.environ.get("GIVEWAY_SEED")
WALKS = 1 if SEED else 4


@pytest.mark.usefixtures("impatient_reconcile")
@pytest.mark.parametrize("number", range(WALKS))
async def test_a_random_day_keeps_every_invariant_and_ends(pool: Pool, number: int) -> None:
    outcome = await walk(pool, int(SEED) if SEED else random.SystemRandom().randrange(2**32), STEPS)
    if outcome.failure is not None:
        pytest.fail(outcome.failure)
