"""A day of the fleet: builds the world, lets the load loose on it, and plays it to its end."""

import gc
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from random import Random
from uuid import UUID

from domain.dispatch_settings import DispatchSettings
from domain.lanes import Lane, default_priority
from simulation.aging import Aging
from simulation.context import Context
from simulation.coordinator import Coordinator
from simulation.desks import Desks
from simulation.effects import Effects
from simulation.ledger import Ledger
from simulation.load import HOUR, PLATFORMS, Load, Machine, Platform
from simulation.permits import Permits
from simulation.presence import Presence
from simulation.reading import Reader
from simulation.requests import Requests
from simulation.state import Client, Task, Tenant, moment
from simulation.window import Window

# A tenant asks at least so much, and no plan is larger.
FEWEST_QUESTIONS, MOST_QUESTIONS = 5, 2000
PROGRESS_SECONDS = 600.0


class Day:
    """One run. `context` has its books and figures afterwards."""

    def __init__(self, load: Load, settings: DispatchSettings, machine: Machine) -> None:
        self.context = context = Context(load, machine, settings, Ledger(settings))
        self.effects = Effects(context)
        self.desks = Desks(context, self.effects)
        self.requests = Requests(context, self.effects, self.desks)
        self._presence = Presence(context, self.effects, self.desks, self.requests)
        self.minute = Window()
        self.reader = Reader(context, self.minute)
        self._aging = Aging(context, self.reader)
        shards = settings.coordinator_shards
        self._permits = Permits(context, self.minute) if shards > 1 else None
        self.coordinators = [self._coordinator(shard) for shard in range(shards)]
        context.wake, context.freed, context.settled = self._wake, self.desks.freed, self.requests.settled
        self._task_ids = count(1)
        self._build(context.random("fleet"))

    def _coordinator(self, shard: int) -> Coordinator:
        return Coordinator(
            self.context,
            self.effects,
            self.desks,
            self.requests,
            self.reader,
            self.minute,
            self._permits,
            shard,
        )

    def _wake(self, tenant: Tenant) -> None:
        self.coordinators[tenant.id % len(self.coordinators)].wake(tenant)

    # --- the world -----------------------------------------------------------------------------------------------

    def _build(self, random: Random) -> None:
        load = self.context.load
        for number in range(load.tenants):
            self.context.tenants.append(Tenant(number + 1, questions=_plan_size(load, random)))
        for number in range(load.clients):
            self.add_client(self.context.tenants[number % load.tenants], _broken_logins(load, random))

    def add_client(self, tenant: Tenant, sessions: dict[str, str] | None = None) -> Client:
        """One more desktop of the tenant, connected."""
        client = Client(UUID(int=len(self.context.clients) + 1), tenant, sessions or {})
        self.context.clients[client.id] = client
        tenant.clients.append(client)
        self.context.publish(client)
        return client

    def task(self, tenant: Tenant, question: int, platform: Platform) -> Task:
        """The tenant's task of that question there, made when it is not there yet; it is not asked for by that."""
        found = tenant.tasks.get((question, platform.name))
        if found is not None:
            return found
        now, priority = self.context.clock.now, default_priority(Lane.NORMAL)
        made = Task(next(self._task_ids), tenant, platform, question, Lane.NORMAL, priority, now, priority, moment(now))
        tenant.tasks[question, platform.name] = self.context.tasks[made.id] = made
        return made

    # --- the load ------------------------------------------------------------------------------------------------

    def run(self, on_progress: Callable[[float], None] = lambda _: None) -> None:
        """Play the day: to its cut-off, to its end, and on until nothing is left in the air."""
        load, clock = self.context.load, self.context.clock
        self.plan_load()
        with _uncollected():
            for until in (load.cut_off, load.end):
                for second in _steps(clock.now, until):
                    clock.run(second)
                    on_progress(second / load.end)
                self._cut_off()
            clock.drain()

    def plan_load(self) -> None:
        """Everything that happens by itself: plans that fall due, clicks, absences, aging scans."""
        load, clock = self.context.load, self.context.clock
        plans, clicks = self.context.random("plans"), self.context.random("clicks")
        for tenant in self.context.tenants:
            clock.at(plans.uniform(0.0, load.batch_minutes * 60), self.materialise, tenant)
            for second in _arrivals(load, clicks):
                clock.at(second, self._click, tenant, clicks.random())
        for client in self.context.clients.values():
            self._presence.plan_absence(client)
        clock.after(self.context.settings.aging_scan_seconds, self._aging.scan)

    def materialise(self, tenant: Tenant) -> None:
        """The scheduled batch: every question of the plan on every platform."""
        for question in range(tenant.questions):
            for platform in PLATFORMS:
                if (question, platform.name) not in tenant.tasks:
                    self.effects.ask(self.task(tenant, question, platform))

    def _click(self, tenant: Tenant, fortune: float) -> None:
        """Collect-now on a few questions of the plan, on every platform."""
        random = Random(fortune)
        number = min(_geometric(self.context.load.click_questions, random), tenant.questions)
        questions = random.sample(range(tenant.questions), number)
        tasks = [self.task(tenant, question, platform) for question in questions for platform in PLATFORMS]
        clock = self.context.clock
        clock.after(self.context.machine.accept_ms / 1000, self.requests.accept, tenant, tasks, clock.now)

    def _cut_off(self) -> None:
        """What waits of the day expires; never a live request's work."""
        for task in self.context.tasks.values():
            if task.open and task.attempt is None and task.lane is not Lane.HIGH:
                self.effects.expire(task)


def _plan_size(load: Load, random: Random) -> int:
    size = random.lognormvariate(math.log(load.questions), load.questions_spread)
    return min(max(round(size), FEWEST_QUESTIONS), MOST_QUESTIONS)


def _broken_logins(load: Load, random: Random) -> dict[str, str]:
    return {platform.name: "login_required" for platform in PLATFORMS if random.random() < load.logged_out}


def _arrivals(load: Load, random: Random) -> Iterator[float]:
    """Seconds of a tenant's clicks: at random through the working hours that lie in the run."""
    opens, closes = ((hour - load.start) * HOUR for hour in (load.work_from, load.work_to))
    rate = load.clicks / (closes - opens) if closes > opens else 0.0
    second = max(opens, 0.0)
    while rate > 0 and (second := second + random.expovariate(rate)) < min(closes, load.end):
        yield second


def _geometric(mean: float, random: Random) -> int:
    """1, 2, 3 … with that mean."""
    if mean <= 1:
        return 1
    return 1 + int(math.log(1 - random.random()) / math.log(1 - 1 / mean))


def _steps(start: float, end: float) -> Iterator[float]:
    second = start
    while second < end:
        second = min(second + PROGRESS_SECONDS, end)
        yield second


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the cycle collector: hundreds of thousands of live objects, and next to no cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
