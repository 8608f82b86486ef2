"""Keeps one process alive: start, readiness, restart with back-off, stop."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from devstack.errors import PartFailed, PartTimeout
from devstack.files import last_lines
from devstack.part import Part, PartState, PartStatus
from devstack.process import Record, end_process, identify, kill_group

_LAUNCH = str(Path(__file__).with_name("launch.py"))
_POLL = 0.05
_PROBE_LIMIT = 10.0
# A crash's remains (shared memory, a port in TIME_WAIT) may outlive it by a second or two.
_FIRST_TRIES = 4
_BACKOFF = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
_STABLE = 30.0
_LOG_LIMIT = 20 * 1024 * 1024


class Runner:
    """One part and the process it currently is. All methods run in the loop that made it.

    The kernel ties the death signal to the thread that started the process, so that thread (the loop's)
    has to live as long as the stack.
    """

    def __init__(self, part: Part, run_dir: Path, log_dir: Path, on_change: Callable[[], None]) -> None:
        self.part = part
        self._record_path = run_dir / f"{part.name}.json"
        self._log_path = log_dir / f"{part.name}.log"
        self._on_change = on_change
        self._process: subprocess.Popen[bytes] | None = None
        self._record: Record | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._state = PartState.STOPPED
        self._restarts = 0
        self._log_offset = 0

    def status(self) -> PartStatus:
        """The process now."""
        return PartStatus(self.part.name, self._state, self.pid, self._restarts, self._log_path)

    @property
    def pid(self) -> int | None:
        """The running process, if any."""
        return self._process.pid if self._process and self._process.poll() is None else None

    async def start(self) -> None:
        """Start it, wait until it is ready, and keep it alive from then on."""
        try:
            await (self._run_to_end() if self.part.one_shot else self._first_start())
        except BaseException:
            await self._end()
            self._enter(PartState.FAILED)
            raise
        if not self.part.one_shot:
            self._keeper = asyncio.create_task(self._keep_alive(), name=f"keep {self.part.name}")

    async def stop(self) -> None:
        """End it and everything in its process group. Stopping twice is fine."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
            self._keeper = None
        await self._end()
        self._enter(PartState.STOPPED)

    async def _run_to_end(self) -> None:
        self._spawn()
        try:
            async with asyncio.timeout(self.part.start_limit):
                code = await self._exited()
        except TimeoutError as error:
            raise self._too_slow() from error
        if code != 0:
            raise self._died()
        self._enter(PartState.DONE)

    async def _first_start(self) -> None:
        for delay in (0.0, *_BACKOFF[: _FIRST_TRIES - 1]):
            await asyncio.sleep(delay)
            self._spawn()
            if await self._became_ready():
                self._enter(PartState.RUNNING)
                return
            self._sweep()
        raise self._died()

    async def _keep_alive(self) -> None:
        deaths_in_a_row = 0
        while True:
            born = time.monotonic()
            await self._exited()
            self._sweep()
            deaths_in_a_row = 1 if time.monotonic() - born > _STABLE else deaths_in_a_row + 1
            self._restarts += 1
            self._enter(PartState.BACKING_OFF)
            await asyncio.sleep(_BACKOFF[min(deaths_in_a_row, len(_BACKOFF)) - 1])
            await self._restart()

    async def _restart(self) -> None:
        self._spawn()
        try:
            if await self._became_ready():
                self._enter(PartState.RUNNING)
        except PartTimeout:
            await self._end()

    async def _became_ready(self) -> bool:
        """True once the probe says so, False when the process has ended first."""
        deadline = time.monotonic() + self.part.start_limit
        while self.pid is not None:
            if await self._probe():
                return self.pid is not None
            if time.monotonic() > deadline:
                raise self._too_slow()
            await asyncio.sleep(_POLL)
        return False

    async def _probe(self) -> bool:
        try:
            async with asyncio.timeout(_PROBE_LIMIT):
                return await self.part.ready()
        except (OSError, TimeoutError):
            return False

    async def _exited(self) -> int:
        # Polled: a child watcher would need the main thread, and the stack may run in any.
        while self._process is not None and self._process.poll() is None:
            await asyncio.sleep(_POLL)
        return self._process.returncode if self._process else 0

    def _spawn(self) -> None:
        if self.part.before is not None:
            self.part.before()
        with self._open_log() as log:
            self._process = subprocess.Popen(
                self._command(),
                env=dict(self.part.env),
                cwd=self.part.cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._write_record(self._process.pid)
        self._enter(PartState.STARTING)

    def _command(self) -> list[str]:
        account = self.part.account
        uid, gid = (account.uid, account.gid) if account else (-1, -1)
        numbers = (os.getpid(), int(self.part.stop_signal), uid, gid)
        return [sys.executable, "-I", "-S", _LAUNCH, *map(str, numbers), "--", *self.part.argv]

    def _open_log(self) -> BinaryIO:
        if self._log_path.exists() and self._log_path.stat().st_size > _LOG_LIMIT:
            self._log_path.replace(self._log_path.with_suffix(".log.1"))
        log = self._log_path.open("ab")
        self._log_offset = log.tell()
        return log

    def _write_record(self, pid: int) -> None:
        identity = identify(pid)
        if identity is None:
            self._record = None
            return
        self._record = Record(pid, identity.started, int(self.part.stop_signal), self.part.grace)
        self._record.save(self._record_path)

    def _sweep(self) -> None:
        """Kill what the dead process's group still holds, and forget it."""
        if self._record is not None:
            kill_group(self._record)
        self._record_path.unlink(missing_ok=True)

    async def _end(self) -> None:
        if self._process is not None and self._record is not None and self.pid is not None:
            ending = asyncio.create_task(asyncio.to_thread(end_process, self._record))
            # poll() reaps the process; until then it is a zombie, and its pid stays ours.
            while self._process.poll() is None or not ending.done():
                await asyncio.sleep(_POLL)
        self._sweep()
        self._process = None

    def _enter(self, state: PartState) -> None:
        self._state = state
        self._on_change()

    def _died(self) -> PartFailed:
        code = self._process.returncode if self._process else "none"
        return PartFailed(f"{self.part.name} ended with exit code {code} before it was ready", self._log_hint())

    def _too_slow(self) -> PartTimeout:
        return PartTimeout(f"{self.part.name} was not ready within {self.part.start_limit:g} s", self._log_hint())

    def _log_hint(self) -> str:
        lines = last_lines(self._log_path, self._log_offset) or "(nothing was logged)"
        return f"see {self._log_path}, which ends with:\n{lines}"
