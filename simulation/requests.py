"""Collect-now: accept, binding, timers, end (1-dispatch §1.5; store/accept, store/binding, workflows/collect_now)."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from uuid import UUID

from domain.client_choice import choose_for_request
from domain.lanes import Lane, default_priority
from domain.phases import Phase
from domain.preemption import Running, choose_victims
from domain.protocol import HEARTBEAT_SECONDS
from simulation.context import Context
from simulation.desks import Desks
from simulation.effects import Effects
from simulation.state import Attempt, Client, Outcome, Request, State, Task, Tenant, moment

# The phase a desktop is in between two safe points: after so many of them.
PHASES = (Phase.PREPARING, Phase.NAVIGATING, Phase.INPUTTING, Phase.SUBMITTING, Phase.PARSING)


class Requests:
    """The requests of all tenants; each method is one transaction, or one timer of a request's workflow."""

    def __init__(self, context: Context, effects: Effects, desks: Desks) -> None:
        self._context = context
        self._effects = effects
        self._desks = desks
        self._random = context.random("requests")
        self._made = 0

    # --- the accept ----------------------------------------------------------------------------------------------

    def accept(self, tenant: Tenant, tasks: Sequence[Task], clicked: float) -> Request | None:
        """The accept of a click at that second; None when the tenant has its number of active requests already."""
        held = dict.fromkeys(task.request for task in tasks if task.request is not None)
        survivors = [one for one in tenant.requests if not _left_without(one, tasks)]
        if len(survivors) >= self._context.settings.active_requests_per_tenant:
            self._context.meters.clicks["refused_active_limit"] += 1
            return None
        request = self._create(tenant, tasks, clicked)
        for task in tasks:
            self._move_from_older(task, request)
        for task in tasks:
            self._promote(task, request)
        for older in held:
            self._context.settled(older)
        self._make_room(request, sum(task.bound is request.client for task in tasks if task.attempt is None))
        self._plan_timers(request)
        return request

    def _create(self, tenant: Tenant, tasks: Sequence[Task], clicked: float) -> Request:
        self._made += 1
        request = Request(UUID(int=self._made), tenant, clicked, self._context.clock.now)
        request.client = self._choose(tenant, {task.platform.name for task in tasks})
        request.tasks = {task.id: task for task in tasks}
        tenant.requests.append(request)
        self._context.meters.clicks["accepted"] += 1
        return request

    def _move_from_older(self, task: Task, request: Request) -> None:
        """Unfinished tasks of an older request move here; one left with none is superseded."""
        older = task.request
        if older is None or older is request:
            return
        older.tasks.pop(task.id, None)
        task.request = None
        if older.open and not older.tasks:
            self._close(older, "superseded")

    def _promote(self, task: Task, request: Request) -> None:
        """Adopt what is being executed, take back what only waits on a desktop, move the rest to high and bind it."""
        running = task.attempt
        if running is not None and running.state is not State.QUEUED:
            self._adopt(running, request)
            return
        if running is not None:
            self._effects.release(running)
        if task.open:
            self._effects.take(task)
        self._to_high(task, request)
        task.attempts = 0
        task.bound = _client_for(task, request.client)
        if task.open:
            self._effects.let_wait(task)
        else:
            task.enqueued, task.enqueued_at = self._context.clock.now, moment(self._context.clock.now)
            task.dispatched = False
            self._effects.ask(task)

    def _adopt(self, running: Attempt, request: Request) -> None:
        self._to_high(running.task, request)
        running.lane, running.request, running.scheduled = Lane.HIGH, request, False
        self._context.meters.preempted["withdrawn"] += running.interrupted_for is not None
        self._effects.settle(running)
        self._effects.show(running)
        self._context.meters.clicks["tasks_adopted"] += 1
        self._note_dispatch(request, self._context.clock.now)

    def _to_high(self, task: Task, request: Request) -> None:
        if task.lane is not Lane.HIGH:
            task.origin = (task.lane, task.priority)
        task.lane, task.priority, task.request = Lane.HIGH, default_priority(Lane.HIGH), request
        task.seen = None

    # --- clients -------------------------------------------------------------------------------------------------

    def _choose(self, tenant: Tenant, platforms: set[str]) -> Client | None:
        chosen = choose_for_request(tenant.states.values(), sorted(platforms), self._blocked(tenant))
        return None if chosen is None else self._context.clients[chosen.client_id]

    def _blocked(self, tenant: Tenant) -> dict[str, set[UUID]]:
        """Platforms at their limit, with the clients whose tasks there would give way to an accept."""
        holders: defaultdict[str, list[Attempt]] = defaultdict(list)
        for attempt in tenant.live:
            holders[attempt.task.platform.name].append(attempt)
        limit = self._context.platform_limit
        return {
            name: {one.client.id for one in held if _gives_way(one)}
            for name, held in holders.items()
            if len(held) >= limit
        }

    def bind(self, tenant: Tenant) -> None:
        """High tasks that wait without a client get one that is there; room is made on it (the coordinator's step)."""
        for request in [one for one in tenant.requests if one.open]:
            waiting = [task for task in request.tasks.values() if task.open and task.attempt is None and not task.bound]
            if waiting:
                self._bind(request, waiting)

    def _bind(self, request: Request, waiting: list[Task]) -> None:
        client = self._choose(request.tenant, {task.platform.name for task in waiting})
        able = [task for task in waiting if _client_for(task, client)]
        if client is None or not able:
            return
        for task in able:
            self._effects.take(task)
            task.bound = client
            self._effects.let_wait(task)
        request.client = request.client or client
        self._make_room(request, len(able), client)
        self._chase(request, client)

    def unbind(self, client: Client) -> None:
        """Its waiting high tasks may go to any other client."""
        for request in client.tenant.requests:
            request.client = None if request.client is client else request.client
            for task in request.tasks.values():
                if task.open and task.attempt is None and task.bound is client:
                    self._effects.take(task)
                    task.bound = None
                    self._effects.let_wait(task)

    # --- preemption ----------------------------------------------------------------------------------------------

    def _make_room(self, request: Request, wanted: int, client: Client | None = None) -> None:
        """Take back what is queued, interrupt what runs (steps 6 and 7); who wants no slot disturbs nobody."""
        client = client or request.client
        if client is None or not wanted:
            return
        for attempt in [one for one in client.held if one.state is State.QUEUED and one.lane is not Lane.HIGH]:
            self._effects.release(attempt)
            self._context.meters.preempted["queued_taken_back"] += 1
        victims = self._victims(request, client, wanted)
        for victim in victims:
            victim.interrupted_for = request
            request.victims[victim] = self._context.clock.now
            self._effects.show(victim)
        self._context.meters.preempted["asked"] += len(victims)
        self._context.clock.after(self._context.machine.push_ms / 1000, self._desks.order, victims)

    def _victims(self, request: Request, client: Client, wanted: int) -> list[Attempt]:
        settings = self._context.settings
        able = {
            UUID(int=one.id): one
            for one in client.held
            if one.state is State.RUNNING and one.scheduled and one.interrupted_for is None
        }
        running = [_running(task_id, one, self._context.clock.now) for task_id, one in able.items()]
        chosen = choose_victims(
            running,
            policy=settings.preempt_policy,
            needed=min(wanted, self._context.slots) - max(self._context.slots - client.running(), 0),
            max_preemptions=settings.max_preemptions,
        )
        return [able[victim.task_id] for victim in chosen]

    def _chase(self, request: Request, client: Client) -> None:
        """Soft and hard timeout of the victims on that client: the longest of their platforms."""
        platforms = [victim.task.platform for victim in request.victims if victim.client is client]
        if platforms:
            clock = self._context.clock
            clock.after(max(platform.soft for platform in platforms), self._soft, request, client)
            clock.after(max(platform.hard for platform in platforms), self._hard, request, client)

    def _soft(self, request: Request, client: Client) -> None:
        late = [victim for victim in request.victims if victim.client is client] if request.open else []
        self._context.meters.preempted["past_soft_timeout"] += len(late)

    def _hard(self, request: Request, client: Client) -> None:
        """`force_release`: the lease is revoked, the slot free; waiting high tasks move if another client is there."""
        late = [victim for victim in request.victims if victim.client is client] if request.open else []
        for victim in late:
            self._revoke(victim)
        if late and any(other.online for other in request.tenant.clients if other is not client):
            self.unbind(client)
            self._context.wake(request.tenant)

    def _revoke(self, victim: Attempt) -> None:
        """Unknown until the desktop is told with its next heartbeat, and halts."""
        self._context.meters.preempted["forced"] += 1
        self._context.meters.wasted += self._context.clock.now - victim.started
        self._effects.settle(victim)
        victim.state, victim.stops_at = State.UNKNOWN, 0.0
        self._effects.show(victim)
        self._context.clock.after(self._random.uniform(0.0, HEARTBEAT_SECONDS), self._resolve, victim)
        self._context.wake(victim.task.tenant)

    def _resolve(self, victim: Attempt) -> None:
        if victim.state is State.UNKNOWN:
            self._effects.release(victim, preempted=True, aborted=True)

    # --- timers and the end --------------------------------------------------------------------------------------

    def _plan_timers(self, request: Request) -> None:
        settings, clock = self._context.settings, self._context.clock
        clock.after(settings.request_ttl_seconds, self._ttl, request)
        clock.after(settings.request_hard_end_seconds, self._hard_end, request)
        if request.client is not None:
            self._chase(request, request.client)

    def dispatched(self, attempt: Attempt, at: float) -> None:
        """A task is at its desktop at that second."""
        if attempt.request is not None:
            self._note_dispatch(attempt.request, at)

    def _note_dispatch(self, request: Request, at: float) -> None:
        if request.first_dispatch is None:
            request.first_dispatch = at
            self._context.meters.click_dispatched.append(at - request.clicked)

    def _ttl(self, request: Request) -> None:
        if request.open and request.first_dispatch is None:
            self._close(request, "timed_out")

    def _hard_end(self, request: Request) -> None:
        if request.open:
            self._close(request, "partial" if _completed(request) else "timed_out")

    def settled(self, request: Request) -> None:
        """Counters have moved: the request ends with its last task."""
        if not request.open or _unfinished(request.tasks.values()):
            return
        completed = _completed(request)
        answered = "succeeded" if completed == len(request.tasks) else "partial"
        self._context.meters.click_finished.append(self._context.clock.now - request.clicked)
        self._close(request, answered if completed else "failed")

    def _close(self, request: Request, status: str) -> None:
        """What still waits or runs leaves the request; what was asked to stop for it goes on."""
        request.open = False
        request.tenant.requests.remove(request)
        self._context.meters.clicks[status] += 1
        for victim in list(request.victims):
            self._context.meters.preempted["withdrawn"] += 1
            self._effects.settle(victim)
            self._effects.show(victim)
        for task in _unfinished(request.tasks.values()):
            self._effects.return_to_origin(task)
        self._context.wake(request.tenant)


def _unfinished(tasks: Iterable[Task]) -> list[Task]:
    return [task for task in tasks if task.open]


def _completed(request: Request) -> int:
    return sum(task.outcome is Outcome.COMPLETED for task in request.tasks.values())


def _left_without(request: Request, tasks: Sequence[Task]) -> bool:
    """Whether a click on these tasks takes everything unfinished from the request."""
    taken = {task.id for task in tasks}
    return all(task.id in taken for task in _unfinished(request.tasks.values()))


def _client_for(task: Task, client: Client | None) -> Client | None:
    """A task on a platform that the client is not logged in to stays unbound: another client may have it."""
    return None if client is None or task.platform.name in client.sessions else client


def _gives_way(attempt: Attempt) -> bool:
    if attempt.state is State.QUEUED:
        return attempt.lane is not Lane.HIGH
    return attempt.state is State.RUNNING and attempt.scheduled


def _running(task_id: UUID, attempt: Attempt, now: float) -> Running:
    passed = sum(point <= now for point in attempt.points)
    return Running(task_id, PHASES[min(passed, len(PHASES) - 1)], moment(attempt.started), attempt.task.preemptions)
