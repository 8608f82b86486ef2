"""Random days on the real database: whatever happens in whatever order, every invariant holds (issue 3, faults.md)."""

import os
import random
from collections import Counter

import pytest

from store.database import Pool, open_pool
from tests.model import orders
from tests.model.crowd import crowd
from tests.model.server import impatient_reconcile
from tests.model.walk import Outcome, walk

__all__ = ["impatient_reconcile"]

STEPS = int(os.environ.get("GIVEWAY_WALK_STEPS", "500"))
SEED = os.environ.get("GIVEWAY_SEED")
WALKS = 1 if SEED else 4
# A walk of 500 steps has about twice as many.
INTERRUPTS_A_STEP = 15 / 500
WALKERS, STEPS_A_WALKER = 4, 50


@pytest.fixture(scope="module")
def happened() -> Counter[str]:
    """What the walks of this run saw, all together."""
    return Counter()


def seed() -> int:
    return int(SEED) if SEED else random.SystemRandom().randrange(2**32)


def held(outcome: Outcome) -> None:
    if outcome.failure is not None:
        pytest.fail(outcome.failure)


@pytest.mark.usefixtures("impatient_reconcile")
@pytest.mark.parametrize("number", range(WALKS))
async def test_a_random_day_keeps_every_invariant_and_ends(
    pool: Pool, number: int, happened: Counter[str], record_property: pytest.RecordProperty
) -> None:
    outcome = await walk(pool, seed(), STEPS)
    record_property("seed", outcome.seed)
    held(outcome)
    happened.update(outcome.happened)


def test_the_random_days_saw_every_end_of_an_order_to_stop(happened: Counter[str]) -> None:
    if not happened:
        pytest.skip("no walk was run, or none held")
    summary = orders.summary(happened)
    assert [kind for kind in orders.EXPECTED if not happened[kind]] == [], summary
    assert orders.asked(happened) >= WALKS * STEPS * INTERRUPTS_A_STEP, summary


@pytest.mark.usefixtures("impatient_reconcile")
async def test_many_at_once_meet_no_deadlock_and_keep_every_invariant(database_url: str) -> None:
    pool = await open_pool(database_url, size=WALKERS + 6, name="giveway-test")
    try:
        held(await crowd(pool, seed(), WALKERS, STEPS_A_WALKER))
    finally:
        pool.terminate()
