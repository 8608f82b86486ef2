"""Starts parts in order, keeps them alive, stops them in reverse order."""

from collections.abc import Callable
from pathlib import Path

from devstack.errors import PartUnknown
from devstack.part import Part, PartStatus
from devstack.process import end_leftovers
from devstack.runner import Runner


def _nothing() -> None:
    """No listener."""


class Supervisor:
    """The processes of one state folder."""

    def __init__(self, state_dir: Path, on_change: Callable[[], None] = _nothing) -> None:
        self._run_dir = state_dir / "run"
        self._log_dir = state_dir / "logs"
        self._on_change = on_change
        self._runners: dict[str, Runner] = {}

    def clean_up(self) -> list[str]:
        """Make the folders and end what a killed supervisor left running. Blocks until it is gone."""
        self._run_dir.mkdir(parents=True, exist_ok=True)
        self._log_dir.mkdir(parents=True, exist_ok=True)
        return end_leftovers(self._run_dir)

    async def start(self, part: Part) -> None:
        """Start a part and wait until it is ready (a one-shot: until it has ended well)."""
        runner = Runner(part, self._run_dir, self._log_dir, self._on_change)
        if earlier := self._runners.pop(part.name, None):
            await earlier.stop()
        self._runners[part.name] = runner
        await runner.start()

    async def stop(self, name: str) -> None:
        """Stop one part. It stays stopped until it is restarted."""
        await self._runner(name).stop()

    async def restart(self, name: str) -> None:
        """Stop one part and start it again."""
        runner = self._runner(name)
        await runner.stop()
        await runner.start()

    async def stop_all(self) -> None:
        """Stop every part, the last started first."""
        for runner in reversed(list(self._runners.values())):
            await runner.stop()

    def pid(self, name: str) -> int | None:
        """The part's process, or None when it is not running now."""
        return self._runner(name).pid

    def status(self) -> list[PartStatus]:
        """Every part, in the order of start."""
        return [runner.status() for runner in self._runners.values()]

    def _runner(self, name: str) -> Runner:
        if name not in self._runners:
            known = ", ".join(self._runners) or "none"
            raise PartUnknown(f"no part is called {name!r}", f"parts: {known}")
        return self._runners[name]
