"""Random days on the real database: whatever happens in whatever order, every invariant holds (issue 3, faults.md)."""

import asyncio
import os
import random
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from store.database import Pool, open_pool
from tests.conftest import Servers, database_named
from tests.model import orders
from tests.model.crowd import crowd
from tests.model.server import impatient_reconcile
from tests.model.walk import Outcome, walk
from tests.support.databases import DatabaseFarm

__all__ = ["impatient_reconcile"]

Work = Callable[[Pool], Awaitable[Outcome]]

STEPS = int(os.environ.get("GIVEWAY_WALK_STEPS", "500"))
SEED = os.environ.get("GIVEWAY_SEED")
# Two at a time, each on a database of its own: one waits for PostgreSQL while the other computes.
PAIRS = 1 if SEED else 2
WALKS = 1 if SEED else 2 * PAIRS
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


def tell(capsys: pytest.CaptureFixture[str], line: str) -> None:
    """Into the log of the run, also when all is well."""
    with capsys.disabled():
        sys.stdout.write(f"\n{line}\n")


async def on_a_database(servers: Servers, databases: DatabaseFarm, work: Work) -> Outcome:
    name = databases.take()
    pool = await open_pool(database_named(servers.database_url, name), size=WALKERS + 6, name="giveway-test")
    try:
        return await work(pool)
    finally:
        pool.terminate()
        databases.give_back(name)


# One worker: the last of them sums up what the others saw.
random_days = pytest.mark.xdist_group("random-days")


# A busy machine is no failure.
@random_days
@pytest.mark.timeout(400)
@pytest.mark.usefixtures("impatient_reconcile")
@pytest.mark.parametrize("number", range(PAIRS))
async def test_random_days_keep_every_invariant_and_end(
    servers: Servers,
    databases: DatabaseFarm,
    number: int,
    happened: Counter[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    works = [partial(walk, seed=seed(), steps=STEPS) for _ in range(WALKS // PAIRS)]
    outcomes = await asyncio.gather(*(on_a_database(servers, databases, work) for work in works))
    for outcome in outcomes:
        held(outcome)
        happened.update(outcome.happened)
    tell(capsys, f"seeds {', '.join(str(each.seed) for each in outcomes)} held, {STEPS} steps each")


@random_days
def test_the_random_days_saw_every_end_of_an_order_to_stop(
    happened: Counter[str], capsys: pytest.CaptureFixture[str]
) -> None:
    if SEED or not happened:
        pytest.skip("a single walk again, or none that held")
    summary = orders.summary(happened)
    tell(capsys, summary)
    assert [kind for kind in orders.EXPECTED if not happened[kind]] == [], summary
    assert orders.asked(happened) >= WALKS * STEPS * INTERRUPTS_A_STEP, summary


@pytest.mark.usefixtures("impatient_reconcile")
async def test_many_at_once_meet_no_deadlock_and_keep_every_invariant(
    servers: Servers, databases: DatabaseFarm
) -> None:
    work = partial(crowd, seed=seed(), walkers=WALKERS, steps=STEPS_A_WALKER)
    held(await on_a_database(servers, databases, work))
