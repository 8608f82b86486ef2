"""`giveway rollback-legacy`: nobody runs it by mistake, and it says what it moved (dispatch §16.2.3)."""

import asyncio
import json

from store.database import Pool
from tests.cli.test_command import NOWHERE, run
from tests.support.world import World


def test_without_a_terminal_it_wants_to_be_told_that_it_is_meant() -> None:
    done = run("rollback-legacy", DATABASE_URL=NOWHERE)
    assert done.returncode == 2
    assert "--force" in done.stderr


async def test_with_force_it_moves_everything_and_prints_it(pool: Pool, database_url: str) -> None:
    world = await World.create(pool)
    await world.leased(await world.client(), status="in_progress")
    done = await asyncio.to_thread(run, "rollback-legacy", "--force", "--json", DATABASE_URL=database_url)
    assert done.returncode == 0, done.stderr
    moved = json.loads(done.stdout.splitlines()[-1])
    assert (moved["tasks"], moved["executions"], moved["tenants"]) == (1, {"in_progress": 1}, 1)
    again = await asyncio.to_thread(run, "rollback-legacy", "--force", DATABASE_URL=database_url)
    assert "moved 0 tasks" in again.stdout
