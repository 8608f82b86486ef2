"""The simulation's own books: every task asked for ends once, and no budget is passed.

It keeps its own counts and never asks the rules, so that it would notice what they get wrong. Books that do not
balance are figures of the report (`lost`, `duplicated`, `violations`), and the command's exit code.
"""

from collections import Counter
from math import ceil

from domain.dispatch_settings import DispatchSettings, PlatformScope
from domain.lanes import Lane
from simulation.state import Attempt, Client, Outcome, Request, State, Task
from simulation.window import Window

# Stands for all tenants.
ALL = 0


class Ledger:
    """Counts what goes in and comes out, and checks each dispatch and start against the limits."""

    def __init__(self, settings: DispatchSettings) -> None:
        self._settings = settings
        self._open: set[int] = set()
        self._leased: set[int] = set()
        self._minute = Window()
        self._tenants: dict[int, Window] = {}
        self._holding: Counter[tuple[int, str]] = Counter()
        self._running: Counter[tuple[int, str]] = Counter()
        self.asked = 0
        self.dispatched = 0
        self.outcomes: Counter[Outcome] = Counter()
        self.duplicated = 0
        self.violations: Counter[str] = Counter()

    @property
    def unfinished(self) -> int:
        """Asked for, and not ended."""
        return len(self._open)

    @property
    def lost(self) -> int:
        """Asked for, and neither ended nor open: the books do not balance."""
        return self.asked - self.outcomes.total() - self.unfinished

    def ask(self, task: Task) -> None:
        """A task is wanted: created, or asked for again."""
        self.asked += 1
        self.duplicated += task.id in self._open
        self._open.add(task.id)

    def end(self, task: Task, outcome: Outcome) -> None:
        """It has ended: the one time it may."""
        if task.id not in self._open:
            self.duplicated += 1
            return
        self._open.discard(task.id)
        self.outcomes[outcome] += 1

    def dispatch(self, attempt: Attempt, now: float) -> None:
        """A task goes to a desktop: no second lease, and within every window."""
        task = attempt.task
        self.dispatched += 1
        self.duplicated += task.id in self._leased
        self._leased.add(task.id)
        scheduled = attempt.lane is not Lane.HIGH
        self._check_cluster(scheduled, now)
        self._check_tenant(task, scheduled, now)
        self._check_queue(attempt.client, scheduled)
        self._hold(attempt)

    def start(self, attempt: Attempt) -> None:
        """It runs: within the client's slots and the platform's limit, whatever was promised to whom."""
        platform = self._platform(attempt)
        self._running[platform] += 1
        self._check("platform_concurrency", self._running[platform], self._settings.platform_concurrency)
        self._check("client_concurrency", attempt.client.running(), self._settings.client_concurrency)

    def stop_running(self, attempt: Attempt) -> None:
        """It no longer runs, as far as the server knows."""
        self._running[self._platform(attempt)] -= 1

    def release(self, attempt: Attempt) -> None:
        """The lease is over."""
        self._leased.discard(attempt.task.id)
        self._holding[self._platform(attempt)] -= 1

    def _check_cluster(self, scheduled: bool, now: float) -> None:
        settings = self._settings
        total, ours = self._minute.total(now), self._minute.scheduled(now)
        self._minute.add(now, scheduled)
        self._check("cluster_fuse", total + 1, settings.fuses.cluster_per_minute)
        share = int(settings.cluster_per_minute * settings.scheduled_share)
        floor = settings.cluster_per_minute * settings.normal_floor
        if scheduled and total + 1 > share:
            self._check("cluster_share", ours + 1, ceil(floor))

    def _check_tenant(self, task: Task, scheduled: bool, now: float) -> None:
        window = self._tenants.setdefault(task.tenant.id, Window())
        total, ours = window.total(now), window.scheduled(now)
        window.add(now, scheduled)
        limit = min(self._settings.tenant_per_minute, self._settings.fuses.tenant_per_minute)
        if scheduled and total + 1 > limit:
            self._check("tenant_minute", ours + 1, ceil(limit * self._settings.normal_floor))

    def _check_queue(self, client: Client, scheduled: bool) -> None:
        if scheduled:
            self._check("client_queue_depth", client.queued(), self._settings.client_queue_depth)

    def _hold(self, attempt: Attempt) -> None:
        """Room on the platform; what is under interrupt for this very request counts as free for it."""
        platform = self._platform(attempt)
        self._holding[platform] += 1
        promised = _promised(attempt.request, attempt)
        self._check("platform_leases", self._holding[platform] - promised, self._settings.platform_concurrency)

    def _platform(self, attempt: Attempt) -> tuple[int, str]:
        one_tenant = self._settings.platform_concurrency_scope is PlatformScope.TENANT
        return (attempt.task.tenant.id if one_tenant else ALL, attempt.task.platform.name)

    def _check(self, rule: str, used: int, limit: int) -> None:
        self.violations[rule] += used > limit


def _promised(request: Request | None, attempt: Attempt) -> int:
    if request is None:
        return 0
    return sum(
        victim.client is attempt.client and victim.task.platform is attempt.task.platform
        for victim in request.victims
        if victim.state is State.RUNNING
    )
