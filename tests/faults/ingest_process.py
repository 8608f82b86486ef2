"""The worker's ingest and projection residents as a process that a test may kill; wired by the worker's own hands.

Residents of a worker move by Temporal's heartbeats, within seconds. Here the supervisor starts the next process, which
takes the same leases.
"""

import asyncio
import sys
from pathlib import Path

from commands.common import start_logging
from settings import load_settings
from store.residents import take
from worker import open_resources, resident_loops, resident_starts

ROLES = ("ingest", "projections")


async def run() -> None:
    """Until it is killed, or a loop fails."""
    settings = load_settings()
    async with open_resources(settings) as resources:
        loops = resident_loops(resources)
        async with asyncio.TaskGroup() as group:
            for start in resident_starts(settings, 0):
                if start.role in ROLES:
                    name = f"{start.role}/{start.shard}"
                    epoch = await take(resources.pool, name, "fault test")
                    group.create_task(loops[start.role](name, epoch, start.shard))
            _announce(settings.giveway_ready_file)


def _announce(path: str) -> None:
    Path(path).write_text("ready\n", encoding="utf-8")


if __name__ == "__main__":
    start_logging()
    sys.exit(asyncio.run(run()))
