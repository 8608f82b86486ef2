"""Aging in virtual time: every 30 s the oldest tenth of what has waited long enough is promoted (1-dispatch §1.4)."""

from heapq import merge
from itertools import islice

from domain.aging import MOST_PROMOTIONS_A_SCAN, aged_priority, promotions
from domain.lanes import Lane
from simulation.context import Context
from simulation.reading import Reader
from simulation.state import Task, Tenant

AGES = (Lane.NORMAL, Lane.RETRY)


class Aging:
    """The scans of a run. What is boosted already is scored by age whenever it is read (simulation/waiting)."""

    def __init__(self, context: Context, reader: Reader) -> None:
        self._context = context
        self._reader = reader
        self._first = 0

    def scan(self) -> None:
        """Promote, tenant by tenant; where the last scan's budget ended this one begins."""
        context = self._context
        self._reader.age(context.clock.now)
        left, tenants = MOST_PROMOTIONS_A_SCAN, context.tenants
        for index in range(len(tenants)):
            if left <= 0:
                self._first = (self._first + index) % len(tenants)
                break
            left -= self._promote(tenants[(self._first + index) % len(tenants)], left)
        context.meters.promoted += MOST_PROMOTIONS_A_SCAN - left
        if context.clock.now < context.load.end:
            context.clock.after(context.settings.aging_scan_seconds, self.scan)

    def _promote(self, tenant: Tenant, budget: int) -> int:
        waiting = tenant.waiting
        if not (waiting.by_lane[Lane.NORMAL] or waiting.by_lane[Lane.RETRY]):
            return 0
        before = self._context.clock.now - self._context.settings.aging_wait_seconds
        queues = [queue for lane in AGES for queue in waiting.ready(lane, before)]
        number = promotions(sum(map(len, queues)), budget=budget)
        by_age = ([(task.enqueued, task.id, task) for _, task in queue] for queue in queues)
        for _, _, task in list(islice(merge(*by_age), number)):
            self._boost(task)
        return number

    def _boost(self, task: Task) -> None:
        waiting = task.tenant.waiting
        waiting.remove(task)
        task.lane, task.seen = Lane.NORMAL_BOOSTED, None
        task.priority = aged_priority(task.base, (self._context.clock.now - task.enqueued) / 60)
        waiting.add(task)
