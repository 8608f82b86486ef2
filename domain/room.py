"""Where scheduled work could go at this moment: what a round need not even read (1-dispatch §1.3, §1.4).

Nothing here decides: whatever is read goes through the planner. This only leaves out what the planner would refuse.
"""

from collections import Counter
from dataclasses import dataclass
from uuid import UUID

from domain.lanes import Lane
from domain.round_state import EVERYBODY, RoundState


@dataclass(frozen=True, slots=True)
class Room:
    """One workspace's room on one platform: at most `free` more scheduled tasks."""

    tenant_id: int
    workspace_id: int
    platform: str
    free: int


def room_for_scheduled(state: RoundState, *, look_everywhere: bool) -> list[Room]:
    """Each place where a scheduled task might go.

    `look_everywhere`: places without room too, with one task each, so that its refusal is seen and counted.
    """
    able, taken = _able_workspaces(state), _taken(state)
    least = 1 if look_everywhere else 0
    rooms = []
    for tenant_id, workspace_id in workspaces(state):
        counted_as = EVERYBODY if state.platforms_are_global else tenant_id
        open_here = (tenant_id, workspace_id) in able
        for platform, limit in state.platform_limits.items():
            free = limit - taken[counted_as, platform] if open_here else 0
            if free > 0 or least:
                rooms.append(Room(tenant_id, workspace_id, platform, max(free, least)))
    return rooms


def workspaces(state: RoundState) -> list[tuple[int, int]]:
    """Tenants and workspaces that have a client, pairwise; those of paused tenants are left out."""
    clients = state.clients.values()
    return sorted({(one.tenant_id, one.workspace_id) for one in clients if one.tenant_id not in state.paused_tenants})


def _able_workspaces(state: RoundState) -> set[tuple[int, int]]:
    """Those with a client that has a slot and a place in its queue, and no high work."""
    with_high = state.reserved | {task.client_id for task in state.live if task.lane is Lane.HIGH}
    running: Counter[UUID] = Counter(task.client_id for task in state.live if task.running)
    queued: Counter[UUID] = Counter(task.client_id for task in state.live if task.queued)
    return {
        (one.tenant_id, one.workspace_id)
        for client_id, one in state.clients.items()
        if not one.paused
        and client_id not in with_high
        and running[client_id] < state.limits[client_id].client_concurrency
        and queued[client_id] < state.limits[client_id].client_queue_depth
    }


def _taken(state: RoundState) -> Counter[tuple[int, str]]:
    if state.platforms_are_global:
        return Counter((EVERYBODY, task.platform) for task in state.live)
    return Counter((task.tenant_id, task.platform) for task in state.live)
