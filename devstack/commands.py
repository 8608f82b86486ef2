"""What `giveway up` and `giveway down` do: start and stop the background supervisor, and say how it goes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from devstack import record
from devstack.config import REPOSITORY
from devstack.errors import DevstackError, PartFailed
from devstack.files import last_lines
from devstack.process import Identity, is_alive

STATE_DIR = REPOSITORY / ".giveway"
_POLL = 0.1
_STOP_LIMIT = 180.0

Status = dict[str, object]


def up(detach: bool = True, state_dir: Path = STATE_DIR, *, apps: bool = True, console: Console | None = None) -> int:
    """Start the stack; the exit code. Detached it goes on in the background, else it runs until Ctrl-C."""
    console = console or Console()
    state_dir.mkdir(parents=True, exist_ok=True)
    if _supervisor(state_dir):
        console.print("The stack is already running.")
        _print_addresses(console, state_dir)
        return 0
    (state_dir / "status.json").unlink(missing_ok=True)
    process = _spawn(state_dir, apps=apps)
    try:
        _follow(process, state_dir, console)
        _print_addresses(console, state_dir)
        if not detach:
            console.print("Ctrl-C stops it.")
            return process.wait()
    except DevstackError as error:
        console.print(f"[bold red]{error.code}[/] ", end="")
        console.print(str(error), markup=False, soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        return _interrupted(process, console)
    return 0


def down(state_dir: Path = STATE_DIR, *, console: Console | None = None) -> int:
    """Stop the stack and everything on it; the exit code. Nothing running is fine."""
    console = console or Console()
    supervisor = _supervisor(state_dir)
    if supervisor is None:
        console.print("The stack is not running.")
        return 0
    os.kill(supervisor.pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_LIMIT
    with console.status("stopping"):
        while is_alive(supervisor) and time.monotonic() < deadline:
            time.sleep(_POLL)
    if is_alive(supervisor):
        console.print(f"The supervisor (pid {supervisor.pid}) has not stopped in {_STOP_LIMIT:g} s.")
        return 1
    console.print("Stopped.")
    return 0


def read_status(state_dir: Path = STATE_DIR) -> Status | None:
    """The supervisor's last report: phase, messages, error, parts. None where there is none."""
    try:
        content = json.loads((state_dir / "status.json").read_text())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _supervisor(state_dir: Path) -> Identity | None:
    """The living supervisor, also while it is starting or stopping."""
    status = read_status(state_dir)
    if status is None or not isinstance(status["pid"], int) or not isinstance(status["started"], int):
        return None
    identity = Identity(status["pid"], status["started"])
    return identity if is_alive(identity) else None


def _spawn(state_dir: Path, *, apps: bool) -> subprocess.Popen[bytes]:
    logs = state_dir / "logs"
    logs.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "devstack.run", "--state-dir", str(state_dir.resolve())]
    with (logs / "supervisor.log").open("wb") as log:
        return subprocess.Popen(
            command if apps else [*command, "--no-apps"],
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _follow(process: subprocess.Popen[bytes], state_dir: Path, console: Console) -> None:
    """Show progress until the stack is ready; raise what it failed with."""
    shown = 0
    with console.status("starting the stack"):
        while True:
            ended = process.poll() is not None
            status = read_status(state_dir) or {}
            messages = status.get("messages")
            for message in messages[shown:] if isinstance(messages, list) else []:
                console.print(f"  {message}", markup=False)
                shown += 1
            if status.get("phase") == "ready":
                return
            if ended:
                raise _failure(status, state_dir)
            time.sleep(_POLL)


def _failure(status: Status, state_dir: Path) -> DevstackError:
    log = state_dir / "logs" / "supervisor.log"
    error = status.get("error")
    if not isinstance(error, dict):
        return PartFailed("the supervisor ended", f"see {log}, which ends with:\n{last_lines(log)}")
    failure = DevstackError(str(error["message"]), str(error["fix"]))
    failure.code = str(error["code"])  # type: ignore[misc]  # as its own process named it
    return failure


def _interrupted(process: subprocess.Popen[bytes], console: Console) -> int:
    console.print("Stopping.")
    process.terminate()
    process.wait()
    return 130


def _print_addresses(console: Console, state_dir: Path) -> None:
    running = record.find(state_dir)
    if running is None:
        return
    table = Table(show_header=False, box=None)
    if "api" in running.ports:
        table.add_row("API", f"http://127.0.0.1:{running.ports['api']}")
        table.add_row("desktop hub", f"ws://127.0.0.1:{running.ports['hub']}/api/desktop/ws")
        shown = [running.ports[name] for name in ("api", "metrics") if name in running.ports]
        table.add_row("metrics", " and ".join(f"http://127.0.0.1:{port}/metrics" for port in shown))
    table.add_row("Temporal UI", running.endpoints.temporal_ui_url or "(the given server's own)")
    table.add_row("Temporal", running.endpoints.temporal_address)
    table.add_row("PostgreSQL", without_password(running.endpoints.database_url))
    table.add_row("RabbitMQ", without_password(running.endpoints.amqp_url))
    table.add_row("state and logs", str(state_dir))
    console.print(table)


def without_password(url: str) -> str:
    """The address without its login."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
