"""One round of the coordinator: lanes in order, refusals, pauses, the choice of a desktop (1-dispatch §1.3, §1.4)."""

from collections import Counter
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given, settings

from domain.budgets import Refusal
from domain.lanes import Lane
from domain.quota import Quota
from domain.rounds import Candidate, Live, RoundState, dispatch_order, plan_round
from tests.support.planning import (
    OTHER_REQUEST,
    PLATFORMS,
    REQUEST,
    A,
    B,
    C,
    after,
    candidates,
    client,
    high,
    picked,
    state,
    states,
    task,
)


def test_unbound_work_is_spread_over_the_clients_with_the_most_room() -> None:
    plan = plan_round(state([client(A), client(B)]), [task(1), task(2, platform="qwen")])
    assert Counter(picked(plan).values()) == {A: 1, B: 1}


def test_high_goes_first_and_its_client_gets_no_new_normal() -> None:
    plan = plan_round(state([client(A)]), [task(1, platform="qwen"), high(9)])
    assert picked(plan) == {9: A}


def test_normal_goes_on_elsewhere_while_a_client_has_high_work() -> None:
    plan = plan_round(state([client(A), client(B)]), [task(1, platform="qwen"), high(9)])
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
    broken = client(A, platform_sessions={"openai": "login_required"})
    assert picked(plan_round(state([broken]), [task(1), task(2, platform="qwen")])) == {2: A}


def test_a_paused_lane_is_left_alone() -> None:
    paused = frozenset({Lane.NORMAL})
    assert picked(plan_round(state([client(A)], paused_lanes=paused), [task(1), task(2, Lane.HIGH, "qwen")])) == {2: A}


def test_a_task_of_another_workspace_or_tenant_never_lands_on_a_client() -> None:
    assert picked(plan_round(state([client(A)]), [task(1, workspace_id=8), task(2, tenant_id=2)])) == {}


def test_high_work_without_a_client_is_left_to_the_binding() -> None:
    assert picked(plan_round(state([client(A)]), [task(1, Lane.HIGH, request_id=REQUEST, awaits_client=True)])) == {}


def test_a_full_cluster_minute_turns_everybody_away_and_says_what_it_must_fall_below() -> None:
    waiting = [task(number, platform=name) for number, name in enumerate(PLATFORMS)]
    plan = plan_round(state([client(A)], cluster_minute=240), [*waiting, task(9, Lane.RETRY)])
    assert (plan.picks, plan.refusals, plan.full_minutes) == ((), {Refusal.CLUSTER_MINUTE: 4}, {0: 240})


def test_high_uses_the_room_up_to_the_fuse_before_scheduled_work_ends_the_round() -> None:
    waiting = [task(1, platform="qwen"), high(9)]
    assert picked(plan_round(state([client(A), client(B)], cluster_minute=499), waiting)) == {9: A}
    full = plan_round(state([client(A), client(B)], cluster_minute=500), waiting)
    assert (full.picks, full.refusals, full.full_minutes) == ((), {Refusal.CLUSTER_MINUTE: 2}, {0: 500})


def test_a_full_tenant_holds_up_neither_its_high_work_nor_other_tenants() -> None:
    fleet = [client(A), client(B, tenant=2), client(UUID(int=3))]
    waiting = [task(1, platform="qwen"), task(2, platform="doubao"), task(3, tenant_id=2)]
    plan = plan_round(state(fleet, tenant_minute={1: 30}), [*waiting, high(4)])
    assert (picked(plan), plan.refusals, plan.full_minutes) == ({3: B, 4: A}, {Refusal.TENANT_MINUTE: 2}, {1: 30})


def test_a_share_that_was_used_up_at_the_reading_is_a_full_minute() -> None:
    plan = plan_round(state([client(A)], cluster_minute=240, share_used_up=240), [])
    assert (plan.refusals, plan.full_minutes) == ({}, {0: 240})


def test_high_is_drained_in_order_before_anything_else() -> None:
    waiting = [high(3, priority=5999), high(2, platform="qwen"), high(1, platform="qwen"), task(4, platform="doubao")]
    plan = plan_round(state([client(A), client(B)]), waiting)
    assert [pick.task.task_id for pick in plan.picks] == [3, 1, 4]


@pytest.mark.parametrize(
    ("busy", "refusal"),
    [
        ([Live(1, A, name, True, Lane.NORMAL) for name in ("qwen", "doubao")], Refusal.CLIENT_CONCURRENCY),
        ([Live(1, A, "qwen", False, Lane.NORMAL)] * 20, Refusal.CLIENT_QUEUE_DEPTH),
    ],
)
def test_unbound_work_tries_the_next_best_desktop_and_bound_work_waits(busy: list[Live], refusal: Refusal) -> None:
    # A has the most room by far; only its limits say that it may take nothing.
    given_state = state([client(A, free=99), client(B)], busy)
    assert picked(plan_round(given_state, [task(1)])) == {1: B}
    bound = plan_round(given_state, [task(1, bound_to=A)])
    assert (picked(bound), bound.refusals) == ({}, {refusal: 1})


def test_the_desktop_that_let_the_task_furthest_names_the_refusal() -> None:
    full = [Live(1, A, name, True, Lane.NORMAL) for name in ("qwen", "doubao")]
    held = Live(1, B, "openai", True, Lane.NORMAL)
    plan = plan_round(state([client(A, free=99), client(B)], [*full, held]), [task(1), task(2)])
    assert plan.refusals == {Refusal.PLATFORM_CONCURRENCY: 2}


def test_of_two_desktops_with_equal_room_the_one_that_aborts_less_is_chosen() -> None:
    assert picked(plan_round(state([client(A, abort_rate=0.5), client(B, abort_rate=0.1)]), [task(1)])) == {1: B}


def test_every_refusal_is_counted_by_candidate() -> None:
    plan = plan_round(state([client(A)]), [task(number) for number in range(5)])
    assert (len(plan.picks), plan.refusals) == (1, {Refusal.PLATFORM_CONCURRENCY: 4})


def test_paused_tenants_desktops_and_platforms_get_nothing() -> None:
    assert picked(plan_round(state([client(A)], paused_tenants=frozenset({1})), [task(1), high(2)])) == {}
    assert picked(plan_round(state([client(A, paused=True)]), [task(1), high(2)])) == {}
    assert picked(plan_round(state([client(A)], platform_limits={"qwen": 1}), [task(1), task(2, platform="qwen")])) == {
        2: A
    }


def test_a_global_platform_counts_over_all_tenants() -> None:
    held = Live(2, C, "openai", True, Lane.NORMAL)
    fleet = [client(A), client(C, tenant=2)]
    assert picked(plan_round(state(fleet, [held]), [task(1)])) == {1: A}
    assert picked(plan_round(state(fleet, [held], platforms_are_global=True), [task(1)])) == {}
    both = [task(1), task(2, tenant_id=2)]
    assert picked(plan_round(state(fleet, platforms_are_global=True), both)) == {1: A}


def test_legacy_leases_and_offers_count_like_any_other() -> None:
    lease = Live(1, B, "openai", True, Lane.NORMAL, legacy=True)
    offers = [Live(1, A, "qwen", False, Lane.NORMAL, legacy=True)] * 20
    plan = plan_round(state([client(A)], [lease]), [task(1, legacy=True)])
    assert plan.refusals == {Refusal.PLATFORM_CONCURRENCY: 1}
    plan = plan_round(state([client(A)], offers), [task(1)])
    assert plan.refusals == {Refusal.CLIENT_QUEUE_DEPTH: 1}


def test_unbound_high_work_finds_the_desktop_whose_victim_holds_the_platform() -> None:
    victim = Live(1, B, "openai", True, Lane.NORMAL, interrupted_for=REQUEST)
    mine = task(1, Lane.HIGH, request_id=REQUEST)
    assert picked(plan_round(state([client(A), client(B, free=1)], [victim]), [mine])) == {1: B}


def test_a_desktop_that_runs_high_work_gets_no_new_normal() -> None:
    running = Live(1, A, "qwen", True, Lane.HIGH)
    assert picked(plan_round(state([client(A)], [running]), [task(1)])) == {}
    assert picked(plan_round(state([client(A, free=99), client(B)], [running]), [task(1)])) == {1: B}


def test_what_waits_at_a_desktop_already_takes_from_its_room() -> None:
    waiting = Live(1, A, "qwen", False, Lane.NORMAL)
    assert picked(plan_round(state([client(A), client(B)], [waiting]), [task(1)])) == {1: B}


def test_of_several_ceilings_the_window_first_falls_below_the_highest() -> None:
    given_state = state([client(A), client(C, tenant=2)], cluster_minute=500)
    plan = plan_round(given_state, [high(1), task(2), task(3, Lane.RETRY, tenant_id=2)])
    assert plan.full_minutes == {0: 500}


def test_a_slot_under_interrupt_is_not_free_for_scheduled_work_of_the_same_request() -> None:
    victims = [Live(1, A, name, True, Lane.NORMAL, interrupted_for=REQUEST) for name in ("openai", "qwen")]
    given_state = state([client(A, free=0)], victims)
    assert picked(plan_round(given_state, [task(1, platform="doubao", request_id=REQUEST)])) == {}


def test_unknown_work_holds_its_platform_and_no_slot() -> None:
    unknown = [Live(1, A, "openai", False, Lane.NORMAL, unknown=True)] * 2
    plan = plan_round(state([client(A)], unknown), [task(1), task(2, platform="qwen")])
    assert (picked(plan), plan.refusals) == ({2: A}, {Refusal.PLATFORM_CONCURRENCY: 1})


def test_a_round_ends_at_its_limit_and_the_next_goes_on() -> None:
    waiting = [task(number, platform=name) for number, name in enumerate(PLATFORMS)]
    first = plan_round(state([client(A)]), waiting, limit=2)
    assert (list(picked(first)), first.refusals) == ([0, 1], {})
    rest = [one for one in waiting if one.task_id not in picked(first)]
    assert list(picked(plan_round(after(state([client(A)]), first.picks), rest))) == [2]


def test_permits_of_a_quota_stand_for_the_cluster_minute_and_its_floor() -> None:
    waiting = [*(task(number, platform=name) for number, name in enumerate(PLATFORMS)), high(7), high(8), high(9)]
    given_state = state(
        [client(A), client(B)],
        cluster_minute=500,
        normal_floor=0.5,
        platform_limits=dict.fromkeys(PLATFORMS, 9),
        quota=Quota(scheduled=1, high=2),
    )
    plan = plan_round(given_state, waiting)
    assert (picked(plan), plan.refusals) == ({7: A, 8: A, 0: B}, {Refusal.CLUSTER_MINUTE: 3})
    assert (plan.lacking, plan.full_minutes) == (Quota(scheduled=2, high=1), {})


@settings(max_examples=60)
@given(candidates, candidates)
def test_the_order_is_total_and_does_not_depend_on_who_else_waits(one: list[Candidate], more: list[Candidate]) -> None:
    known = {each.task_id for each in one}
    alone = sorted(one, key=dispatch_order)
    together = sorted([*(each for each in more if each.task_id not in known), *one], key=dispatch_order)
    assert [each for each in together if each.task_id in known] == alone
    assert len({dispatch_order(each) for each in together}) == len(together)


@settings(max_examples=60)
@given(candidates, states())
def test_the_same_state_gives_the_same_plan_whatever_the_order_of_reading(
    given_tasks: list[Candidate], given_state: RoundState
) -> None:
    turned = replace(given_state, live=given_state.live[::-1], clients=dict(reversed(given_state.clients.items())))
    assert plan_round(given_state, given_tasks) == plan_round(turned, given_tasks[::-1])


def one_by_one(given_state: RoundState, given_tasks: list[Candidate]) -> dict[int, UUID]:
    """The slow way: a round for each pick, with everything picked so far counted as live."""
    found: dict[int, UUID] = {}
    fixed = replace(
        given_state,
        reserved=given_state.reserved | {one.bound_to for one in given_tasks if one.lane is Lane.HIGH and one.bound_to},
        high_waiting=given_state.high_waiting | {one.tenant_id for one in given_tasks if one.lane is Lane.HIGH},
    )
    waiting = list(given_tasks)
    while picks := plan_round(fixed, waiting, limit=1).picks:
        found |= {picks[0].task.task_id: picks[0].client_id}
        fixed = after(fixed, picks)
        waiting.remove(picks[0].task)
    return found


@settings(max_examples=60)
@given(candidates, states())
def test_a_round_dispatches_what_rounds_of_one_pick_each_would(
    given_tasks: list[Candidate], given_state: RoundState
) -> None:
    # One tenant: between several, tags that a lone round does not have decide who comes first.
    mine = [one for one in given_tasks if one.tenant_id == 1]
    assert picked(plan_round(given_state, mine)) == one_by_one(given_state, mine)
