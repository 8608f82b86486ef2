"""What every command shares: the console, machine output, the process's settings, and how services run."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from rich.console import Console

if TYPE_CHECKING:
    from settings import Settings

# Not a terminal: as wide as a log usually is.
console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)

Json = Annotated[bool, typer.Option("--json", help="Machine output: one JSON object on the last line.")]


def stop_on_signals() -> asyncio.Event:
    """SIGTERM and SIGINT ask for a bounded, orderly stop."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    return stop


def stop_and_hurry_on_signals() -> tuple[asyncio.Event, asyncio.Event]:
    """The same; a second signal sets the second event: do not wait for anybody."""
    stop, hurry = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def receive() -> None:
        (hurry if stop.is_set() else stop).set()

    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, receive)
    return stop, hurry


def start_logging() -> None:
    """Plain log lines on stderr; the libraries' chatter from warnings up."""
    logging.basicConfig(
        level=os.environ.get("LOG_LEVEL", "INFO"), format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    for noisy in ("httpx", "aiormq", "aio_pika"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def run_service(run: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """A long-running process: plain log lines, uvloop."""
    import gc

    import uvloop

    start_logging()
    # Modules and what they hold stay: the collector need not look at them again, a tenth of the time spent on parsing.
    gc.freeze()
    # What a batch of results holds is freed without the collector; it looks for cycles less often than by default.
    gc.set_threshold(10_000, 50, 50)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


def running_settings() -> "Settings":
    """The environment's settings, or those of the running stack where the environment names no database."""
    from devstack import record
    from devstack.commands import STATE_DIR
    from devstack.demo.server import describe
    from devstack.ports import APP_PORTS, AppPorts
    from settings import load_settings

    running = None if os.environ.get("DATABASE_URL") else record.find(STATE_DIR)
    if running is None or "api" not in running.ports:
        return load_settings()
    ports = AppPorts(**{name: running.ports.get(name, 0) for name in APP_PORTS})
    return describe(running.endpoints, STATE_DIR, ports, None).settings


def print_json(value: Any) -> None:
    """One JSON object on one line: the last line of a command with `--json`."""
    typer.echo(orjson.dumps(value, default=str).decode())
