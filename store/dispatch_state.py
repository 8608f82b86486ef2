"""Rows of a round's reading as the values that the rules know (1-dispatch §1.4)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import asyncpg

from domain.budgets import Limits
from domain.client_choice import ClientState
from domain.dispatch_settings import DispatchSettings, PlatformScope
from domain.lanes import MONITOR_LANES, Lane
from domain.round_state import Candidate, Live, RoundState
from store.client_choice import client_limits

_LANES: Final = {lane.value: lane for lane in MONITOR_LANES}
_NOBODY: Final[Mapping[str, Any]] = {"cluster_scheduled": 0, "cluster_high": 0}


def candidate(row: asyncpg.Record) -> Candidate:
    """One row of `read_bound` or `read_heads`, by position: thousands are made in a round."""
    task_id, tenant, workspace, platform, lane, priority, enqueued_at, bound_to, request, awaits_client, legacy = row
    return Candidate(
        task_id,
        tenant,
        workspace,
        platform,
        _LANES[lane],
        priority,
        enqueued_at,
        bound_to,
        request,
        awaits_client,
        legacy,
    )


def live_task(row: asyncpg.Record) -> Live:
    """One row of `read_live`, by position."""
    tenant, client, platform, status, lane, interrupted_for, legacy = row
    running, unknown = status == "in_progress", status == "unknown"
    return Live(tenant, client, platform, running, _LANES[lane], interrupted_for, unknown, legacy)


def round_state(
    settings: DispatchSettings,
    platform_limits: Mapping[str, int],
    fleet: Sequence[asyncpg.Record],
    live: Sequence[Live],
    waiting: Sequence[Candidate],
) -> RoundState:
    """The state of a round. `waiting`: high work, and what is bound to one client."""
    tenants = {row["tenant_id"]: row for row in fleet}
    limits = _limits(fleet, settings)
    everybody = fleet[0] if fleet else _NOBODY
    return RoundState(
        clients=_clients(fleet, limits, live),
        limits=limits,
        platform_limits=platform_limits,
        live=live,
        cluster_minute=everybody["cluster_scheduled"] + everybody["cluster_high"],
        tenant_minute={tenant: row["scheduled"] + row["high"] for tenant, row in tenants.items()},
        scheduled_minute=everybody["cluster_scheduled"],
        tenant_scheduled_minute={tenant: row["scheduled"] for tenant, row in tenants.items()},
        normal_floor=settings.normal_floor,
        reserved=frozenset(task.bound_to for task in waiting if task.lane is Lane.HIGH and task.bound_to),
        paused_lanes=frozenset(Lane(name) for name in settings.paused_lanes),
        paused_tenants=frozenset(tenant for tenant, row in tenants.items() if row["tenant_paused"]),
        weights={tenant: row["fair_weight"] for tenant, row in tenants.items() if row["fair_weight"] != 1},
        high_waiting=_tenants_with_high(waiting, live),
        retry_low_water=settings.retry_low_water,
        platforms_are_global=settings.platform_concurrency_scope is PlatformScope.GLOBAL,
    )


def _limits(fleet: Sequence[asyncpg.Record], settings: DispatchSettings) -> dict[UUID, Limits]:
    """Of each client. Most have the settings' own: one object for all that are alike."""
    known: dict[tuple[Any, ...], Limits] = {}
    limits = {}
    for row in fleet:
        own = (row["max_concurrent"], row["max_queue_depth"], row["dispatch_per_minute"])
        if own not in known:
            known[own] = client_limits(row, settings)
        limits[row["id"]] = known[own]
    return limits


def _clients(
    fleet: Sequence[asyncpg.Record], limits: Mapping[UUID, Limits], live: Sequence[Live]
) -> dict[UUID, ClientState]:
    """Busy with what runs, and with what did not stop in time: that one holds no slot, but its desktop is not idle."""
    busy = Counter(task.client_id for task in live if not task.queued)
    return {
        row["id"]: ClientState(
            row["id"],
            row["tenant_id"],
            row["workspace_id"],
            limits[row["id"]].client_concurrency - busy[row["id"]],
            row["abort_rate"],
            row["paused"],
            row["platform_sessions"],
        )
        for row in fleet
    }


def _tenants_with_high(waiting: Sequence[Candidate], live: Sequence[Live]) -> frozenset[int]:
    found = {task.tenant_id for task in waiting if task.lane is Lane.HIGH}
    return frozenset(found | {task.tenant_id for task in live if task.lane is Lane.HIGH})
