"""`giveway bench ingest`: results through RabbitMQ into all facts, beside COPY and row-by-row inserts of the same rows.

What production runs: worker processes with the residents' own loop, consumer, raw store, reading, parsing, settlement
and facts. The results wait in the queues when the clock starts, and it stops when the last one is acknowledged.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
from rich.console import Console

from bench.answers import ALIASES, BRAND, COMPETITORS, OWN_DOMAIN, WIRES, bodies
from bench.database import own_database_and_broker
from bench.ingest_figures import Ingested, Loaded, Setup, figures
from bench.ingest_run import Results, Shards, run_residents
from bench.ingest_worker import Work, worker_process
from bench.loading import copy_rows, insert_rows, pair_twins
from bench.pages import Pages
from bench.profile import Statements, backend_seconds, stages
from bench.projections import rebuild_figures
from broker.connection import BrokerConnection
from domain.transport import ResultMessage
from store.database import Pool, open_pool
from store.facts import read_brands
from store.migrate import migrate
from store.raw_answers import RawAnswers
from store.statements import statements

SQL = statements("bench_ingest")

TENANTS: Final = 32
COPY_SIZE: Final = 100
PLATFORMS: Final = tuple(platform for platform, _ in WIRES)
SECONDS: Final = 600.0
# After so many, no other round begins: on a busy machine fewer rounds, rather than minutes more.
ROUNDS_SECONDS: Final = 60.0
# On a disk, where raw bodies are; the folder of temporary files may be memory.
DISK: Final = "/var/tmp" if Path("/var/tmp").is_dir() else None

Workers = Sequence[asyncio.subprocess.Process]


@dataclass(frozen=True, slots=True)
class Options:
    """How much is measured. `inserted`: results of a round that are also inserted row by row."""

    results: int = 800
    rounds: int = 3
    citations: int = 20
    setups: tuple[Setup, ...] = (Setup(1, 1), Setup(8, 1), Setup(8, 2), Setup(8, 2, "fresh"))
    inserted: int = 60
    projection_runs: tuple[int, ...] = (500, 5_000)


class Bench:
    """One database, one broker, and the numbers of the tasks given out so far."""

    def __init__(self, options: Options, pool: Pool, database_url: str, connection: BrokerConnection, amqp_url: str):
        self._options = options
        self._pool = pool
        self._database_url = database_url
        self._connection = connection
        self._amqp_url = amqp_url
        self._next = 0

    async def seed(self) -> None:
        """Tenants with their brands, and the tables of the benchmark's own bookkeeping."""
        await self._pool.execute(SQL["bench_tasks"])
        await self._pool.execute(SQL["bench_twins"])
        names = (TENANTS, BRAND, list(ALIASES), OWN_DOMAIN, list(COMPETITORS), list(PLATFORMS))
        await self._pool.execute(SQL["seed_brands"], *names)

    async def received(self, count: int, pages: Pages = "skewed") -> tuple[int, Results]:
        """Tasks as they stand when their results have come: the first one's number, and the results with their keys."""
        first, last = self._next, self._next + count - 1
        self._next = last + 1
        await self._pool.execute(SQL["seed_results"], first, last, list(PLATFORMS), timeout=SECONDS)
        rows = await self._pool.fetch(SQL["read_results"], first, last)
        answers = bodies(len(rows), citations=self._options.citations, first=first, pages=pages)
        return first, [(row["ingest_shard_key"], _message(row, body)) for row, body in zip(rows, answers, strict=True)]

    async def settled(self) -> None:
        """Statistics of what was seeded, and its pages written: neither is to happen while the clock runs."""
        await self._pool.execute("vacuum analyze", timeout=SECONDS)

    async def ingest(self, into: Ingested) -> int:
        """One round of fresh worker processes, warmed up; returns the first task's number."""
        count = self._options.results
        _, warming = await self.received(max(count // 5, TENANTS), into.setup.pages)
        first, results = await self.received(count, into.setup.pages)
        warm, shards = (Shards(self._connection, into.setup.shards) for _ in range(2))
        try:
            async with AsyncExitStack() as stack:
                folder = stack.enter_context(TemporaryDirectory(prefix="giveway-bench-", dir=DISK))
                works = [self._work(folder, number, into.setup) for number in range(into.setup.workers)]
                workers = [await stack.enter_async_context(worker_process(work)) for work in works]
                await self._timed(workers, warm, warming)
                into.add(*await self._timed(workers, shards, results))
        finally:
            await warm.delete()
            await shards.delete()
        await self.check(first)
        into.cited = await self.cited(first)
        return first

    async def _timed(self, workers: Workers, shards: Shards, results: Results) -> tuple[float, float, float]:
        """Seconds until all is acknowledged, and processor seconds of the workers and of PostgreSQL."""
        await shards.publish(results)
        await self.settled()
        before = await backend_seconds(self._pool)
        began = time.perf_counter()
        used = await _until_acknowledged(workers, shards.prefix, len(results))
        seconds = time.perf_counter() - began
        after = await backend_seconds(self._pool)
        return seconds, sum(used), sum(after[pid] - before.get(pid, 0.0) for pid in after)

    def _work(self, folder: str, number: int, setup: Setup) -> Work:
        mine = tuple(range(number, setup.shards, setup.workers))
        return Work(self._database_url, self._amqp_url, f"file://{folder}", setup.shards, mine)

    async def profiled(self) -> list[dict[str, Any]]:
        """One shard once more in this process, every statement timed."""
        watched = Statements()
        _, results = await self.received(self._options.results)
        shards = Shards(self._connection, 1)
        pool = await watched.open_pool(self._database_url, size=4)
        try:
            await shards.publish(results)
            await self.settled()
            with TemporaryDirectory(prefix="giveway-bench-", dir=DISK) as folder:
                await _drain(pool, shards, RawAnswers(f"file://{folder}"), len(results))
        finally:
            await shards.delete()
            await pool.close()
        return watched.figures(len(results))

    async def load(self, first: int, into: Loaded) -> None:
        """The rows of that round again, in each of the other ways, for other tasks."""
        count = self._options.results
        for size, rates in ((COPY_SIZE, into.copy_batches), (count, into.copy_whole)):
            await self._pair(first)
            rates.append(count / await copy_rows(self._database_url, count, size))
        await self._pair(first)
        some = min(self._options.inserted, count // 2)
        into.commit_a_row.append(some / await insert_rows(self._database_url, 1, some, together=False))
        seconds = await insert_rows(self._database_url, some + 1, 2 * some, together=True)
        into.transaction_a_result.append(some / seconds)

    async def _pair(self, first: int) -> None:
        twin, _ = await self.received(self._options.results)
        await pair_twins(self._pool, first, first + self._options.results - 1, twin - first)
        await self.settled()

    async def check(self, first: int) -> None:
        """RuntimeError unless every task of the round is completed and has its facts."""
        row = await self.rows(first)
        if (row["completed"], row["runs"]) != (self._options.results, self._options.results):
            raise RuntimeError(f"of {self._options.results} results the database has {row}")

    async def rows(self, first: int) -> dict[str, int]:
        """Rows of facts of that round by table."""
        row = await self._pool.fetchrow(SQL["count_ingested"], first, first + self._options.results - 1)
        assert row is not None, "an aggregate has a row"
        return dict(row)

    async def cited(self, first: int) -> dict[str, int]:
        """Citations of that round, and how many different pages they are of."""
        row = await self._pool.fetchrow(SQL["count_pages"], first, first + self._options.results - 1)
        assert row is not None, "an aggregate has a row"
        return dict(row)

    async def stages(self, pages: Pages) -> dict[str, float]:
        """Processor milliseconds a result, by stage of our own work before the database."""
        owner = await self._pool.fetchrow("select tenant_id, id from brands order by id limit 1")
        assert owner is not None, "the seed made brands"
        brands = await read_brands(self._pool, [(owner["tenant_id"], owner["id"])])
        _, results = await self.received(min(self._options.results, 500), pages)
        encoded = [msgspec.json.encode(message) for _, message in results]
        return stages(encoded, "Which tool is best for small teams?", brands[owner["id"]])


async def run_bench(options: Options, console: Console) -> dict[str, Any]:
    """Measure in alternating rounds; returns the JSON object of the last line."""

    def say(text: str) -> None:
        console.print(f"· {text}")

    async with own_database_and_broker(say) as (database_url, amqp_url):
        await asyncio.to_thread(migrate, database_url)
        pool = await open_pool(database_url, size=4, name="giveway-bench", command_timeout=SECONDS)
        try:
            async with BrokerConnection(amqp_url, name="giveway-bench") as connection:
                bench = Bench(options, pool, database_url, connection, amqp_url)
                return await _measured(options, bench, pool, console)
        finally:
            await pool.close()


async def _measured(options: Options, bench: Bench, pool: Pool, console: Console) -> dict[str, Any]:
    await bench.seed()
    ingested, loaded = [Ingested(setup) for setup in options.setups], Loaded()
    first = 0
    began = time.perf_counter()
    for number in range(options.rounds):
        if number and time.perf_counter() - began > ROUNDS_SECONDS:
            console.print(f"  the machine is busy: {number} rounds have to do")
            break
        for one in ingested:
            first = await bench.ingest(one)
            rate = options.results / one.seconds[-1]
            console.print(f"  round {number + 1}, {one.setup}: {rate:,.0f} results/s")
        await bench.load(first, loaded)
        console.print(f"  round {number + 1}, {loaded.said()}")
    rows = await bench.rows(first)
    profile = {
        "our_processor_ms_per_result": {
            "skewed_pages": await bench.stages("skewed"),
            "fresh_pages": await bench.stages("fresh"),
        },
        "statements": await bench.profiled(),
    }
    console.print("· projections")
    projections = await rebuild_figures(pool, options.projection_runs)
    found = figures(options.results, ingested, loaded, rows, profile, projections)
    durability = {row["name"]: row["setting"] for row in await pool.fetch(SQL["read_durability"])}
    rounds = len(loaded.copy_whole)
    return {**found, "rounds": rounds, "citations_per_answer": options.citations, "durability": durability}


def _message(row: Any, body: str) -> ResultMessage:
    return ResultMessage(
        attempt_id=str(row["attempt_id"]),
        task_id=str(row["execution_id"]),
        monitor_task_id=row["task_id"],
        tenant_id=row["tenant_id"],
        client_id=str(row["target_client_id"]),
        outcome="succeeded",
        received_at=row["received_at"],
        raw=body,
        phase_times={"PREPARING": 500.0, "WAITING": 9_000.0},
    )


async def _until_acknowledged(workers: Workers, prefix: str, results: int) -> list[float]:
    """Set them to work; returns the processor seconds that each has used when all results are acknowledged."""
    left, used = results, [0.0] * len(workers)
    done = asyncio.Event()

    async def follow(number: int, worker: asyncio.subprocess.Process) -> None:
        nonlocal left
        assert worker.stdin is not None, "it was asked for a pipe"
        assert worker.stdout is not None, "it was asked for a pipe"
        worker.stdin.write(f"{prefix}\n".encode())
        while line := await worker.stdout.readline():
            count, seconds = line.split()
            left, used[number] = left - int(count), float(seconds)
            if left <= 0:
                done.set()
        raise RuntimeError("a worker process of the benchmark ended before its results did")

    await _done_or_failed(done, [asyncio.create_task(follow(*each)) for each in enumerate(workers)])
    return used


async def _drain(pool: Pool, shards: Shards, raw: RawAnswers, results: int) -> None:
    left, done = results, asyncio.Event()

    def acknowledged(count: int) -> None:
        nonlocal left
        left -= count
        if left <= 0:
            done.set()

    residents = asyncio.create_task(run_residents(pool, shards, raw, range(shards.count), acknowledged))
    await _done_or_failed(done, [residents])


async def _done_or_failed(done: asyncio.Event, tasks: Sequence["asyncio.Task[None]"]) -> None:
    """Wait for the event; the first task's error if one ends before. The tasks are stopped in any case."""
    waiting = asyncio.create_task(done.wait())
    try:
        async with asyncio.timeout(SECONDS):
            await asyncio.wait({waiting, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done() and not done.is_set():
                task.result()
    finally:
        for each in (waiting, *tasks):
            each.cancel()
        await asyncio.gather(waiting, *tasks, return_exceptions=True)
