"""The coordinator's reads and its one write (1-dispatch §1.4)."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from uuid import UUID

import asyncpg

from domain.budgets import limits_of
from domain.dispatch_settings import DispatchSettings, PlatformScope
from domain.ids import new_uuid
from domain.lanes import MONITOR_LANES, Lane, route_lane
from domain.rounds import EVERYBODY, Candidate, Live, Pick, RoundPlan, RoundState
from store.client_choice import client_limits, client_state
from store.database import Connection
from store.outbox import dispatch_event, write_outbox
from store.settings import PlatformLimits, read_dispatch_settings, read_platform_limits
from store.statements import statements

SQL = statements("dispatch")

# Heads read of each lane on each platform. Unbound ones are alike to every budget and the platform is full at its fuse,
# so more would be read in vain; bound ones may have slots promised to their own request.
HEADS = 10


@dataclass(frozen=True, slots=True)
class Reading:
    """What one round read. `generations`: each tenant's counter at that moment."""

    state: RoundState
    candidates: list[Candidate]
    generations: Mapping[int, int]
    # Of each tenant's sliding minute, and EVERYBODY's: seconds until each dispatch leaves it, the oldest first.
    windows: Mapping[int, Sequence[float]]

    @property
    def awaits_binding(self) -> bool:
        """Whether high work was seen that must be bound before it goes."""
        return any(task.awaits_client for task in self.candidates)

    def frees_in(self, plan: RoundPlan) -> float | None:
        """Seconds until the first window that refused is below its limit; None when none refused, or never."""
        times = [_below(self.windows.get(tenant, ()), limit) for tenant, limit in plan.full_minutes.items()]
        return min((seconds for seconds in times if seconds is not None), default=None)


def _below(leaves_in: Sequence[float], limit: int) -> float | None:
    if limit <= 0:
        return None
    return leaves_in[len(leaves_in) - limit] if len(leaves_in) >= limit else 0.0


@dataclass(frozen=True, slots=True)
class _Fleet:
    """Who may get work now, and on which platforms."""

    clients: Sequence[asyncpg.Record]
    platforms: Mapping[str, PlatformLimits]

    @property
    def open_platforms(self) -> list[str]:
        return [name for name, limit in self.platforms.items() if not limit.paused]

    def workspaces(self, tenants: Collection[int] | None = None) -> tuple[list[int], list[int]]:
        """Tenants and workspaces of the clients, pairwise (of these tenants, or of all)."""
        pairs = sorted({(row["tenant_id"], row["workspace_id"]) for row in self.clients})
        kept = [pair for pair in pairs if tenants is None or pair[0] in tenants]
        return [tenant for tenant, _ in kept], [workspace for _, workspace in kept]


async def read_round(connection: Connection) -> Reading:
    """Read the state once: settings, online clients, live tasks, windows, and the head of each lane."""
    settings = await read_dispatch_settings(connection)
    platforms = await read_platform_limits(connection, settings)
    fleet = _Fleet(await connection.fetch(SQL["read_online_clients"]), platforms)
    windows = await _read_windows(connection)
    full = _share_used_up(settings, windows)
    heads = settings.fuses.platform_concurrency
    lanes = MONITOR_LANES if full is None else [Lane.HIGH]
    candidates = await _read_candidates(connection, fleet, lanes, heads)
    normal = await _count_normal(connection, fleet, candidates, settings.retry_low_water)
    live = await _read_live(connection)
    return Reading(
        state=_state(settings, fleet, windows, candidates, live, normal),
        candidates=candidates,
        generations={row["tenant_id"]: row["interrupt_generation"] for row in fleet.clients},
        windows=windows,
    )


async def _read_windows(connection: Connection) -> dict[int, Sequence[float]]:
    rows = await connection.fetch(SQL["read_minutes"])
    windows: dict[int, Sequence[float]] = {row["tenant_id"]: row["leaves_in"] for row in rows}
    windows[EVERYBODY] = sorted(chain.from_iterable(windows.values()))
    return windows


def _share_used_up(settings: DispatchSettings, windows: Mapping[int, Sequence[float]]) -> int | None:
    """The scheduled share of the cluster's minute if it is used up: then only high work may go."""
    limits = limits_of(settings, client_concurrency=None, client_queue_depth=None, platform=0)
    share = limits.cluster_ceiling(Lane.NORMAL)
    return share if len(windows[EVERYBODY]) >= share else None


def _state(
    settings: DispatchSettings,
    fleet: _Fleet,
    windows: Mapping[int, Sequence[float]],
    candidates: Sequence[Candidate],
    live: Sequence[Live],
    normal_waiting: Mapping[int, int],
) -> RoundState:
    return RoundState(
        clients={row["id"]: client_state(row, settings) for row in fleet.clients},
        limits={row["id"]: client_limits(row, settings) for row in fleet.clients},
        platform_limits={name: fleet.platforms[name].max_concurrent for name in fleet.open_platforms},
        live=live,
        cluster_minute=len(windows[EVERYBODY]),
        tenant_minute={tenant: len(leaves) for tenant, leaves in windows.items() if tenant != EVERYBODY},
        reserved=frozenset(task.bound_to for task in candidates if task.lane is Lane.HIGH and task.bound_to),
        paused_lanes=frozenset(Lane(name) for name in settings.paused_lanes),
        high_waiting=_tenants_with_high(candidates, live),
        normal_waiting=normal_waiting,
        retry_low_water=settings.retry_low_water,
        platforms_are_global=settings.platform_concurrency_scope is PlatformScope.GLOBAL,
        share_used_up=_share_used_up(settings, windows),
    )


def _tenants_with_high(candidates: Sequence[Candidate], live: Sequence[Live]) -> frozenset[int]:
    waiting = {task.tenant_id for task in candidates if task.lane is Lane.HIGH}
    return frozenset(waiting | {task.tenant_id for task in live if task.lane is Lane.HIGH})


async def _read_candidates(connection: Connection, fleet: _Fleet, lanes: Sequence[Lane], heads: int) -> list[Candidate]:
    names = [lane.value for lane in lanes]
    rows = await connection.fetch(SQL["read_heads"], *fleet.workspaces(), fleet.open_platforms, heads, names)
    clients = [row["id"] for row in fleet.clients]
    rows += await connection.fetch(SQL["read_bound_heads"], clients, fleet.open_platforms, HEADS)
    return [
        Candidate(
            task_id=row["id"],
            tenant_id=row["tenant_id"],
            workspace_id=row["workspace_id"],
            platform=row["ai_platform_id"],
            lane=Lane(row["dispatch_lane"]),
            priority=row["dispatch_priority"],
            enqueued_at=row["enqueued_at"],
            bound_to=row["target_client_id"],
            request_id=row["collect_request_id"],
            awaits_client=row["awaits_client"],
        )
        for row in rows
    ]


async def _count_normal(
    connection: Connection, fleet: _Fleet, candidates: Sequence[Candidate], low_water: int
) -> Mapping[int, int]:
    """Normal work waiting, by tenant; counted only for tenants with something to retry, whom alone it concerns."""
    retrying = {task.tenant_id for task in candidates if task.lane is Lane.RETRY}
    if not retrying:
        return {}
    rows = await connection.fetch(SQL["count_normal"], *fleet.workspaces(retrying), fleet.open_platforms, low_water)
    return {row["tenant_id"]: row["waiting"] for row in rows}


async def _read_live(connection: Connection) -> list[Live]:
    return [
        Live(
            tenant_id=row["tenant_id"],
            client_id=row["target_client_id"],
            platform=row["ai_platform_id"],
            running=row["status"] == "in_progress",
            lane=Lane(row["lane"]),
            interrupted_for=row["interrupt_request_id"],
            unknown=row["status"] == "unknown",
        )
        for row in await connection.fetch(SQL["read_live"])
    ]


async def write_round(connection: Connection, picks: Sequence[Pick], generations: Mapping[int, int]) -> int:
    """Write the picks: execution tasks, `active_task_id`, outbox rows. Returns how many were dispatched.

    A tenant with an accept since the reading is left to the next round; so is a task that changed meanwhile.
    """
    by_tenant: dict[int, list[Pick]] = defaultdict(list)
    for pick in picks:
        by_tenant[pick.task.tenant_id].append(pick)
    rows = await connection.fetch(
        SQL["share_unchanged_tenants"], list(by_tenant), [generations[tenant] for tenant in by_tenant]
    )
    valid = [pick for row in rows for pick in by_tenant[row["id"]]]
    inserted = await _insert(connection, valid)
    await write_outbox(
        connection,
        [
            dispatch_event(
                "task_available",
                f"monitor.{route_lane(Lane(row['lane']))}.{row['target_client_id']}",
                {"task_id": str(row["id"]), "client_id": str(row["target_client_id"])},
                row["tenant_id"],
                row["target_client_id"],
            )
            for row in inserted
        ],
    )
    return len(inserted)


async def _insert(connection: Connection, picks: Sequence[Pick]) -> list[asyncpg.Record]:
    rows: list[asyncpg.Record] = await connection.fetch(
        SQL["insert_execution_tasks"],
        [pick.task.task_id for pick in picks],
        [new_uuid() for _ in picks],
        [pick.client_id for pick in picks],
        [pick.task.lane.value for pick in picks],
        [pick.task.bound_to for pick in picks],
    )
    return rows


async def find_unbound_requests(connection: Connection) -> list[tuple[UUID, int]]:
    """Open requests (id, tenant) whose waiting tasks have no client that can take them, although another could."""
    return [(row["id"], row["tenant_id"]) for row in await connection.fetch(SQL["find_unbound_requests"])]
