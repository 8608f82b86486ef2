"""A disk that fills under the raw answers: the shard waits, nothing is acknowledged, and room alone heals it."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from store.audit import Integrity, check_integrity
from store.database import Pool
from tests.conftest import Servers
from tests.support.result_queues import rabbit_queue, until
from tests.support.results import chat_answer, encode, result
from tests.support.world import World

REPOSITORY = Path(__file__).resolve().parents[2]
# 256 kB with no room left; then the process in the shell's place.
DISK = """
mount -t tmpfs -o size=256k giveway-test {folder} || exit 1
head -c 300000 /dev/zero > {folder}/filler
exec {python} -m tests.faults.ingest_process
"""
UNSHARE = ("unshare", "--user", "--map-root-user", "--mount")


def _may_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run([*UNSHARE, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False)
    return tried.returncode == 0


pytestmark = [
    pytest.mark.long_fault,
    pytest.mark.skipif(not _may_mount(), reason="this account may not mount a small disk of its own"),
]


@asynccontextmanager
async def ingest_on_small_disk(
    servers: Servers, database_url: str, prefix: str, folder: Path
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The ingest residents in a mount namespace where `folder` is a full disk of 256 kB."""
    env = {
        **os.environ, "DATABASE_URL": database_url, "AMQP_URL": servers.amqp_url, "AMQP_PREFIX": prefix,
        "TEMPORAL_ADDRESS": servers.temporal_address, "TEMPORAL_NAMESPACE": servers.temporal_namespace,
        "INGEST_SHARDS": "1", "RAW_STORE_URL": folder.as_uri(), "GIVEWAY_READY_FILE": str(folder.parent / "ready"),
    }  # fmt: skip
    script = DISK.format(folder=folder, python=sys.executable)
    process = await asyncio.create_subprocess_exec(
        *UNSHARE, "sh", "-c", script, cwd=REPOSITORY, env=env, stderr=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.kill()
        await process.communicate()


async def test_a_full_disk_keeps_results_queued_until_there_is_room(
    servers: Servers, database_url: str, pool: Pool, tmp_path: Path
) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    world = await World.create(pool)
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    message = result(world, lease, client, raw=chat_answer("Acme " * 20_000))
    async with rabbit_queue(servers.amqp_url) as queue:
        await queue.publish(encode(message), message.attempt_id)
        async with ingest_on_small_disk(servers, database_url, queue.prefix, folder) as process:
            assert process.stderr is not None
            pauses = 0
            async with asyncio.timeout(60):
                # More pauses than a poison message has tries.
                while pauses < 6:
                    line = (await process.stderr.readline()).decode()
                    assert line, "the process ended"
                    pauses += "ingest shard 0 waits" in line
            assert (await world.attempt(lease.attempt_id))["outcome"] is None
            assert await queue.reasons() == []
            (Path(f"/proc/{process.pid}/root") / folder.relative_to("/") / "filler").unlink()

            async def is_in() -> bool:
                return bool((await world.attempt(lease.attempt_id))["outcome"] == "succeeded")

            await until(is_in)
    assert await check_integrity(pool, world.tenant_id) == Integrity(0, 0, 0, 0)
