"""Processes of the hub benchmark: started with one JSON object, asked one thing a line, each answered by one line."""

import asyncio
import gc
import resource
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import orjson
import uvloop

# A report of all latencies is one line.
LONGEST_LINE: Final = 64 * 1024 * 1024

Answer = Callable[[dict[str, Any]], Awaitable[Any]]
Answers = Mapping[str, Answer]


class Child:
    """A running process of the benchmark, as its starter sees it. One question at a time."""

    def __init__(self, process: asyncio.subprocess.Process, name: str) -> None:
        self._process = process
        self._name = name

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    async def ask(self, what: str, **given: Any) -> Any:
        """Its answer. RuntimeError when it has ended."""
        assert self._process.stdin is not None, "it was asked for a pipe"
        self._process.stdin.write(orjson.dumps({"ask": what, **given}) + b"\n")
        return await self.answer()

    async def answer(self) -> Any:
        """Its next line."""
        assert self._process.stdout is not None, "it was asked for a pipe"
        line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process {self._name} of the benchmark ended")
        return orjson.loads(line)


@asynccontextmanager
async def child(module: str, given: Mapping[str, Any]) -> AsyncIterator[tuple[Child, Any]]:
    """`python -m {module}`, started, and what it said first; killed afterwards."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, orjson.dumps(given).decode(),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=LONGEST_LINE,
        # Ctrl-C at the terminal is for the starter alone, which ends it. If it cannot, the end of stdin does.
        start_new_session=True,
    )  # fmt: skip
    try:
        started = Child(process, module)
        yield started, await started.answer()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def say(value: Any) -> None:
    """One line to the starter."""
    sys.stdout.buffer.write(orjson.dumps(value) + b"\n")
    sys.stdout.buffer.flush()


async def serve_questions(answers: Answers) -> None:
    """Answer until the starter is gone."""
    while line := await asyncio.to_thread(sys.stdin.buffer.readline):
        question = orjson.loads(line)
        say(await answers[question.pop("ask")](question))


def run_child(main: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
    """Entry of such a process: uvloop, many files, the collector as in a service of ours (`commands.common`)."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gc.freeze()
    gc.set_threshold(10_000, 50, 50)

    async def run() -> None:
        await main(orjson.loads(sys.argv[1]))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


def processor_seconds() -> float:
    """What this process has used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _memory() -> dict[str, int]:
    """Bytes by kind, as the kernel counts them."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]
    return {name: int(rest.split()[0]) * 1024 for name, rest in (line.split(":", 1) for line in lines)}


async def footprint(_: dict[str, Any]) -> dict[str, float]:
    """After a collection: own memory and RSS in bytes, processor seconds so far, open tasks of the loop."""
    gc.collect()
    memory = _memory()
    return {
        "anonymous": memory["Anonymous"],
        "rss": memory["Rss"],
        "processor_seconds": processor_seconds(),
        "tasks": len(asyncio.all_tasks()),
    }
