"""A worker process of the ingest benchmark: it runs some of the shards, as a second `giveway worker` would.

Started with one JSON object as its argument; says `ready`, and then works on the queues whose prefix the last line on
its standard input names. It writes how many results each acknowledgement was for and the processor seconds it has used
since that line, until it is stopped.
"""

import asyncio
import gc
import resource
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass

import orjson
import uvloop

from bench.ingest_run import Shards, run_residents
from broker.connection import BrokerConnection
from store.database import Pool, open_pool
from store.raw_answers import RawAnswers


@dataclass(frozen=True, slots=True)
class Work:
    """What one worker process is to do. `numbers`: its shards out of `shards`."""

    database_url: str
    amqp_url: str
    raw_url: str
    shards: int
    numbers: tuple[int, ...]


@asynccontextmanager
async def worker_process(work: Work) -> AsyncIterator[asyncio.subprocess.Process]:
    """A started worker that waits for its line; stopped afterwards."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.ingest_worker", orjson.dumps(asdict(work)).decode(),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        if (await process.stdout.readline()).strip() != b"ready":
            raise RuntimeError("a worker process of the benchmark did not start")
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def processor_seconds() -> float:
    """What this process has used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def _work(work: Work) -> None:
    pool = await open_pool(work.database_url, size=10, name="giveway-bench-worker")
    raw = RawAnswers(work.raw_url)
    async with BrokerConnection(work.amqp_url, name="giveway-bench-worker") as connection:
        _say("ready")
        residents: asyncio.Task[None] | None = None
        while line := await asyncio.to_thread(sys.stdin.readline):
            if residents is not None:
                residents.cancel()
                await asyncio.gather(residents, return_exceptions=True)
            shards = Shards(connection, work.shards, line.strip())
            residents = asyncio.create_task(_told(pool, shards, raw, work.numbers))


async def _told(pool: Pool, shards: Shards, raw: RawAnswers, numbers: Sequence[int]) -> None:
    began = processor_seconds()

    def acknowledged(count: int) -> None:
        _say(f"{count} {processor_seconds() - began:.4f}")

    await run_residents(pool, shards, raw, numbers, acknowledged)


def main() -> None:
    """Entry of `python -m bench.ingest_worker`."""
    given = orjson.loads(sys.argv[1])
    work = Work(**{**given, "numbers": tuple(given["numbers"])})
    # As a service of ours does (`commands.common.run_service`).
    gc.freeze()
    gc.set_threshold(10_000, 50, 50)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_work(work))


if __name__ == "__main__":
    main()
