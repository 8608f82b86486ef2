"""Walks for hours: `make soak SOAK_HOURS=8 SEED=1`. Stops at the first broken invariant and says how to see it again.

`WALKERS=8`: so many at once on each database; what goes wrong between two of them cannot be replayed, only told.

On the PostgreSQL at DATABASE_URL, else on the embedded stack's; each walk in a database of its own, dropped afterwards.
"""

import argparse
import asyncio
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import asyncpg

from store import reconcile_tasks
from store.database import open_pool
from store.migrate import migrate
from tests.conftest import StackThread, database_named
from tests.model import orders
from tests.model.crowd import crowd
from tests.model.walk import Outcome, walk


def say(line: str) -> None:
    """To whoever watches, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Soak:
    """Walk after walk, seed after seed."""

    def __init__(self, url: str, hours: float, seed: int, steps: int, walkers: int) -> None:
        self._url, self._seed, self._steps, self._walkers = url, seed, steps, walkers
        self._ends = time.monotonic() + hours * 3600
        self._name = f"giveway_soak_{uuid4().hex}"
        self._taken: Counter[str] = Counter()
        self._happened: Counter[str] = Counter()
        self._walks = 0

    async def run(self) -> bool:
        """Whether every invariant held."""
        admin = await asyncpg.connect(database_named(self._url, "postgres"))
        try:
            await admin.execute(f'create database "{self._name}"')
            await asyncio.to_thread(migrate, database_named(self._url, self._name))
            return await self._walk_on(admin)
        finally:
            await admin.execute(f'drop database if exists "{self._name}_walk" with (force)')
            await admin.execute(f'drop database if exists "{self._name}" with (force)')
            await admin.close()

    async def _walk_on(self, admin: "asyncpg.Connection[asyncpg.Record]") -> bool:
        while time.monotonic() < self._ends:
            outcome = await self._one(admin, self._seed + self._walks)
            self._walks += 1
            self._taken += outcome.taken
            self._happened += outcome.happened
            if outcome.failure is not None:
                say(f"{outcome.failure}\n{self._summary()}: BROKEN at seed {outcome.seed}")
                return False
            say(f"seed {outcome.seed} held; {self._summary()}")
        say(f"{self._summary()}, every invariant held; seeds {self._seed} to {self._seed + self._walks - 1}")
        say("  ".join(f"{name} {count}" for name, count in self._taken.most_common()))
        say(orders.summary(self._happened))
        return True

    async def _one(self, admin: "asyncpg.Connection[asyncpg.Record]", seed: int) -> Outcome:
        database = f"{self._name}_walk"
        await admin.execute(f'create database "{database}" template "{self._name}"')
        pool = await open_pool(database_named(self._url, database), size=self._walkers + 7, name="giveway-soak")
        try:
            if self._walkers > 1:
                return await crowd(pool, seed, self._walkers, self._steps)
            return await walk(pool, seed, self._steps)
        finally:
            pool.terminate()
            await admin.execute(f'drop database "{database}" with (force)')

    def _summary(self) -> str:
        interrupts = orders.asked(self._happened)
        return f"{self._walks} walks, {self._taken.total()} steps, {interrupts} interrupts"


@contextmanager
def servers() -> Iterator[str]:
    """The database's address."""
    if given := os.environ.get("DATABASE_URL"):
        yield given
        return
    stack = StackThread()
    try:
        yield stack.start().database_url
    finally:
        stack.stop()


def main() -> int:
    """Exit code 0: every invariant held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=None, help="of the first walk; without it any")
    parser.add_argument("--steps", type=int, default=500, help="of one walker, before its end")
    parser.add_argument("--walkers", type=int, default=1, help="at once on one database")
    given = parser.parse_args()
    seed = random.SystemRandom().randrange(2**31) if given.seed is None else given.seed
    # Between two transactions nothing is damaged, so reconcile need not wait to see.
    reconcile_tasks.DAMAGE_SECONDS = 0  # type: ignore[misc]
    with servers() as url:
        return 0 if asyncio.run(Soak(url, given.hours, seed, given.steps, given.walkers).run()) else 1


if __name__ == "__main__":
    sys.exit(main())
