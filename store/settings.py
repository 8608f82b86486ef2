"""Reading and writing the hot settings (1-dispatch §1.3: in force everywhere within 2 s; each round reads them)."""

from dataclasses import dataclass
from typing import Any

from domain.dispatch_settings import (
    DispatchSettings,
    check_fuse,
    check_setting,
    check_together,
    from_rows,
    fuses_from_rows,
)
from domain.errors import StaleVersion
from store.database import Connection
from store.listen import DISPATCH, wake
from store.statements import statements

SQL = statements("settings")


@dataclass(frozen=True, slots=True)
class PlatformLimits:
    """One platform's limits, with the general settings where it has none of its own."""

    max_concurrent: int
    soft_timeout_ms: int
    hard_timeout_ms: int
    paused: bool = False


async def read_dispatch_settings(connection: Connection) -> DispatchSettings:
    """The settings as they are committed now."""
    rows = await connection.fetch(SQL["read_dispatch_settings"])
    fuses = fuses_from_rows({row["key"]: row["value"] for row in rows if row["is_fuse"]})
    return from_rows({row["key"]: row["value"] for row in rows if not row["is_fuse"]}, fuses)


async def read_platform_limits(connection: Connection, settings: DispatchSettings) -> dict[str, PlatformLimits]:
    """Limits of every enabled platform, by id."""
    rows = await connection.fetch(SQL["read_platform_limits"])
    return {row["id"]: _limits(row, settings) for row in rows}


def _limits(row: Any, settings: DispatchSettings) -> PlatformLimits:
    soft, hard, most = row["interrupt_soft_timeout_ms"], row["interrupt_hard_timeout_ms"], row["max_concurrent"]
    return PlatformLimits(
        max_concurrent=min(
            settings.platform_concurrency if most is None else most, settings.fuses.platform_concurrency
        ),
        soft_timeout_ms=settings.interrupt_soft_timeout_ms if soft is None else soft,
        hard_timeout_ms=settings.interrupt_hard_timeout_ms if hard is None else hard,
        paused=bool(row["paused"]),
    )


async def lock_settings(connection: Connection) -> None:
    """Changes of hot settings and pauses go one after the other: a version that was checked stays the current one.

    No round of the coordinator runs meanwhile: the next one knows the new value. Best taken before other locks.
    """
    await connection.execute(SQL["lock_settings"])


async def write_dispatch_setting(
    connection: Connection, key: str, value: Any, *, actor: str, expected: int | None = None
) -> int:
    """Set one hot setting and audit it; returns its new version.

    InvalidInput for a bad key or type, or beside another setting; OverFuse; StaleVersion unless its version is
    `expected` (0: never set).
    """
    version = await write_without_others(connection, key, value, actor=actor, expected=expected)
    check_together(await read_dispatch_settings(connection))
    return version


async def write_without_others(
    connection: Connection, key: str, value: Any, *, actor: str, expected: int | None = None
) -> int:
    """The same for one of several: whoever changes them asks `check_together` once all are written."""
    await lock_settings(connection)
    typed = check_setting(key, value, (await read_dispatch_settings(connection)).fuses)
    current: int = await connection.fetchval(SQL["setting_version"], key)
    if expected is not None and expected != current:
        raise StaleVersion(f"{key} is at version {current}, not {expected}; read it again", version=current)
    version: int = await connection.fetchval(SQL["write_dispatch_setting"], key, typed, actor)
    await wake(connection, DISPATCH)
    return version


async def write_fuse(connection: Connection, key: str, value: float, *, actor: str) -> None:
    """Set one fuse of this installation and audit it. InvalidInput for an unknown key or an unusable number."""
    await connection.execute(SQL["write_fuse"], key, check_fuse(key, value), actor)
    await wake(connection, DISPATCH)
