"""The servers of one test run: started once, by whoever leads it, and shared by its workers."""

import asyncio
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Listener
from pathlib import Path
from secrets import token_hex

STATE_DIR = Path(__file__).resolve().parent.parent.parent / ".giveway" / "test"


@dataclass(frozen=True, slots=True)
class Servers:
    """Addresses of the real parts."""

    database_url: str
    amqp_url: str
    temporal_address: str
    temporal_namespace: str = "giveway"


def given_servers(environ: Mapping[str, str] = os.environ) -> Servers | None:
    """The servers that the environment names, if it names all three."""
    given = [environ.get(name, "") for name in ("DATABASE_URL", "AMQP_URL", "TEMPORAL_ADDRESS")]
    return Servers(*given) if all(given) else None


class StackThread:
    """Runs the embedded stack in an event loop of its own, since the fixtures of a session outlive each test's loop."""

    def __init__(self) -> None:
        self._started = threading.Event()
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: BaseException | None = None
        self._servers: Servers | None = None
        self._thread: threading.Thread | None = None

    async def _run(self) -> None:
        from devstack.stack import Stack

        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with Stack(STATE_DIR, durable=False) as stack:
                ends = stack.endpoints
                self._servers = Servers(
                    ends.database_url, ends.amqp_url, ends.temporal_address, ends.temporal_namespace
                )
                self._started.set()
                await self._stop.wait()
        except BaseException as error:
            self._failure = error
            raise
        finally:
            self._started.set()

    def servers(self) -> Servers:
        """Where they answer; starts them at the first call. RuntimeError if they did not start."""
        if self._thread is None:
            self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="stack")
            self._thread.start()
        self._started.wait()
        if self._servers is None:
            raise RuntimeError(f"the embedded stack did not start: {self._failure}")
        return self._servers

    def stop(self) -> None:
        """End what was started."""
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread is not None:
            self._thread.join(timeout=60)


@dataclass(frozen=True, slots=True)
class Ticket:
    """With which a worker asks: a port of this machine, and a key."""

    port: int
    key: str


class FrontDesk:
    """Beside xdist's controller: the stack starts when the first worker asks for it, and outlives every worker."""

    def __init__(self) -> None:
        self._stack = StackThread()
        self._key = token_hex(16)
        self._listener = Listener(("127.0.0.1", 0), authkey=self._key.encode())
        threading.Thread(target=self._serve, name="front-desk", daemon=True).start()

    @property
    def ticket(self) -> Ticket:
        """For one worker."""
        return Ticket(self._listener.address[1], self._key)

    def close(self) -> None:
        """The run is over."""
        self._stack.stop()

    def _serve(self) -> None:
        while True:
            try:
                with self._listener.accept() as worker:
                    worker.send(self._answer())
            except (OSError, EOFError, AuthenticationError):
                continue  # that worker is gone

    def _answer(self) -> Servers | str:
        try:
            return self._stack.servers()
        except RuntimeError as error:
            return str(error)


def ask(ticket: Ticket) -> Servers:
    """The run's servers, asked by a worker; waits while they start. RuntimeError if they did not."""
    with Client(("127.0.0.1", ticket.port), authkey=ticket.key.encode()) as desk:
        answer = desk.recv()
    if isinstance(answer, Servers):
        return answer
    raise RuntimeError(answer)
