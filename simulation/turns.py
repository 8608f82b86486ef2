"""Whose turn it is when the cluster's minute does not last for all: start-time fair queueing (1-dispatch §1.4)."""

from heapq import heappop, heappush, nsmallest
from typing import Final

from domain.fairness import FairQueue
from domain.lanes import Kind, Lane, rule_of
from simulation.state import Tenant

SCHEDULED: Final = (Lane.NORMAL_BOOSTED, Lane.NORMAL, Lane.RETRY)

# Retry alone after normal; then the start tag, the lane's weight, the age of the oldest task, the tenant.
Turn = tuple[bool, int, int, float, int]


class Turns:
    """Tenants with scheduled work that may go, in the order in which they are served."""

    def __init__(self) -> None:
        self._normal, self._retry = FairQueue(), FairQueue()
        self._heap: list[Turn] = []
        self._tenants: dict[int, Tenant] = {}

    def __len__(self) -> int:
        return len(self._tenants)

    def __contains__(self, tenant: Tenant) -> bool:
        return tenant.id in self._tenants

    def add(self, tenant: Tenant) -> None:
        """It takes its turn, once, if it has anything scheduled to do."""
        if tenant.id in self._tenants or not (tenant.waiting.normal or tenant.waiting.by_lane[Lane.RETRY]):
            return
        self._tenants[tenant.id] = tenant
        heappush(self._heap, self._turn(tenant))

    def pop(self) -> Tenant:
        """Who is next."""
        return self._tenants.pop(heappop(self._heap)[-1])

    def first(self, number: int) -> list[Tenant]:
        """Who is next, and after that; they keep their turns."""
        return [self._tenants[turn[-1]] for turn in nsmallest(number, self._heap)]

    def charge(self, tenant: Tenant, lane: Lane) -> None:
        """It was served. High work is never charged."""
        if lane is Lane.RETRY:
            self._retry.charge(tenant.id, 1)
        elif lane is not Lane.HIGH:
            self._normal.charge(tenant.id, 1)

    def _turn(self, tenant: Tenant) -> Turn:
        retry = not tenant.waiting.normal
        tag = (self._retry if retry else self._normal).start(tenant.id)
        lane, enqueued = tenant.waiting.eldest(SCHEDULED)
        return (retry, tag, -rule_of(Kind.MONITOR, lane).weight, enqueued, tenant.id)
