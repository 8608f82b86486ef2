"""What a round of the coordinator reads (1-dispatch §1.4): first what is urgent, then the heads of scheduled work.

A click's way to its desktop needs the first part alone: a few statements, whose cost follows the fleet and never the
backlog.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

import asyncpg

from domain.budgets import floor_of, limits_of
from domain.dispatch_settings import DispatchSettings, PlatformScope
from domain.lanes import Lane
from domain.room import Room, room_for_scheduled, workspaces
from domain.round_state import Candidate, Live, RoundState
from domain.shards import Shard
from store.database import Connection
from store.dispatch_state import candidate, live_task, round_state
from store.quota import held_permits
from store.settings import read_dispatch_settings, read_platform_limits
from store.statements import statements

SQL = statements("dispatch")

# Heads read of what a request has bound to one client on one platform: the platform is full long before.
HEADS: Final = 10
# Heads read of one lane of one workspace on one platform that has room for more: where many have, a full round needs no
# more of each, and the next one goes on.
FEWEST_HEADS: Final = 4
# The most that one round dispatches: a longer one would keep clicks of its tenants waiting.
MOST_PICKS: Final = 2000


SCHEDULED_LANES: Final = (Lane.NORMAL_BOOSTED, Lane.NORMAL, Lane.RETRY)
# What retries wait for, beside high work.
_BEFORE_RETRY: Final = (Lane.NORMAL_BOOSTED, Lane.NORMAL)


@dataclass(frozen=True, slots=True)
class Owner:
    """A coordinator of several: the index of its shard, and its epoch as a resident."""

    index: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Reading:
    """What one round read. `generations`: each tenant's counter at that moment.

    `barred`: business tasks that were left out because they could not be written lately.
    """

    state: RoundState
    candidates: Sequence[Candidate]
    generations: Mapping[int, int]
    settings: DispatchSettings
    shard: Shard
    barred: Sequence[int] = ()

    @property
    def awaits_binding(self) -> bool:
        """Whether high work was seen that must be bound before it goes."""
        return any(task.awaits_client for task in self.candidates)

    @property
    def urgent(self) -> list[Candidate]:
        """High work that may go as it is."""
        return [task for task in self.candidates if task.lane is Lane.HIGH and not task.awaits_client]

    @property
    def urgent_alone(self) -> bool:
        """Whether high work waits, and so little of it that the floor of scheduled work cannot matter in this round."""
        urgent = len(self.urgent)
        within = self.settings.fuses.cluster_per_minute - self._floor
        return urgent > 0 and self.state.quota is None and self.state.cluster_minute + urgent <= within

    @property
    def scheduled_may_go(self) -> bool:
        """Whether the minute has room for scheduled work: its share of the cluster's, or the floor beside much high.

        The window says whether high is much (ADR 0020): clicks that are drained one by one, or by another coordinator,
        count as well.
        """
        state = self.state
        if state.cluster_minute < self.scheduled_share or (state.quota is not None and state.quota.scheduled > 0):
            return True
        below_fuse = state.cluster_minute < self.settings.fuses.cluster_per_minute
        return below_fuse and state.scheduled_minute < self._floor

    @property
    def scheduled_share(self) -> int:
        """Dispatches a minute at which scheduled work stops."""
        limits = limits_of(self.settings, client_concurrency=None, client_queue_depth=None, platform=0)
        return limits.cluster_ceiling(Lane.NORMAL)

    @property
    def _floor(self) -> int:
        return floor_of(self.settings.cluster_per_minute, self.settings.normal_floor)


async def lock_rounds(connection: Connection) -> None:
    """A round begins: until it ends nobody pauses anything, and no tenant changes its owner."""
    await connection.execute(SQL["lock_rounds_shared"])


async def read_round(connection: Connection, owner: Owner | None = None) -> Reading:
    """Everything a round may decide on: of one coordinator's own tenants, or of all (`owner` None)."""
    return await add_scheduled(connection, await read_urgent(connection, owner))


async def read_urgent(connection: Connection, owner: Owner | None = None, *, barred: Collection[int] = ()) -> Reading:
    """The fleet, what it does, its windows, and the waiting work that is high or bound to one client."""
    settings = await read_dispatch_settings(connection)
    platforms = await read_platform_limits(connection, settings)
    shard = Shard() if owner is None else Shard(owner.index, settings.coordinator_shards)
    permits = None if owner is None or shard.alone else await held_permits(connection, owner.index, owner.epoch)
    live = await _read_live(connection, settings, shard)
    fleet = await connection.fetch(SQL["read_fleet"], shard.index, shard.of)
    limits = {name: limit.max_concurrent for name, limit in platforms.items() if not limit.paused}
    waiting = await _read_bound(connection, fleet, list(limits), settings, barred)
    return Reading(
        state=replace(round_state(settings, limits, fleet, live, waiting), quota=permits),
        candidates=waiting,
        generations={row["tenant_id"]: row["interrupt_generation"] for row in fleet},
        settings=settings,
        shard=shard,
        barred=list(barred),
    )


async def _read_live(connection: Connection, settings: DispatchSettings, shard: Shard) -> list[Live]:
    """What holds slots and platforms. Counted over all tenants: everybody's, and one coordinator at a time."""
    if settings.platform_concurrency_scope is PlatformScope.GLOBAL and not shard.alone:
        await connection.execute(SQL["lock_platforms"])
        shard = Shard()
    return [live_task(row) for row in await connection.fetch(SQL["read_live"], shard.index, shard.of)]


async def _read_bound(
    connection: Connection,
    fleet: Sequence[asyncpg.Record],
    platforms: Sequence[str],
    settings: DispatchSettings,
    barred: Collection[int],
) -> list[Candidate]:
    """Without what cannot go, on a platform or in a lane that is paused: nothing waits for it either (ADR 0034)."""
    if not fleet:
        return []
    clients, workspaces = [row["id"] for row in fleet], sorted({row["workspace_id"] for row in fleet})
    rows = await connection.fetch(SQL["read_bound"], clients, workspaces, platforms, HEADS, list(barred))
    return [candidate(row) for row in rows if row["dispatch_lane"] not in settings.paused_lanes]


async def add_scheduled(connection: Connection, reading: Reading, *, look_everywhere: bool = True) -> Reading:
    """The same reading with the heads of scheduled work, as many of each as could go.

    `look_everywhere`: read one head also where nothing can go, so that it is refused and counted.
    """
    if not reading.scheduled_may_go:
        return replace(reading, state=replace(reading.state, share_used_up=reading.scheduled_share))
    rooms = room_for_scheduled(reading.state, look_everywhere=look_everywhere)
    lanes = await _find_waiting(connection, reading.state, {room.tenant_id for room in rooms})
    normal = await count_normal(connection, reading, [tenant for tenant in lanes if Lane.RETRY in lanes[tenant]])
    for tenant, waiting in normal.items():
        if waiting >= reading.settings.retry_low_water:
            lanes[tenant].discard(Lane.RETRY)
    heads = await _read_heads(connection, [(room, lane) for room in rooms for lane in lanes[room.tenant_id]], reading)
    state = replace(reading.state, normal_waiting=normal)
    return replace(reading, state=state, candidates=[*reading.candidates, *heads])


async def _find_waiting(connection: Connection, state: RoundState, tenants: Collection[int]) -> dict[int, set[Lane]]:
    """The lanes in which each of the tenants has work, without those that are closed to it."""
    open_lanes = [lane.value for lane in SCHEDULED_LANES if lane not in state.paused_lanes]
    rows = await connection.fetch(SQL["find_waiting"], sorted(tenants), open_lanes)
    lanes: dict[int, set[Lane]] = {tenant: set() for tenant in tenants}
    for tenant, lane in rows:
        if lane != Lane.RETRY or tenant not in state.high_waiting:
            lanes[tenant].add(Lane(lane))
    return lanes


async def count_normal(connection: Connection, reading: Reading, retrying: Collection[int]) -> Mapping[int, int]:
    """Normal work that waits where it could go, up to the low-water mark of each lane, of tenants with a retry."""
    if not retrying:
        return {}
    places = [place for place in workspaces(reading.state) if place[0] in retrying]
    rows = await connection.fetch(
        SQL["count_normal"],
        [tenant for tenant, _ in places],
        [workspace for _, workspace in places],
        list(reading.state.platform_limits),
        reading.settings.retry_low_water,
        [lane.value for lane in _BEFORE_RETRY if lane not in reading.state.paused_lanes],
    )
    return {row["tenant_id"]: row["waiting"] for row in rows}


async def _read_heads(connection: Connection, places: Sequence[tuple[Room, Lane]], reading: Reading) -> list[Candidate]:
    if not places:
        return []
    rows = await connection.fetch(
        SQL["read_heads"],
        [room.tenant_id for room, _ in places],
        [room.workspace_id for room, _ in places],
        [room.platform for room, _ in places],
        [room.free for room, _ in places],
        [lane.value for _, lane in places],
        max(FEWEST_HEADS, 2 * MOST_PICKS // len(places)),
        reading.barred,
    )
    return [candidate(row) for row in rows]


async def find_unbound_requests(connection: Connection, index: int | None = None) -> list[tuple[UUID, int]]:
    """Open requests (id, tenant) whose waiting tasks have no client that can take them, although another could."""
    settings = await read_dispatch_settings(connection)
    if Lane.HIGH in settings.paused_lanes:
        return []
    shard = Shard() if index is None else Shard(index, settings.coordinator_shards)
    rows = await connection.fetch(SQL["find_unbound_requests"], shard.index, shard.of)
    return [(row["id"], row["tenant_id"]) for row in rows]
