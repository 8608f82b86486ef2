"""What operators set: hot settings, and the limits of platforms, tenants and clients (6-operations, Settings).

Every change names the version it is a change of, is audited with before, after and actor, and wakes the coordinator.
Readers read in each transaction of theirs, so it is in force at the commit.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import asyncpg

from domain.dispatch_settings import FUSE_KEYS, KEYS, DispatchSettings, Fuses, check_together
from domain.errors import InvalidInput, NotFound, OverFuse, StaleVersion
from store.client_history import ClientEvent, note_event
from store.database import Connection
from store.listen import DISPATCH, wake
from store.settings import lock_settings, read_dispatch_settings, write_without_others
from store.statements import statements

SQL = statements("ops_settings")

_DEFAULTS: Final = DispatchSettings()


@dataclass(frozen=True, slots=True)
class Setting:
    """One hot setting as it is in force. `fuse`: its hard ceiling, if it has one. `version` 0: never set."""

    key: str
    value: Any
    default: Any
    fuse: float | None
    version: int
    updated_by: str | None
    updated_at: datetime | None


@dataclass(frozen=True, slots=True)
class Fuse:
    """One hard ceiling of the installation; changed by `giveway settings fuse` alone."""

    key: str
    value: float
    default: float
    updated_by: str | None
    updated_at: datetime | None


@dataclass(frozen=True, slots=True)
class PlatformChange:
    """A platform's own limits; None: the general setting. Times in milliseconds."""

    max_concurrent: int | None
    interrupt_soft_timeout_ms: int | None
    interrupt_hard_timeout_ms: int | None
    paused: bool


@dataclass(frozen=True, slots=True)
class TenantChange:
    """A tenant's share and minute budget; `dispatch_per_minute` None: the general setting."""

    fair_weight: int
    dispatch_per_minute: int | None
    paused: bool


@dataclass(frozen=True, slots=True)
class ClientChange:
    """A desktop's own limits; None: what the desktop says of itself, or the general setting."""

    max_concurrent: int | None
    max_queue_depth: int | None
    paused: bool


async def list_settings(connection: Connection) -> list[Setting]:
    """Every hot setting, in the order of the documentation."""
    settings = await read_dispatch_settings(connection)
    rows = {row["key"]: row for row in await connection.fetch(SQL["list_settings"])}
    return [_setting(key, settings, rows.get(key)) for key in KEYS]


def _setting(key: str, settings: DispatchSettings, row: asyncpg.Record | None) -> Setting:
    return Setting(
        key=key,
        value=getattr(settings, key),
        default=getattr(_DEFAULTS, key),
        fuse=getattr(settings.fuses, key) if key in FUSE_KEYS else None,
        version=row["version"] if row else 0,
        updated_by=row["updated_by"] if row else None,
        updated_at=row["updated_at"] if row else None,
    )


async def read_setting(connection: Connection, key: str) -> Setting:
    """One hot setting; NotFound for a key that is none."""
    for setting in await list_settings(connection):
        if setting.key == key:
            return setting
    raise NotFound(f"there is no dispatch setting {key!r}; known are {', '.join(KEYS)}")


def collection_version(settings: list[Setting]) -> int:
    """The version of all of them together: no version ever falls, so neither does the sum."""
    return sum(setting.version for setting in settings)


async def write_settings(
    connection: Connection, values: Mapping[str, Any], *, actor: str, expected: int | None
) -> list[Setting]:
    """Set several at once, or none of them. StaleVersion unless `expected` is the collection's version; see one's."""
    await lock_settings(connection)
    current = collection_version(await list_settings(connection))
    if expected is not None and expected != current:
        raise StaleVersion(f"the settings are at version {current}, not {expected}; read them again", version=current)
    for key, value in values.items():
        await write_without_others(connection, key, value, actor=actor)
    check_together(await read_dispatch_settings(connection))
    return await list_settings(connection)


async def list_fuses(connection: Connection) -> list[Fuse]:
    """The hard ceilings in force."""
    fuses = (await read_dispatch_settings(connection)).fuses
    rows = {row["key"]: row for row in await connection.fetch(SQL["list_fuses"])}
    return [_fuse(key, fuses, rows.get(key)) for key in FUSE_KEYS]


def _fuse(key: str, fuses: Fuses, row: asyncpg.Record | None) -> Fuse:
    return Fuse(
        key=key,
        value=getattr(fuses, key),
        default=getattr(Fuses(), key),
        updated_by=row["updated_by"] if row else None,
        updated_at=row["updated_at"] if row else None,
    )


async def list_platforms(connection: Connection) -> list[asyncpg.Record]:
    """Every platform with its own limits."""
    return await connection.fetch(SQL["read_platforms"], None)


async def read_platform(connection: Connection, platform: str) -> asyncpg.Record:
    """One platform; NotFound."""
    row = await connection.fetchrow(SQL["read_platforms"], platform)
    if row is None:
        raise NotFound(f"no platform {platform!r}")
    return row


async def write_platform(
    connection: Connection, platform: str, change: PlatformChange, *, actor: str, expected: int | None
) -> asyncpg.Record:
    """Replace a platform's limits; returns it. NotFound, StaleVersion, OverFuse, InvalidInput (soft above hard)."""
    await lock_settings(connection)
    settings = await read_dispatch_settings(connection)
    row = await read_platform(connection, platform)
    _check_version(f"platform {platform}", row["version"], expected)
    _check_fuse("platform_concurrency", change.max_concurrent, settings.fuses)
    _check_timeouts(change, settings)
    pinned = change.interrupt_soft_timeout_ms is not None or change.interrupt_hard_timeout_ms is not None
    await connection.execute(
        SQL["write_platform"],
        platform,
        change.max_concurrent,
        change.interrupt_soft_timeout_ms,
        change.interrupt_hard_timeout_ms,
        # Written back as it was read, a measured timeout stays a measured one.
        pinned and (bool(row["timeouts_pinned"]) or not _same_timeouts(change, row)),
        change.paused,
        actor,
    )
    await wake(connection, DISPATCH)
    return await read_platform(connection, platform)


def _same_timeouts(change: PlatformChange, row: asyncpg.Record) -> bool:
    given = (change.interrupt_soft_timeout_ms, change.interrupt_hard_timeout_ms)
    return given == (row["interrupt_soft_timeout_ms"], row["interrupt_hard_timeout_ms"])


def _check_timeouts(change: PlatformChange, settings: DispatchSettings) -> None:
    soft = change.interrupt_soft_timeout_ms or settings.interrupt_soft_timeout_ms
    hard = change.interrupt_hard_timeout_ms or settings.interrupt_hard_timeout_ms
    if soft > hard:
        raise InvalidInput(f"the soft timeout of {soft} ms is over the hard one of {hard} ms")


async def list_tenants(connection: Connection, after: int | None, limit: int) -> list[asyncpg.Record]:
    """Tenants by id, after the given one."""
    return await connection.fetch(SQL["read_tenants"], None, after, limit)


async def read_tenant(connection: Connection, tenant_id: int) -> asyncpg.Record:
    """One tenant; NotFound."""
    row = await connection.fetchrow(SQL["read_tenants"], tenant_id, None, 1)
    if row is None:
        raise NotFound(f"no tenant {tenant_id}")
    return row


async def write_tenant(
    connection: Connection, tenant_id: int, change: TenantChange, *, actor: str, expected: int | None
) -> asyncpg.Record:
    """Replace a tenant's share, budget and pause; returns it. NotFound, StaleVersion, OverFuse."""
    row = await connection.fetchrow(SQL["lock_tenant"], tenant_id)
    if row is None:
        raise NotFound(f"no tenant {tenant_id}")
    _check_version(f"tenant {tenant_id}", row["version"], expected)
    fuses = (await read_dispatch_settings(connection)).fuses
    _check_fuse("tenant_per_minute", change.dispatch_per_minute, fuses)
    await connection.execute(
        SQL["write_tenant"],
        tenant_id,
        change.fair_weight,
        change.dispatch_per_minute,
        change.paused,
        actor,
        {name: row[name] for name in asdict(change)},
    )
    await wake(connection, DISPATCH)
    return await read_tenant(connection, tenant_id)


async def write_client(
    connection: Connection, client_id: UUID, change: ClientChange, *, actor: str, expected: int | None
) -> None:
    """Replace a client's limits and pause. NotFound (revoked ones too), StaleVersion, OverFuse."""
    row = await connection.fetchrow(SQL["lock_client"], client_id)
    if row is None:
        raise NotFound(f"no client {client_id}")
    _check_version(f"client {client_id}", row["version"], expected)
    fuses = (await read_dispatch_settings(connection)).fuses
    _check_fuse("client_concurrency", change.max_concurrent, fuses)
    _check_fuse("client_queue_depth", change.max_queue_depth, fuses)
    await connection.execute(
        SQL["write_client"],
        client_id,
        change.max_concurrent,
        change.max_queue_depth,
        change.paused,
        actor,
        {name: row[name] for name in asdict(change)},
    )
    changed = {name: [row[name], value] for name, value in asdict(change).items() if row[name] != value}
    await note_event(connection, client_id, ClientEvent.SETTINGS_CHANGED, {"actor": actor, "changed": changed})
    await wake(connection, DISPATCH)


def _check_version(what: str, current: int, expected: int | None) -> None:
    if expected is not None and expected != current:
        raise StaleVersion(f"{what} is at version {current}, not {expected}; read it again", version=current)


def _check_fuse(key: str, value: int | None, fuses: Fuses) -> None:
    limit = getattr(fuses, key)
    if value is not None and value > limit:
        raise OverFuse(f"{value} is over the fuse {key} of {limit:g}; lower it", fuse=key, limit=limit)
