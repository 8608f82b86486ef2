"""Conditions on the server that a test waits for."""

import asyncio
from typing import Final

from store.database import Pool

# Of this database alone: other tests run beside this one on the same server.
_BLOCKED: Final = """
select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')
"""


async def until_blocked(pool: Pool) -> None:
    """Wait until a statement on the test's database waits for a lock."""
    while not await pool.fetchval(_BLOCKED):
        await asyncio.sleep(0.01)
