"""No budget exceeded in any interleaving, and nothing free beside work that may go (1-dispatch §1.3)."""

from collections import Counter, deque
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from domain.budgets import Limits, limits_of, with_floors
from domain.dispatch_settings import DispatchSettings, Fuses
from domain.fairness import FairShares
from domain.lanes import Lane
from domain.rounds import Candidate, Live, Pick, RoundState, plan_round
from tests.support.planning import FLEET, PLATFORMS, SMALL, Oracle, candidates, state, states


@settings(max_examples=60)
@given(candidates, states())
def test_after_a_round_no_task_that_may_go_waits(given_tasks: list[Candidate], given_state: RoundState) -> None:
    plan = plan_round(given_state, given_tasks)
    oracle = Oracle(given_state, given_tasks, plan.picks)
    assert [one.task_id for one in oracle.waiting if oracle.may_go(one)] == []


@settings(max_examples=60)
@given(candidates, states())
def test_every_pick_was_allowed_when_its_turn_came(given_tasks: list[Candidate], given_state: RoundState) -> None:
    picks = plan_round(given_state, given_tasks).picks
    for number, pick in enumerate(picks):
        oracle = Oracle(given_state, given_tasks, picks[:number])
        assert oracle.open(pick.task)
        assert oracle.may_go_to(pick.task, pick.client_id)


@dataclass
class Installation:
    """The counters as the database keeps them, moved by hand. Time in rounds; a window is ten of them."""

    settings: DispatchSettings = SMALL
    floor: float = 0.2
    live: list[Live] = field(default_factory=list)
    window: deque[tuple[int, int, Lane]] = field(default_factory=deque)
    now: int = 0
    waiting: list[Candidate] = field(default_factory=list)
    shares: FairShares = field(default_factory=FairShares)

    def reading(self) -> RoundState:
        scheduled = [tenant for _, tenant, lane in self.window if lane is not Lane.HIGH]
        return state(
            FLEET,
            tuple(self.live),
            settings=self.settings,
            cluster_minute=len(self.window),
            scheduled_minute=len(scheduled),
            tenant_minute=Counter(tenant for _, tenant, _ in self.window),
            tenant_scheduled_minute=Counter(scheduled),
            normal_floor=self.floor,
            platform_limits=dict.fromkeys(PLATFORMS, self.settings.platform_concurrency),
        )

    def limits(self) -> Limits:
        bare = limits_of(self.settings, client_concurrency=None, client_queue_depth=None, platform=0)
        return with_floors(bare, self.floor)

    def dispatch(self) -> None:
        plan = plan_round(self.reading(), self.waiting, self.shares)
        for pick in plan.picks:
            self._check(pick)
            self.window.append((self.now, pick.task.tenant_id, pick.task.lane))
            self.live.append(Live(pick.task.tenant_id, pick.client_id, pick.task.platform, False, pick.task.lane))
        gone = {pick.task.task_id for pick in plan.picks}
        self.waiting = [one for one in self.waiting if one.task_id not in gone]

    def _check(self, pick: Pick) -> None:
        """Before it is counted: each budget by its own words, whatever the settings were before."""
        bounds, lane, tenant = self.limits(), pick.task.lane, pick.task.tenant_id
        scheduled = [one for _, one, other in self.window if other is not Lane.HIGH]
        assert len(self.window) < bounds.cluster_fuse
        queued = sum(live.queued for live in self.live if live.client_id == pick.client_id)
        held = sum(live.tenant_id == tenant and live.platform == pick.task.platform for live in self.live)
        assert held < self.settings.platform_concurrency
        if lane is not Lane.HIGH:
            assert len(self.window) < 0.8 * bounds.cluster_per_minute or len(scheduled) < bounds.cluster_floor
            of_tenant = sum(one == tenant for _, one, _ in self.window)
            assert of_tenant < bounds.tenant_per_minute or scheduled.count(tenant) < bounds.tenant_floor
            assert queued < bounds.client_queue_depth

    def start(self, number: int) -> None:
        """What the lease does: a queued task runs if its client has a slot."""
        queued = [live for live in self.live if live.queued]
        if queued:
            chosen = queued[number % len(queued)]
            running = sum(live.running for live in self.live if live.client_id == chosen.client_id)
            if running < self.limits().client_concurrency:
                self.live[self.live.index(chosen)] = replace(chosen, running=True)

    def complete(self, number: int) -> None:
        running = [live for live in self.live if live.running]
        if running:
            self.live.remove(running[number % len(running)])

    def pass_time(self, number: int) -> None:
        self.now += 1 + number % 5
        while self.window and self.window[0][0] <= self.now - 10:
            self.window.popleft()

    def change_settings(self, number: int) -> None:
        self.floor = (0.0, 0.2, 0.5)[number % 3]
        self.settings = replace(
            SMALL,
            cluster_per_minute=(10, 20, 30)[number % 3],
            tenant_per_minute=(3, 6, 10)[number % 3],
            client_queue_depth=(1, 3, 5)[number % 3],
            platform_concurrency=1 + number % 2,
            fuses=Fuses(cluster_per_minute=30, tenant_per_minute=10),
        )


ACTIONS = ("start", "complete", "pass_time", "change_settings")


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(candidates, st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 99)), max_size=8)),
        min_size=1,
        max_size=6,
    )
)
def test_no_budget_is_exceeded_in_any_interleaving(steps: list[tuple[list[Candidate], list[tuple[str, int]]]]) -> None:
    installation = Installation()
    for number, (arriving, actions) in enumerate(steps):
        installation.waiting += [replace(one, task_id=one.task_id + 10_000 * number) for one in arriving]
        for action, choice in actions:
            getattr(installation, action)(choice)
        installation.dispatch()
