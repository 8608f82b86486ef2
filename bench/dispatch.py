"""`giveway bench dispatch`: full rounds of the coordinator at a small and a large backlog, beside a limit and peers.

A round is what production runs: read the state, plan, and write execution tasks, holds, outbox rows and counters in one
transaction. The desktops' side (finishing what they got) happens between rounds and is not timed.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

import asyncpg
from rich.console import Console
from rich.progress import Progress

from activities.coordinator import Coordinator
from bench.bare_limit import claims
from bench.database import own_database
from bench.figures import summary
from bench.peers import pgqueuer_peer, procrastinate_peer
from store import residents
from store.database import Pool, open_pool, transaction
from store.dispatch import MOST_PICKS
from store.listen import Listener
from store.migrate import migrate
from store.settings import write_dispatch_setting, write_fuse
from store.statements import statements

SQL = statements("bench_dispatch")

TARGET_RATE: Final = 8000.0
TARGET_RATIO: Final = 1.5
PLATFORMS: Final = ("openai", "qwen", "doubao", "kimi", "perplexity")
# The first rounds also pay for cold caches and new log files.
WARM_UP: Final = 8
SEED_CHUNK: Final = 100_000

# An installation far larger than one desk: no budget stops the run, and every one is counted and compared.
LIMITS: Final = {
    "cluster_per_minute": 100_000_000,
    "tenant_per_minute": 10_000_000,
    "client_concurrency": 64,
    "client_queue_depth": 10_000,
    "platform_concurrency": 10_000,
}


@dataclass(frozen=True, slots=True)
class Options:
    """How much is measured. `backlogs`: business tasks waiting, the smallest first."""

    backlogs: tuple[int, ...] = (10_000, 1_000_000)
    rounds: int = 15
    tenants: int = 100
    desktops: int = 10
    peer_jobs: int = 20_000


@dataclass(slots=True)
class Measured:
    """Rounds at one backlog: seconds and tasks of each."""

    backlog: int
    seconds: list[float] = field(default_factory=list)
    tasks: list[int] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Tasks a second over all rounds."""
        return sum(self.tasks) / sum(self.seconds)

    def figures(self) -> dict[str, Any]:
        """What the output shows."""
        return {
            "backlog": self.backlog,
            "tasks_per_second": round(self.rate),
            "tasks_per_round": round(sum(self.tasks) / len(self.tasks)),
            "round_ms": summary([seconds * 1000 for seconds in self.seconds]),
        }


async def run_bench(options: Options, console: Console) -> dict[str, Any]:
    """Measure; returns the JSON object of the last line."""

    def say(text: str) -> None:
        console.print(f"· {text}")

    measured, shared = [], []
    for backlog in options.backlogs:
        async with own_database(say) as url:
            await asyncio.to_thread(migrate, url)
            one, two = await _backlog(url, options, backlog, console)
        measured.append(one)
        shared.append(two)
    async with own_database(say) as url:
        say("bare claims")
        limit = await claims(url, MOST_PICKS, options.rounds)
        peers = [await peer.measure(url, options.peer_jobs, say) for peer in (procrastinate_peer, pgqueuer_peer)]
    return _figures(options, measured, shared, limit, peers)


async def _backlog(url: str, options: Options, backlog: int, console: Console) -> tuple[Measured, Measured]:
    """One backlog with one coordinator, then with two side by side."""
    pool = await open_pool(url, size=4, name="giveway-bench", command_timeout=600)
    try:
        await _seed(pool, options, backlog, console)
        one = await _measure(pool, options, backlog, 1, console)
        async with transaction(pool) as connection:
            await write_dispatch_setting(connection, "coordinator_shards", 2, actor="bench")
        return one, await _measure(pool, options, backlog, 2, console)
    finally:
        await pool.close()


async def _seed(pool: Pool, options: Options, backlog: int, console: Console) -> None:
    async with transaction(pool) as connection:
        for key, value in LIMITS.items():
            await write_fuse(connection, key, value, actor="bench")
            await write_dispatch_setting(connection, key, value, actor="bench")
    await pool.execute(SQL["seed_tenants"], options.tenants, list(PLATFORMS))
    await pool.execute(SQL["seed_clients"], options.desktops)
    questions = max(backlog // (options.tenants * len(PLATFORMS)), 1)
    step = max(SEED_CHUNK // (options.tenants * len(PLATFORMS)), 1)
    with Progress(console=console, transient=True) as progress:
        for first in progress.track(range(1, questions + 1, step), description=f"{backlog:,} waiting tasks"):
            last = min(first + step - 1, questions)
            async with transaction(pool) as connection:
                await connection.execute("set local statement_timeout = 0")
                await connection.execute(SQL["seed_backlog"], list(PLATFORMS), first, last)
                if first == 1:
                    await connection.execute(SQL["seed_running"])
    async with pool.acquire() as connection:
        await connection.execute("set statement_timeout = 0")
        await connection.execute("vacuum analyze")
        # What seeding left to write must not be written while rounds are timed; who may not ask for it measures it too.
        with suppress(asyncpg.InsufficientPrivilegeError):
            await connection.execute("checkpoint")


async def _measure(pool: Pool, options: Options, backlog: int, coordinators: int, console: Console) -> Measured:
    """Waves of one round of each coordinator at once."""
    runs = [await _coordinator(pool, index) for index in range(coordinators)]
    measured = Measured(backlog)
    label = f"{backlog:,} waiting, {coordinators} coordinator{'s' if coordinators > 1 else ''}"
    with Progress(console=console, transient=True) as progress:
        for number in progress.track(range(options.rounds + WARM_UP), description=label):
            began = time.perf_counter()
            tasks = sum(await asyncio.gather(*(run() for run in runs)))
            seconds = time.perf_counter() - began
            await _check(pool, tasks)
            if number >= WARM_UP:
                measured.seconds.append(seconds)
                measured.tasks.append(tasks)
    console.print(f"  {label}: {measured.rate:,.0f} tasks/s, {median(measured.seconds) * 1000:.0f} ms a round")
    return measured


async def _coordinator(pool: Pool, index: int) -> Callable[[], Any]:
    name = f"coordinator/{index}"
    epoch, coordinator = await residents.take(pool, name, "bench"), Coordinator(pool, Listener("unused"), index)

    async def run() -> int:
        """One round; of several coordinators also the asking for permits before it."""
        done = await coordinator.round(name, epoch)
        while done.again and not done.dispatched:
            done = await coordinator.round(name, epoch)
        return done.dispatched

    return run


async def _check(pool: Pool, tasks: int) -> None:
    """Every task was dispatched, announced and counted; then the desktops finish them."""
    row = await pool.fetchrow(SQL["count_dispatched"])
    assert row is not None, "an aggregate has a row"
    if not tasks or (row["tasks"], row["announced"]) != (tasks, tasks):
        raise RuntimeError(f"a round said {tasks} tasks, the database has {row['tasks']}, {row['announced']} announced")
    await pool.execute(SQL["finish_queued"])


def _figures(
    options: Options, one: Sequence[Measured], two: Sequence[Measured], limit: float, peers: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    rates = {1: min(measured.rate for measured in one), 2: min(measured.rate for measured in two)}
    best = max(rates, key=lambda coordinators: rates[coordinators])
    ratio = median(one[-1].seconds) / median(one[0].seconds)
    return {
        "bench": "dispatch",
        "tenants": options.tenants,
        "desktops": options.tenants * options.desktops,
        "tasks_per_second": round(rates[best]),
        "coordinators": best,
        "one_coordinator": [measured.figures() for measured in one],
        "two_coordinators": [measured.figures() for measured in two],
        "round_time_ratio": round(ratio, 2),
        "limit": {"what": f"bare SKIP LOCKED claim of {MOST_PICKS}", "tasks_per_second": round(limit)},
        "rate_to_limit": round(rates[best] / limit, 3),
        "peers": list(peers),
        "rate_to_peers": {peer["name"]: round(rates[best] / peer["tasks_per_second"], 2) for peer in peers},
        "targets": {"tasks_per_second": TARGET_RATE, "round_time_ratio": TARGET_RATIO},
        "met": {"tasks_per_second": rates[best] >= TARGET_RATE, "round_time_ratio": ratio <= TARGET_RATIO},
    }
