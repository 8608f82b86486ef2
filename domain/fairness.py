"""Fair sharing between tenants by start-time fair queueing (1-dispatch §1.4 rule 5).

A tenant's next pick has the start tag max(v, finish tag of its last pick); its finish tag is the start tag plus
1/weight. The smallest start tag is served, and v is the start tag served last. While two tenants both have work that
may go, their picks per weight differ by at most 1/weight of the one plus 1/weight of the other, whatever the others
queue (Goyal, Vin, Cheng: "Start-time Fair Queueing", 1996).
"""

from collections import defaultdict, deque
from collections.abc import Mapping
from heapq import heappop, heappush, heapreplace
from typing import Final, assert_never

from domain.lanes import Lane
from domain.round_state import Candidate

# Tags are whole numbers: they neither drift nor lose precision however long the process runs.
_ONE: Final = 1 << 40
_FEW: Final = 64


class FairQueue:
    """The tags of one service that tenants share. Costs O(1) a pick, and remembers only tenants ahead of v."""

    def __init__(self) -> None:
        self._v = 0
        self._finish: dict[int, int] = {}
        self._prune_at = _FEW

    def __len__(self) -> int:
        """How many tenants are remembered."""
        return len(self._finish)

    def start(self, tenant_id: int) -> int:
        """The start tag of the tenant's next pick."""
        return max(self._v, self._finish.get(tenant_id, 0))

    def charge(self, tenant_id: int, weight: int) -> int:
        """Count a pick of the tenant; returns the start tag of its next one."""
        served = self.start(tenant_id)
        self._v = served
        finish = self._finish[tenant_id] = served + _ONE // weight
        return finish

    def refund(self, tenant_id: int, weight: int) -> None:
        """Take back a charge whose pick was not dispatched after all."""
        if tenant_id in self._finish:
            self._finish[tenant_id] -= _ONE // weight

    def rest(self) -> None:
        """Nobody waits any more: who comes next starts even with all others."""
        self._finish.clear()

    def forget(self) -> None:
        """Drop tenants that v has passed: their tags say nothing any more."""
        if len(self._finish) < self._prune_at:
            return
        self._finish = {tenant_id: finish for tenant_id, finish in self._finish.items() if finish > self._v}
        self._prune_at = 2 * len(self._finish) + _FEW


class Turns:
    """The waiting work of one round, and whose turn it is: O(log tenants) a turn. Ties go by dispatch order."""

    def __init__(self, shares: FairQueue, weights: Mapping[int, int]) -> None:
        self._shares = shares
        self._weights = weights
        self._queues: defaultdict[int, deque[tuple[int, Candidate]]] = defaultdict(deque)
        # Start tag, place in the order of all, tenant: the tenant whose turn it is comes first.
        self._heap: list[tuple[int, int, int]] = []
        self._added = 0
        self._all_served = True

    def __bool__(self) -> bool:
        """Whether anybody is left."""
        return bool(self._heap)

    def add(self, task: Candidate) -> None:
        """Work that waits, in dispatch order."""
        queue = self._queues[task.tenant_id]
        if not queue:
            heappush(self._heap, (self._shares.start(task.tenant_id), self._added, task.tenant_id))
        queue.append((self._added, task))
        self._added += 1

    def next(self) -> Candidate:
        """The task whose turn it is. What became of it is told by the next call."""
        return self._queues[self._heap[0][2]].popleft()[1]

    def served(self) -> None:
        """It was picked: the tenant is charged."""
        tenant_id = self._heap[0][2]
        self._requeue(self._shares.charge(tenant_id, self._weights.get(tenant_id, 1)))

    def passed_over(self) -> None:
        """It cannot go now: its tenant's turn goes on with what comes after it."""
        self._all_served = False
        self._requeue(self._heap[0][0])

    def leave(self) -> list[Candidate]:
        """The tenant has no more turns; returns what it had waiting behind."""
        self._all_served = False
        behind = self._queues.pop(heappop(self._heap)[2])
        return [task for _, task in behind]

    def end(self) -> list[Candidate]:
        """Nobody has more turns; returns what waited behind."""
        behind = []
        while self._heap:
            behind += self.leave()
        return behind

    def settle(self) -> None:
        """After the round. Where all were served, nobody is owed anything."""
        if self._all_served and self._added and not self._heap:
            self._shares.rest()
        self._shares.forget()

    def _requeue(self, tag: int) -> None:
        tenant_id = self._heap[0][2]
        queue = self._queues[tenant_id]
        if queue:
            heapreplace(self._heap, (tag, queue[0][0], tenant_id))
        else:
            heappop(self._heap)


class FairShares:
    """One coordinator's memory between rounds: who had how much of scheduled work, and of retries."""

    def __init__(self) -> None:
        self.scheduled = FairQueue()
        self.retry = FairQueue()

    def refund(self, tenant_id: int, lane: Lane, weight: int = 1) -> None:
        """Take back the charge of a pick that was not dispatched after all (high work is never charged)."""
        match lane:
            case Lane.NORMAL_BOOSTED | Lane.NORMAL:
                self.scheduled.refund(tenant_id, weight)
            case Lane.RETRY:
                self.retry.refund(tenant_id, weight)
            case Lane.HIGH | Lane.URGENT:
                return
            case _:
                assert_never(lane)
