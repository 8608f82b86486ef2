"""The server with its hub as a process that a test may kill, freeze, stop, and ask what it holds."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from devstack.ports import PortBook
from domain.protocol import PATH
from tests.support.broker import until

REPOSITORY: Final = Path(__file__).resolve().parents[2]
DEVELOPMENT_KEY: Final = "a development key of forty bytes or more"
# Objects that a process under way makes and drops: caches, metrics' children, log records.
FEW_OBJECTS: Final = 2_000
# The same in memory, with what the allocator does not give back.
FEW_KILOBYTES: Final = 12_000


class HubServer:
    """`giveway serve`, by `tests/faults/hub_process.py`, at the same ports each time. Left, it is dead.

    `roles`: `hub`, `api` or both. Its log is `{state_dir}/hub.log`.
    """

    def __init__(
        self,
        state_dir: Path,
        database_url: str,
        amqp_url: str,
        prefix: str,
        *,
        roles: Sequence[str] = ("hub",),
        **environment: str,
    ) -> None:
        state_dir.mkdir(parents=True, exist_ok=True)
        self.database_url, self.amqp_url, self.prefix = database_url, amqp_url, prefix
        self._book = PortBook(state_dir, {}, {})
        self.port, self.api_port = self._book.take("hub"), self._book.take("api")
        self._argv = [sys.executable, "-m", "tests.faults.hub_process", *roles]
        self._ready = state_dir / "hub.ready"
        self._counts = state_dir / "counts.json"
        self._log = (state_dir / "hub.log").open("ab")
        self._process: subprocess.Popen[bytes] | None = None
        self._environment = {
            **os.environ, "DATABASE_URL": database_url, "AMQP_URL": amqp_url, "AMQP_PREFIX": prefix,
            "HUB_PORT": str(self.port), "API_PORT": str(self.api_port), "INGEST_SHARDS": "1", "DATABASE_POOL_SIZE": "5",
            "RAW_STORE_URL": (state_dir / "raw").resolve().as_uri(), "GIVEWAY_READY_FILE": str(self._ready),
            "FAULT_COUNTS_FILE": str(self._counts), "JWT_DEV_KEY": DEVELOPMENT_KEY, **environment,
        }  # fmt: skip

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}{PATH}"

    @property
    def api_url(self) -> str:
        return f"http://127.0.0.1:{self.api_port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Dead, and its ports anybody's."""
        self.kill()
        self._log.close()
        self._book.close()

    async def start(self) -> None:
        """Returns once it serves."""
        self._ready.unlink(missing_ok=True)
        self._process = self._begin()
        await until(lambda: self._ready.exists() or self.exit_code is not None, seconds=60)
        assert self.exit_code is None, f"it ended with {self.exit_code}: {self.log()[-2000:]}"

    def _begin(self) -> "subprocess.Popen[bytes]":
        # A process of asyncio's own would end with the event loop of one test.
        return subprocess.Popen(
            self._argv,
            env=self._environment,
            cwd=REPOSITORY,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )

    def log(self) -> str:
        """What it wrote."""
        return Path(self._log.name).read_text(encoding="utf-8", errors="replace")

    def kill(self) -> None:
        """kill -9, if it lives."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def terminate(self) -> None:
        """SIGTERM."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)

    def processor_seconds(self) -> float:
        """What it has used since it began, and no other process of the machine."""
        after_its_name = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(after_its_name[11]) + int(after_its_name[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        assert self._process is not None
        return self._process.poll()

    async def exited(self) -> int:
        """Its exit code, once it has ended."""
        await until(lambda: self.exit_code is not None, seconds=60)
        assert self.exit_code is not None
        return self.exit_code

    async def counts(self) -> dict[str, int]:
        """What it holds now; keys as in `hub_process.count`."""
        self._counts.unlink(missing_ok=True)
        os.kill(self.pid, signal.SIGUSR1)
        await until(self._counts.exists)
        found: dict[str, int] = json.loads(self._counts.read_text(encoding="utf-8"))
        return found

    async def back_to(self, base: dict[str, int]) -> None:
        """Wait until nothing is left of what came after `base`; AssertionError names what is."""
        left = {"everything": 1}
        try:
            async with asyncio.timeout(30):
                while left:
                    left = over(await self.counts(), base)
                    await asyncio.sleep(0.1 if left else 0)
        except TimeoutError:
            raise AssertionError(f"left in the hub: {left}") from None


def over(counts: dict[str, int], base: dict[str, int]) -> dict[str, int]:
    """By how much which counts are above the base."""
    room = {"objects": FEW_OBJECTS, "kilobytes": FEW_KILOBYTES}
    return {name: more for name, count in counts.items() if (more := count - base[name]) > room.get(name, 0)}
