"""The background supervisor: `python -m devstack.run --state-dir .giveway`. Runs until SIGTERM or SIGINT."""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path

from devstack.apps import app_parts
from devstack.errors import DevstackError
from devstack.files import write_private
from devstack.ports import APP_PORTS
from devstack.process import identify
from devstack.stack import Stack


@dataclass(slots=True)
class Report:
    """`status.json`: how far the start has come, and the parts once it is done."""

    path: Path
    phase: str = "starting"
    messages: list[str] = field(default_factory=list)
    error: dict[str, str] | None = None
    parts: list[dict[str, object]] = field(default_factory=list)

    def say(self, message: str) -> None:
        """Add a line of progress."""
        _log(message)
        self.messages.append(message)
        self.save()

    def enter(self, phase: str) -> None:
        """Change the phase: starting, ready, stopping, stopped, failed."""
        self.phase = phase
        self.save()

    def fail(self, error: DevstackError) -> None:
        """The start has failed."""
        _log(f"[{error.code}] {error}")
        self.error = {"code": error.code, "message": error.message, "fix": error.fix}
        self.enter("failed")

    def show(self, stack: Stack) -> None:
        """Take over the state of every part."""
        self.parts = [
            {"name": s.name, "state": s.state, "pid": s.pid, "restarts": s.restarts, "log": str(s.log)}
            for s in stack.status()
        ]
        self.save()

    def save(self) -> None:
        """Write the file in one step."""
        supervisor = identify(os.getpid())
        content = {
            "pid": os.getpid(),
            "started": supervisor.started if supervisor else 0,
            "phase": self.phase,
            "messages": self.messages,
            "error": self.error,
            "parts": self.parts,
        }
        write_private(self.path, json.dumps(content, indent=2))


async def run(state_dir: Path, *, apps: bool) -> int:
    """Start everything, report, wait for a signal, stop everything. The exit code."""
    stop = _stop_event()
    report = Report(state_dir / "status.json")
    report.save()
    working = asyncio.create_task(_serve(state_dir, report, stop, apps=apps))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if report.phase == "starting":
        working.cancel()  # asked to stop before the start was done
    try:
        await working
    except DevstackError as error:
        report.fail(error)
        return 1
    except asyncio.CancelledError:
        pass
    report.enter("stopped")
    return 0


async def _serve(state_dir: Path, report: Report, stop: asyncio.Event, *, apps: bool) -> None:
    reserve = APP_PORTS if apps else ()
    stack = Stack(state_dir, on_progress=report.say, on_change=lambda: report.show(stack), reserve=reserve)
    async with stack:
        if apps:
            for part in app_parts(stack.endpoints, state_dir, stack.app_ports()):
                await stack.supervise(part)
        report.enter("ready")
        await stop.wait()
        report.enter("stopping")


def _stop_event() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


def _log(message: str) -> None:
    sys.stdout.write(f"{message}\n")
    sys.stdout.flush()


def main(arguments: list[str] | None = None) -> int:
    """Entry point of the process."""
    parser = argparse.ArgumentParser(prog="python -m devstack.run", description=__doc__)
    parser.add_argument("--state-dir", type=Path, default=Path(".giveway"))
    parser.add_argument("--no-apps", action="store_true", help="the three services only")
    options = parser.parse_args(arguments)
    state_dir: Path = options.state_dir.resolve()
    state_dir.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(KeyboardInterrupt):
        return asyncio.run(run(state_dir, apps=not options.no_apps))
    return 0


if __name__ == "__main__":
    sys.exit(main())
