"""The account PostgreSQL runs as when we are root, and what that account can reach."""

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from devstack.errors import NoServiceAccount

# postgres: made for this. giveway: ours, made where no postgres exists. nobody: always there.
_CANDIDATES = ("postgres", "giveway")
_LAST_RESORT = "nobody"


@dataclass(frozen=True, slots=True)
class Account:
    """A system account without privileges."""

    name: str
    uid: int
    gid: int


def is_root() -> bool:
    """Whether this process has root's privileges."""
    return os.geteuid() == 0


def service_account(data: Path) -> Account | None:
    """Whom to run PostgreSQL as, made where there is none; None when we are not root."""
    if not is_root():
        return None
    if account := existing_account(data):
        return account
    _create(_CANDIDATES[-1])
    account = _by_name("giveway") or _by_name(_LAST_RESORT)
    if account is None:
        raise NoServiceAccount(
            "PostgreSQL refuses to run as root and there is no account to run it as",
            "`useradd --system giveway`, or set DATABASE_URL to a running PostgreSQL",
        )
    return account


def existing_account(data: Path) -> Account | None:
    """The owner of existing data, else a system account made for it."""
    if data.exists() and data.stat().st_uid != 0:
        return _by_uid(data.stat().st_uid, data.stat().st_gid)
    return next(filter(None, map(_by_name, _CANDIDATES)), None)


def can_reach(account: Account | None, path: Path) -> bool:
    """Whether the account can enter (a folder) or execute (a file) this path. Asked of the kernel itself."""
    if account is None:
        return os.access(path, os.X_OK)
    result = subprocess.run(
        ["test", "-x", str(path)], user=account.uid, group=account.gid, extra_groups=[], cwd="/", check=False
    )
    return result.returncode == 0


def _create(name: str) -> None:
    useradd = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin")
    if useradd is None:
        return
    arguments = ["--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", name]
    subprocess.run([useradd, *arguments], check=False, capture_output=True)


def _by_name(name: str) -> Account | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _by_uid(uid: int, gid: int) -> Account:
    try:
        return Account(pwd.getpwuid(uid).pw_name, uid, gid)
    except KeyError:
        return Account(str(uid), uid, gid)
