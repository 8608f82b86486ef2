"""The fleet as people see it: desktops with state, load and logins, one in detail, and totals (2-desktop §2.1).

Everything here reads. A list is a keyset page: of the newest, or of the worst by one measure.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

import asyncpg

from domain.dispatch_settings import DispatchSettings
from domain.errors import Conflict, InvalidInput, NotFound
from domain.legacy import wire_id
from store.client_history import read_history
from store.database import Connection, Pool
from store.settings import read_dispatch_settings
from store.statements import statements

SQL = statements("fleet")

# A desktop has at most a few slots and a queue of 40; more is a sign, not a list to read.
MOST_TASKS: Final = 200


_ID: Final = re.compile(r"[0-9a-f]{12}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)


class ClientState(StrEnum):
    """The one state of a desktop; migration 0010 says how it is derived."""

    ONLINE = "online"
    # Online, and gets no new work.
    PAUSED = "paused"
    # Never connected, closed its connection itself, or is away for less than 30 s.
    OFFLINE = "offline"
    # Silent for 30 s or more.
    LOST = "lost"
    REVOKED = "revoked"


class Sort(StrEnum):
    """What a list begins with: the newest, or the highest abort rate, longest queue, longest silence."""

    NEWEST = "newest"
    ABORT_RATE = "abort_rate"
    QUEUE_DEPTH = "queue_depth"
    SILENCE = "silence"


@dataclass(frozen=True, slots=True)
class FleetFilter:
    """Which desktops; None: all. `online`: only those that are, paused ones too.

    `platform` and `login`: a platform, and what its login is said to be; "unknown": the desktop says nothing of it. A
    login without a platform: of any.
    """

    tenant_id: int | None = None
    workspace_ids: Sequence[int] | None = None
    state: ClientState | None = None
    online: bool = False
    platform: str | None = None
    login: str | None = None
    with_revoked: bool = True

    @property
    def revoked_too(self) -> bool:
        """Whether revoked ones may be among them."""
        return self.with_revoked or self.state is ClientState.REVOKED


@dataclass(frozen=True, slots=True)
class After:
    """The last desktop of the page before, with its sort key where the list has one."""

    id: UUID
    key: float | None = None


@dataclass(frozen=True, slots=True)
class FleetTotals:
    """The fleet in numbers. All but `states` count desktops that are online (or online and paused) and their tasks."""

    states: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)
    hubs: Mapping[str, int] = field(default_factory=dict)
    # By platform, then by health.
    logins: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    phases: Mapping[str, int] = field(default_factory=dict)
    slots_used: int = 0
    slots_total: int = 0
    queued: int = 0


async def list_clients(
    connection: Connection, which: FleetFilter, *, sort: Sort = Sort.NEWEST, after: After | None = None, limit: int = 50
) -> list[dict[str, Any]]:
    """Desktops with their load: the columns of `fleet_clients` and of `client_view`."""
    workspaces = None if which.workspace_ids is None else list(which.workspace_ids)
    state = None if which.state is None else which.state.value
    filters = (
        which.tenant_id,
        workspaces,
        after and after.id,
        state,
        which.platform,
        which.login,
        which.revoked_too,
        which.online,
    )
    if sort is Sort.NEWEST:
        rows = await connection.fetch(SQL["list_newest"], *filters, limit)
    else:
        rows = await connection.fetch(SQL["list_by"], *filters, sort.value, after and after.key, limit)
    settings = await read_dispatch_settings(connection)
    return [client_view(row, settings) for row in rows]


async def read_client(
    connection: Connection, client_id: UUID, *, tenant_id: int | None = None, workspace_ids: Sequence[int] | None = None
) -> dict[str, Any]:
    """One desktop of the list; NotFound for one not of the tenant, or not of these workspaces."""
    workspaces = None if workspace_ids is None else list(workspace_ids)
    row = await connection.fetchrow(SQL["read_client"], client_id, tenant_id, workspaces)
    if row is None:
        raise NotFound(f"no client {client_id}")
    return client_view(row, await read_dispatch_settings(connection))


async def find_client(connection: Connection | Pool, name: str) -> asyncpg.Record:
    """`id`, `tenant_id` and `name` of the desktop with this id, or the last 12 characters of one; any tenant's.

    InvalidInput for what can be neither, NotFound, Conflict when two end alike.
    """
    text = name.strip().lower()
    if not _ID.fullmatch(text):
        raise InvalidInput(f"{name!r} is no client id, nor the last 12 characters of one")
    rows = await connection.fetch(SQL["find_client"], text)
    if not rows:
        raise NotFound(f"no client {name}; `giveway clients list --all` shows them")
    if len(rows) > 1:
        raise Conflict(f"more than one client's id ends with {name}; give the whole id")
    return rows[0]


async def read_detail(
    connection: Connection,
    client_id: UUID,
    *,
    tenant_id: int | None = None,
    workspace_ids: Sequence[int] | None = None,
    events: int = 20,
) -> dict[str, Any]:
    """The desktop with its `tasks`, `last_error` and the newest `history`; NotFound as `read_client`."""
    found = await read_client(connection, client_id, tenant_id=tenant_id, workspace_ids=workspace_ids)
    error = await connection.fetchrow(SQL["read_last_error"], client_id)
    return {
        **found,
        "tasks": [_task_view(row) for row in await connection.fetch(SQL["read_tasks"], client_id, MOST_TASKS)],
        "last_error": None if error is None else dict(error),
        "history": [dict(row) for row in await read_history(connection, client_id, events)],
    }


def client_view(row: asyncpg.Record, settings: DispatchSettings) -> dict[str, Any]:
    """A row of `fleet_clients` with its slots' limit and whether desktop and server agree on its load.

    A heartbeat is up to 12 s old when it is read: a difference that stays is what matters.
    """
    limit, source = slots_of(row["max_concurrent"], pinned=row["slots_pinned"], settings=settings)
    reported = (row["reported_running"], row["reported_queued"])
    disagrees = row["online"] and None not in reported and reported != (row["slots_used"], row["queued"])
    return {"sort_key": None, **dict(row), "slots_limit": limit, "slots_from": source, "disagrees": disagrees}


def slots_of(own: int | None, *, pinned: bool, settings: DispatchSettings) -> tuple[int, str]:
    """How many tasks may run at once, and who says so: operator, desktop, setting, or the fuse that is below them."""
    wanted = settings.client_concurrency if own is None else own
    if wanted > settings.fuses.client_concurrency:
        return settings.fuses.client_concurrency, "fuse"
    return wanted, "setting" if own is None else "operator" if pinned else "desktop"


def _task_view(row: asyncpg.Record) -> dict[str, Any]:
    execution = row["execution_id"]
    name = wire_id(row["monitor_task_id"] if execution is None else execution)
    return {"task_id": name, **{key: value for key, value in row.items() if key not in ("execution_id", "lane_weight")}}


async def read_totals(connection: Connection | Pool, settings: DispatchSettings, tenant_id: int | None) -> FleetTotals:
    """The fleet in numbers, of one tenant or of all. Reads every desktop that is not revoked, once."""
    ceiling = settings.fuses.client_concurrency
    rows = await connection.fetch(SQL["count_fleet"], tenant_id, settings.client_concurrency, ceiling)
    return totals_of(rows)


def totals_of(rows: Sequence[asyncpg.Record]) -> FleetTotals:
    """The rows of `count_fleet` by section; states that no desktop is in are 0."""
    sections: dict[str, dict[str, int]] = {"state": dict.fromkeys(ClientState, 0)}
    logins: dict[str, dict[str, int]] = {}
    for row in rows:
        if row["section"] == "login":
            logins.setdefault(row["key"], {})[row["detail"]] = row["n"]
        else:
            sections.setdefault(row["section"], {})[row["key"]] = row["n"]
    slots = sections.get("slots", {})
    return FleetTotals(
        states={str(state): n for state, n in sections["state"].items()},
        versions=sections.get("version", {}),
        hubs=sections.get("hub", {}),
        logins=logins,
        phases=sections.get("phase", {}),
        slots_used=slots.get("used", 0),
        slots_total=slots.get("total", 0),
        queued=sections.get("tasks", {}).get("queued", 0),
    )
