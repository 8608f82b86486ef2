"""Several walkers on one database at once: no deadlock, no error of the database, every invariant whenever all rest.

A walker sees the same tenants, desktops and queues as the others, so the same call is made twice at the same moment.
How their statements interleave is PostgreSQL's: a seed does not replay a crowd, it says what each one meant to do.
"""

import asyncio
import random
import traceback
from collections import Counter
from dataclasses import replace

from store.database import Pool
from tests.model import server
from tests.model.invariants import check
from tests.model.state import Model, prepare
from tests.model.walk import Outcome, begin, drain, move

# Of each walker, between two looks at the whole.
STEPS_A_BOUT = 25
SHOWN = 25
# The database's own count reaches its statistics a moment after the transactions end.
_DEADLOCKS = "select deadlocks from pg_stat_database where datname = current_database()"


async def crowd(pool: Pool, seed: int, walkers: int, steps: int) -> Outcome:
    """Walk with so many at once, each taking `steps`, on an empty database."""
    outcome = Outcome(seed)
    first = await prepare(pool, random.Random(seed))
    outcome.happened = first.happened
    others: list[Model] = []
    try:
        await begin(first)
        first.alone = False
        others = [_beside(first, f"{seed}/{number}", everywhere=number == 0) for number in range(walkers)]
        for done in range(0, steps, STEPS_A_BOUT):
            bout = min(STEPS_A_BOUT, steps - done)
            outcome.taken += await _all_walk(others, bout)
            await check(first)
        first.alone = True
        await _end(first)
    except Exception as error:
        outcome.failure = _explain(seed, [first, *others], error)
    return outcome


def _beside(first: Model, seed: str, *, everywhere: bool) -> Model:
    """The same world with dice, a history and a script of its own; the first alone goes to every desktop.

    The others crowd round the largest one and its neighbour, so that they meet.
    """
    near = first.desks if everywhere else first.desks[1:3]
    return replace(first, dice=random.Random(seed), history=[], script=type(first.script)(), desks=near)


async def _all_walk(walkers: list[Model], steps: int) -> Counter[str]:
    """Every walker goes to the end of its bout or to its first failure, which is raised when all rest."""
    ended = await asyncio.gather(*(_walk_on(walker, steps) for walker in walkers), return_exceptions=True)
    taken: Counter[str] = Counter()
    for each in ended:
        if isinstance(each, BaseException):
            raise each
        taken += each
    return taken


async def _walk_on(model: Model, steps: int) -> Counter[str]:
    taken: Counter[str] = Counter()
    while taken.total() < steps:
        name = await move(model)
        if name is not None:
            taken[name] += 1
    return taken


async def _end(model: Model) -> None:
    """What was sent while another lost the queues is lost as well. Then all work ends, and no deadlock was met."""
    while model.queue:
        await server.ingest(model)
    await server.lose_queues(model)
    await drain(model)
    deadlocks = await model.pool.fetchval(_DEADLOCKS)
    assert deadlocks == 0, f"{deadlocks} deadlocks, which somebody kept to himself"


def _explain(seed: int, models: list[Model], error: Exception) -> str:
    """What each of them did last, and what was broken."""
    ways = "\n".join(
        f"walker {number}, after {len(model.history)} steps:\n  " + "\n  ".join(model.history[-SHOWN:])
        for number, model in enumerate(models)
    )
    where = "".join(traceback.format_exception(error)[-8:])
    return f"seed {seed}, {len(models) - 1} walkers\n{ways}\n{where}"
