"""The embedded stack as an async context manager: three services, and any application process added to them."""

import asyncio
import fcntl
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from devstack import config, postgres, probes, rabbitmq, record, temporal
from devstack.errors import ServiceUnreachable, StackRunning
from devstack.part import Part, PartStatus
from devstack.ports import APP_PORTS, AppPorts, PortBook
from devstack.record import Endpoints
from devstack.supervisor import Supervisor

__all__ = ["ALL", "Endpoints", "Stack"]

ALL = frozenset({"postgres", "rabbitmq", "temporal"})

Progress = Callable[[str], None]


def _silent(message: str) -> None:
    """No listener."""


class Stack:
    """One machine's services, kept in `state_dir`.

    A service named by `DATABASE_URL`, `AMQP_URL` or `TEMPORAL_ADDRESS` in `environ` replaces the embedded
    one. No signal handler is installed, so it can run in any thread; that thread has to live until the
    stack is closed, because its death ends the servers. `services` limits what is started (endpoints of
    the others are empty texts). `reserve` names ports (`APP_PORTS`) to take before anything is started,
    so that a taken one is said at once. Not `durable`: the data need not survive a power failure, and
    commits cost less.
    """

    def __init__(
        self,
        state_dir: Path,
        *,
        environ: Mapping[str, str] = os.environ,
        services: Collection[str] = ALL,
        on_progress: Progress | None = None,
        on_change: Callable[[], None] | None = None,
        reserve: Collection[str] = (),
        durable: bool = True,
    ) -> None:
        self.state_dir = state_dir.resolve()
        self._environ = environ
        self._services = frozenset(services)
        self._progress = on_progress or _silent
        self._reserve = reserve
        self._durable = durable
        self._config = config.load()
        preferred = {"temporal": self._config.port, "temporal_ui": self._config.ui_port}
        self._ports = PortBook(self.state_dir, environ, preferred)
        self._supervisor = Supervisor(self.state_dir, on_change or (lambda: None))
        self._embedded: set[str] = set()
        self._lock: int | None = None
        self._endpoints: Endpoints | None = None
        self._node: rabbitmq.Node | None = None

    async def __aenter__(self) -> Self:
        self._take_lock()
        try:
            for name in await asyncio.to_thread(self._supervisor.clean_up):
                self._progress(f"ended a {name} left by an earlier supervisor")
            for name in self._reserve:
                self._ports.take(name)
            self._endpoints = await self._start_services()
            record.publish(self.state_dir, self._endpoints, tuple(sorted(self._embedded)), self._ports.taken)
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    @property
    def endpoints(self) -> Endpoints:
        """Where the services answer."""
        if self._endpoints is None:
            raise ServiceUnreachable("the stack is not running", "enter it first: `async with Stack(...)`")
        return self._endpoints

    def app_ports(self) -> AppPorts:
        """The ports of the application's processes; `PortTaken` where a configured one is in use."""
        ports = AppPorts(**{name: self._ports.take(name) for name in APP_PORTS})
        record.publish(self.state_dir, self.endpoints, tuple(sorted(self._embedded)), self._ports.taken)
        return ports

    async def supervise(self, part: Part) -> None:
        """Add a process, wait until it is ready (a one-shot: until it has ended), and keep it alive."""
        self._progress(f"starting {part.name}")
        await self._supervisor.start(part)

    async def stop_part(self, name: str) -> None:
        """Stop one process; it stays stopped until `restart_part`."""
        await self._supervisor.stop(name)

    async def restart_part(self, name: str) -> None:
        """Stop one process, start it, wait until it is ready."""
        await self._supervisor.restart(name)

    def pid(self, name: str) -> int | None:
        """The process id, or None while it is down."""
        return self._supervisor.pid(name)

    def status(self) -> list[PartStatus]:
        """Every process, in the order of start."""
        return self._supervisor.status()

    def rabbitmqctl(self, *arguments: str) -> tuple[tuple[str, ...], dict[str, str]]:
        """Command and environment of `rabbitmqctl` for the embedded broker."""
        if self._node is None:
            raise ServiceUnreachable("the broker is not an embedded one", "use its own rabbitmqctl")
        return (
            rabbitmq.control_command(self._node, *arguments, environ=self._environ),
            rabbitmq.environment(self._node, self._environ),
        )

    def _take_lock(self) -> None:
        self.state_dir.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.state_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            raise StackRunning(
                f"a stack already runs in {self.state_dir}", "use it, `make down` it, or choose another state folder"
            ) from error
        self._lock = lock

    async def _start_services(self) -> Endpoints:
        try:
            async with asyncio.TaskGroup() as group:
                database = group.create_task(self._start_postgres())
                broker = group.create_task(self._start_rabbitmq())
                server = group.create_task(self._start_temporal())
        except BaseExceptionGroup as errors:
            raise _first(errors) from errors
        address, ui_url = server.result()
        return Endpoints(database.result(), broker.result(), address, ui_url, self._namespace)

    @property
    def _namespace(self) -> str:
        return self._environ.get("TEMPORAL_NAMESPACE") or self._config.namespace

    async def _start_postgres(self) -> str:
        if "postgres" not in self._services:
            return ""
        if given := self._environ.get("DATABASE_URL"):
            return await self._given_database(given)
        port = self._ports.take("postgres")
        home = await asyncio.to_thread(postgres.find_home, self.state_dir)
        if not home.data.exists():
            self._progress("making a PostgreSQL database")
        await asyncio.to_thread(postgres.initialise, home, self.state_dir / "logs" / "initdb.log")
        await self._start("postgres", postgres.part(home, port, durable=self._durable))
        await postgres.create_database(postgres.url(home, port, "postgres"))
        return postgres.url(home, port)

    async def _given_database(self, given: str) -> str:
        if not await probes.postgres(given):
            raise ServiceUnreachable(
                "no PostgreSQL answers at DATABASE_URL (or it refuses the login or lacks the database)",
                "start it, correct DATABASE_URL, or unset it to use the embedded server",
            )
        self._progress("using the PostgreSQL of DATABASE_URL")
        return given

    async def _start_rabbitmq(self) -> str:
        if "rabbitmq" not in self._services:
            return ""
        given = self._environ.get("AMQP_URL")
        if given and await probes.amqp(given):
            self._progress("using the broker of AMQP_URL")
            return given
        if given:
            self._progress("no broker answers at AMQP_URL: starting an embedded one")
        rabbitmq.server(self._environ)  # said before anything is started
        ports = [self._ports.take(name) for name in ("amqp", "amqp_dist", "epmd")]
        self._node = rabbitmq.make_node(self.state_dir, *ports)
        for part in rabbitmq.parts(self._node, self._environ):
            await self._start("rabbitmq", part)
        return self._node.url

    async def _start_temporal(self) -> tuple[str, str | None]:
        if "temporal" not in self._services:
            return "", None
        if given := self._environ.get("TEMPORAL_ADDRESS"):
            if not await probes.temporal(given):
                raise temporal.unreachable(given)
            self._progress("using the server of TEMPORAL_ADDRESS")
            await temporal.prepare(given, self._namespace, self._config)
            return given, None
        port, ui_port = self._ports.take("temporal"), self._ports.take("temporal_ui")
        home = self.state_dir / "temporal"
        home.mkdir(mode=0o700, exist_ok=True)
        await self._start("temporal", temporal.part(self._config, home, port, ui_port))
        address = f"{self._config.address}:{port}"
        await temporal.prepare(address, self._namespace, self._config)
        return address, f"http://{self._config.address}:{ui_port}"

    async def _start(self, service: str, part: Part) -> None:
        self._embedded.add(service)
        self._progress(f"starting {part.name}")
        await self._supervisor.start(part)
        self._progress(f"{part.name} is ready")

    async def _close(self) -> None:
        """Stop everything, even when the caller is being cancelled, and give the folder back."""
        record.withdraw(self.state_dir)
        await asyncio.shield(self._supervisor.stop_all())
        self._ports.close()
        self._endpoints = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first single error of a group: what a person can act on."""
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
