"""One round of the coordinator: no budget exceeded, lanes in order, slots under interrupt free for their preemptor."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from domain.budgets import Refusal, limits_of
from domain.client_choice import ClientState
from domain.dispatch_settings import DispatchSettings
from domain.lanes import LANE_RULES, Kind, Lane
from domain.rounds import Candidate, Live, RoundPlan, RoundState, plan_round

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
A, B = UUID(int=1), UUID(int=2)
REQUEST, OTHER_REQUEST = UUID(int=100), UUID(int=101)
PLATFORMS = ("openai", "qwen", "doubao")


def client(client_id: UUID, *, free: int = 2, tenant: int = 1, sessions: dict[str, str] | None = None) -> ClientState:
    return ClientState(client_id, tenant, 7, free_slots=free, platform_sessions=sessions or {})


def state(clients: list[ClientState], live: list[Live] | None = None, **more: object) -> RoundState:
    given_settings = DispatchSettings()
    limits = limits_of(given_settings, client_concurrency=None, client_queue_depth=None, platform=0)
    values: dict[str, object] = {
        "cluster_minute": 0,
        "tenant_minute": {},
        "platform_limits": dict.fromkeys(PLATFORMS, 1),
    }
    return RoundState(
        clients={one.client_id: one for one in clients},
        limits={one.client_id: limits for one in clients},
        live=live or [],
        **{**values, **more},
    )


def task(task_id: int, lane: Lane = Lane.NORMAL, platform: str = "openai", **more: object) -> Candidate:
    priority = LANE_RULES[Kind.MONITOR, lane].default
    values = {"tenant_id": 1, "workspace_id": 7, "enqueued_at": NOON + timedelta(seconds=task_id), **more}
    return Candidate(task_id, platform=platform, lane=lane, priority=priority, **values)


def picked(plan: RoundPlan) -> dict[int, UUID]:
    return {pick.task.task_id: pick.client_id for pick in plan.picks}


def test_unbound_work_is_spread_over_the_clients_with_the_most_room() -> None:
    plan = plan_round(state([client(A), client(B)]), [task(1), task(2, platform="qwen")])
    assert Counter(picked(plan).values()) == {A: 1, B: 1}


def test_high_goes_first_and_its_client_gets_no_new_normal() -> None:
    high = task(9, Lane.HIGH, bound_to=A, request_id=REQUEST)
    plan = plan_round(
        state([client(A)], reserved=frozenset({A}), high_waiting=frozenset({1})), [task(1, platform="qwen"), high]
    )
    assert picked(plan) == {9: A}


def test_normal_goes_on_elsewhere_while_a_client_has_high_work() -> None:
    high = task(9, Lane.HIGH, bound_to=A, request_id=REQUEST)
    plan = plan_round(
        state([client(A), client(B)], reserved=frozenset({A}), high_waiting=frozenset({1})),
        [task(1, platform="qwen"), high],
    )
    assert picked(plan) == {9: A, 1: B}


def test_a_slot_under_interrupt_is_free_for_its_preemptor_alone() -> None:
    victims = [Live(1, A, name, True, Lane.NORMAL, interrupted_for=REQUEST) for name in ("openai", "qwen")]
    mine = task(1, Lane.HIGH, bound_to=A, request_id=REQUEST)
    others = task(2, Lane.HIGH, platform="qwen", bound_to=A, request_id=OTHER_REQUEST)
    assert picked(plan_round(state([client(A, free=0)], victims), [mine, others])) == {1: A}


def test_a_platform_held_by_another_clients_victim_is_not_free() -> None:
    victim = Live(1, B, "openai", True, Lane.NORMAL, interrupted_for=REQUEST)
    mine = task(1, Lane.HIGH, bound_to=A, request_id=REQUEST)
    assert picked(plan_round(state([client(A), client(B)], [victim]), [mine])) == {}


def test_retry_waits_while_high_waits_or_normal_is_over_its_low_water_mark() -> None:
    retry = task(1, Lane.RETRY)
    assert picked(plan_round(state([client(A)]), [retry])) == {1: A}
    assert picked(plan_round(state([client(A)], high_waiting=frozenset({1})), [retry])) == {}
    assert picked(plan_round(state([client(A)], normal_waiting={1: 50}), [retry])) == {}
    assert picked(plan_round(state([client(A)], high_waiting=frozenset({2})), [retry])) == {1: A}


def test_a_broken_login_keeps_a_platform_off_the_client() -> None:
    broken = client(A, sessions={"openai": "login_required"})
    assert picked(plan_round(state([broken]), [task(1), task(2, platform="qwen")])) == {2: A}


def test_a_paused_lane_is_left_alone() -> None:
    paused = frozenset({Lane.NORMAL})
    assert picked(plan_round(state([client(A)], paused_lanes=paused), [task(1), task(2, Lane.HIGH, "qwen")])) == {2: A}


def test_a_task_of_another_workspace_or_tenant_never_lands_on_a_client() -> None:
    assert picked(plan_round(state([client(A)]), [task(1, workspace_id=8), task(2, tenant_id=2)])) == {}


def test_high_work_without_a_client_is_left_to_the_binding() -> None:
    assert picked(plan_round(state([client(A)]), [task(1, Lane.HIGH, request_id=REQUEST, awaits_client=True)])) == {}


def test_a_full_cluster_minute_ends_the_round_and_says_what_it_must_fall_below() -> None:
    waiting = [task(number, platform=name) for number, name in enumerate(PLATFORMS)]
    plan = plan_round(state([client(A)], cluster_minute=240), waiting)
    assert (plan.picks, plan.refusals, plan.full_minutes) == ((), {Refusal.CLUSTER_MINUTE: 1}, {0: 240})


def test_high_uses_the_room_up_to_the_fuse_before_scheduled_work_ends_the_round() -> None:
    high = task(9, Lane.HIGH, bound_to=A, request_id=REQUEST)
    waiting = [task(1, platform="qwen"), high]
    assert picked(plan_round(state([client(A), client(B)], cluster_minute=499), waiting)) == {9: A}
    full = plan_round(state([client(A), client(B)], cluster_minute=500), waiting)
    assert (full.picks, full.refusals, full.full_minutes) == ((), {Refusal.CLUSTER_MINUTE: 1}, {0: 500})


def test_a_full_tenant_refuses_once_and_holds_up_neither_its_high_work_nor_other_tenants() -> None:
    fleet = [client(A), client(B, tenant=2), client(UUID(int=3))]
    waiting = [task(1, platform="qwen"), task(2, platform="doubao"), task(3, tenant_id=2)]
    high = task(4, Lane.HIGH, bound_to=A, request_id=REQUEST)
    plan = plan_round(state(fleet, tenant_minute={1: 30}), [*waiting, high])
    assert (picked(plan), plan.refusals, plan.full_minutes) == ({3: B, 4: A}, {Refusal.TENANT_MINUTE: 1}, {1: 30})


def test_a_share_that_was_used_up_at_the_reading_is_a_full_minute() -> None:
    plan = plan_round(state([client(A)], cluster_minute=240, share_used_up=240), [])
    assert (plan.refusals, plan.full_minutes) == ({}, {0: 240})


candidates = st.lists(
    st.builds(
        task,
        st.integers(1, 10_000),
        st.sampled_from([Lane.HIGH, Lane.NORMAL_BOOSTED, Lane.NORMAL, Lane.RETRY]),
        st.sampled_from(PLATFORMS),
        tenant_id=st.sampled_from([1, 2]),
        bound_to=st.sampled_from([None, None, A, B]),
        request_id=st.sampled_from([None, REQUEST]),
    ),
    max_size=40,
    unique_by=lambda one: one.task_id,
)
lives = st.lists(
    st.builds(
        Live,
        st.just(1),
        st.sampled_from([A, B]),
        st.sampled_from(PLATFORMS),
        st.booleans(),
        st.sampled_from([Lane.HIGH, Lane.NORMAL]),
        st.sampled_from([None, None, REQUEST]),
    ),
    max_size=4,
)


@settings(max_examples=200)
@given(candidates, lives, st.integers(0, 520), st.integers(0, 60))
def test_no_budget_is_ever_exceeded(given_tasks: list[Candidate], live: list[Live], cluster: int, tenant: int) -> None:
    fleet = [client(A), client(B), client(UUID(int=3), tenant=2)]
    plan = plan_round(state(fleet, live, cluster_minute=cluster, tenant_minute={1: tenant}), given_tasks)
    scheduled = [pick for pick in plan.picks if pick.task.lane is not Lane.HIGH]
    assert cluster + len(plan.picks) <= max(500, cluster)
    if scheduled:
        assert cluster + len(scheduled) <= 240
        assert tenant + sum(pick.task.tenant_id == 1 for pick in scheduled) <= max(30, tenant)
    per_platform = Counter((pick.task.tenant_id, pick.task.platform) for pick in plan.picks)
    assert all(count <= 1 for count in per_platform.values())
    assert len({pick.task.task_id for pick in plan.picks}) == len(plan.picks)
    assert all(pick.task.bound_to in (None, pick.client_id) for pick in plan.picks)


def one_by_one(given_state: RoundState, given_tasks: list[Candidate]) -> dict[int, UUID]:
    """The slow way: a round of its own for each task in order, with everything picked so far counted as live."""
    live, minute, tenants = list(given_state.live), given_state.cluster_minute, Counter(given_state.tenant_minute)
    found: dict[int, UUID] = {}
    for one in sorted(given_tasks, key=lambda each: (-LANE_RULES[Kind.MONITOR, each.lane].weight, each.enqueued_at)):
        now = replace(given_state, live=live, cluster_minute=minute, tenant_minute=tenants)
        for pick in plan_round(now, [one]).picks:
            found[one.task_id] = pick.client_id
            live = [*live, Live(one.tenant_id, pick.client_id, one.platform, False, one.lane)]
            minute, tenants = minute + 1, tenants + Counter([one.tenant_id])
    return found


@given(candidates, lives, st.integers(225, 505), st.integers(0, 40))
def test_what_a_refusal_lets_the_round_skip_could_not_have_gone(
    given_tasks: list[Candidate], live: list[Live], cluster: int, tenant: int
) -> None:
    given_state = state([client(A), client(B)], live, cluster_minute=cluster, tenant_minute={1: tenant})
    assert picked(plan_round(given_state, given_tasks)) == one_by_one(given_state, given_tasks)


@given(candidates, lives)
def test_the_same_state_gives_the_same_plan_whatever_the_order_of_reading(
    given_tasks: list[Candidate], live: list[Live]
) -> None:
    fleet = [client(A), client(B)]
    assert plan_round(state(fleet, live), given_tasks) == plan_round(state(fleet, live), given_tasks[::-1])
