"""What a round reads of some tenants: what store/dispatch reads from PostgreSQL, here from the objects."""

from collections.abc import Sequence
from itertools import chain
from typing import Final

from domain.aging import aged_priority
from domain.dispatch_settings import PlatformScope
from domain.lanes import Lane
from domain.quota import Quota
from domain.rounds import Candidate, Live, RoundState
from simulation.context import Context
from simulation.load import PLATFORMS
from simulation.state import Client, Task, Tenant
from simulation.window import Window

# Heads of a lane that the real coordinator reads of what is bound to one client (store/dispatch).
BOUND_HEADS: Final = 10


class Reader:
    """Reads states and candidates at the clock's second. `minute`: the cluster's window."""

    def __init__(self, context: Context, minute: Window) -> None:
        self._context = context
        self._minute = minute
        self._limits = context.limits()
        self._platforms = {platform.name: context.platform_limit for platform in PLATFORMS}
        self._paused = frozenset(Lane(name) for name in context.settings.paused_lanes)
        self._global = context.settings.platform_concurrency_scope is PlatformScope.GLOBAL
        # Second of the last aging scan, and the boosted priorities of that moment by base and second of enqueuing.
        self._aged_at = 0.0
        self._aged: dict[tuple[int, float], int] = {}

    def age(self, now: float) -> None:
        """An aging scan: from here on boosted work has the priority of this moment."""
        self._aged_at = now
        self._aged.clear()

    def state(self, tenants: Sequence[Tenant], quota: Quota | None, limit: int | None = None) -> RoundState:
        """One reading of these tenants, for at most `limit` picks. `quota`: permits of one of several coordinators."""
        now, settings = self._context.clock.now, self._context.settings
        clients = {
            client.id: tenant.states[client.id] for tenant in tenants for client in self.shortlist(tenant, limit)
        }
        return RoundState(
            clients=clients,
            limits=dict.fromkeys(clients, self._limits),
            platform_limits=self._platforms,
            live=self._live(tenants),
            cluster_minute=self._minute.total(now),
            tenant_minute={tenant.id: tenant.minute.total(now) for tenant in tenants},
            reserved=frozenset(chain.from_iterable(tenant.waiting.bound for tenant in tenants)),
            paused_lanes=self._paused,
            high_waiting=frozenset(tenant.id for tenant in tenants if _has_high(tenant)),
            normal_waiting={tenant.id: tenant.waiting.normal for tenant in tenants},
            retry_low_water=settings.retry_low_water,
            platforms_are_global=self._global,
            scheduled_minute=self._minute.scheduled(now),
            tenant_scheduled_minute={tenant.id: tenant.minute.scheduled(now) for tenant in tenants},
            normal_floor=settings.normal_floor,
            quota=quota,
        )

    def shortlist(self, tenant: Tenant, limit: int | None = None) -> list[Client]:
        """The clients that a plan for the tenant can need: the best of each platform with room, and those bound to.

        A plan makes at most as many scheduled picks for a tenant as its platforms have room (or `limit`). Each pick
        moves one client down the ranking, so that of the last one is among the first so many that take its platform.
        """
        bound = (self._context.clients[client_id] for client_id in tenant.waiting.bound)
        chosen = [client for client in bound if client.rank is not None]
        room = self._room(tenant)
        places = sum(room.values())
        missing = dict.fromkeys(room, places if limit is None else min(places, limit))
        for _, client in tenant.ranked:
            if not missing:
                break
            if client.id not in tenant.waiting.bound:
                chosen.append(client)
                if self._takes_scheduled(client):
                    _count_down(missing, client)
        return chosen

    def _takes_scheduled(self, client: Client) -> bool:
        """Whether its own budgets let it take scheduled work, and it has no high work."""
        return (
            client.running() < self._limits.client_concurrency
            and client.queued() < self._limits.client_queue_depth
            and all(attempt.lane is not Lane.HIGH for attempt in client.held)
        )

    def candidates(self, tenants: Sequence[Tenant], lanes: tuple[Lane, ...]) -> list[Candidate]:
        """The heads of these lanes, but for scheduled work of platforms that are full: it would be read in vain."""
        unbound = self._context.platform_limit
        heads = (tenant.waiting.heads(lanes, unbound, BOUND_HEADS, self._room(tenant)) for tenant in tenants)
        return [self._candidate(task) for task in chain.from_iterable(heads)]

    def _room(self, tenant: Tenant) -> dict[str, int]:
        """How many more tasks of the tenant each platform takes, those that take any."""
        if self._global:
            return self._platforms
        room = dict(self._platforms)
        for live in tenant.live.values():
            room[live.platform] -= 1
        return {name: left for name, left in room.items() if left > 0}

    def _boosted(self, task: Task) -> int:
        key = (task.base, task.enqueued)
        if key not in self._aged:
            self._aged[key] = aged_priority(task.base, (self._aged_at - task.enqueued) / 60)
        return self._aged[key]

    def _live(self, tenants: Sequence[Tenant]) -> list[Live]:
        seen = self._context.tenants if self._global else tenants
        return list(chain.from_iterable(tenant.live.values() for tenant in seen))

    def _candidate(self, task: Task) -> Candidate:
        priority = task.priority if task.lane is not Lane.NORMAL_BOOSTED else self._boosted(task)
        if task.seen is None or task.seen.priority != priority:
            task.seen = _seen(task, priority)
        return task.seen


def _count_down(missing: dict[str, int], client: Client) -> None:
    for name in [name for name in missing if name not in client.sessions]:
        missing[name] -= 1
        if not missing[name]:
            del missing[name]


def _has_high(tenant: Tenant) -> bool:
    return tenant.waiting.by_lane[Lane.HIGH] > 0 or any(live.lane is Lane.HIGH for live in tenant.live.values())


def _seen(task: Task, priority: int) -> Candidate:
    return Candidate(
        task_id=task.id,
        tenant_id=task.tenant.id,
        workspace_id=task.tenant.id,
        platform=task.platform.name,
        lane=task.lane,
        priority=priority,
        enqueued_at=task.enqueued_at,
        bound_to=task.bound.id if task.bound else None,
        request_id=task.request.id if task.request else None,
        awaits_client=task.lane is Lane.HIGH and task.bound is None,
    )
