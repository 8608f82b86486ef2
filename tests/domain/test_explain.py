"""Explain names what binds, with the planner's own decision (1-dispatch §1.3)."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.budgets import Refusal
from domain.errors import NotFound
from domain.explain import MAY_GO, Explanation, Step, explain
from domain.lanes import Lane
from domain.rounds import Candidate, Hold, Live, RoundState, plan_round
from tests.support.planning import PLATFORMS, SMALL, A, B, candidates, client, high, picked, state, states, task


def why(given_state: RoundState, one: Candidate, *others: Candidate, **more: Any) -> Explanation:
    return explain(given_state, [one, *others], one.task_id, **more)


@settings(max_examples=60)
@given(candidates, states(), st.data())
def test_explain_says_may_go_exactly_when_the_planner_picks_it_alone(
    given_tasks: list[Candidate], given_state: RoundState, data: st.DataObject
) -> None:
    if not given_tasks:
        return
    one = data.draw(st.sampled_from(given_tasks))
    alone = why(given_state, one)
    plan = plan_round(given_state, [one])
    assert (picked(plan) == {one.task_id: alone.client_id}) if alone.may_go else picked(plan) == {}
    # The reason that the planner counted is the one that explain gives.
    assert [refusal.value for refusal in plan.refusals] == ([alone.reason] if alone.reason in [*Refusal] else [])


@settings(max_examples=60)
@given(candidates, states(), st.data())
def test_the_binding_step_is_the_first_that_did_not_pass(
    given_tasks: list[Candidate], given_state: RoundState, data: st.DataObject
) -> None:
    if not given_tasks:
        return
    found = explain(given_state, given_tasks, data.draw(st.sampled_from(given_tasks)).task_id)
    failed = [step for step in found.steps if not step.passed]
    assert (found.binding is None) == found.may_go
    assert not failed if found.may_go else failed[0] == found.binding
    if found.binding is not None and found.binding.limit is not None and found.binding.used is not None:
        assert found.binding.used >= found.binding.limit


IDLE = state([client(A)])
RUNNING = [Live(1, A, name, True, Lane.NORMAL) for name in ("qwen", "doubao")]
HELD = [Live(1, B, "openai", True, Lane.NORMAL)]
QUEUED = [Live(1, A, "qwen", False, Lane.NORMAL)] * 20
CASES = [
    (state([client(A)], paused_lanes=frozenset({Lane.NORMAL})), task(1), Hold.LANE_PAUSED),
    (state([client(A)], paused_tenants=frozenset({1})), task(1), Hold.TENANT_PAUSED),
    (state([client(A)], platform_limits={}), task(1), Hold.PLATFORM_PAUSED),
    (IDLE, task(1, Lane.HIGH, awaits_client=True), Hold.AWAITS_CLIENT),
    (state([client(A)], high_waiting=frozenset({1})), task(1, Lane.RETRY), Hold.RETRY_AFTER_HIGH),
    (state([client(A)], normal_waiting={1: 60}), task(1, Lane.RETRY), Hold.RETRY_AFTER_NORMAL),
    (state([]), task(1), Hold.NO_CLIENT),
    (IDLE, task(1, bound_to=B), Hold.NO_CLIENT),
    (state([client(A, paused=True)]), task(1), Hold.CLIENT_PAUSED),
    (state([client(A, platform_sessions={"openai": "expired"})]), task(1), Hold.LOGIN_BROKEN),
    (state([client(A)], reserved=frozenset({A})), task(1), Hold.CLIENT_HAS_HIGH),
    (state([client(A)], cluster_minute=240), task(1), Refusal.CLUSTER_MINUTE),
    (state([client(A)], tenant_minute={1: 30}), task(1), Refusal.TENANT_MINUTE),
    (state([client(A)], RUNNING), task(1), Refusal.CLIENT_CONCURRENCY),
    (state([client(A)], QUEUED), task(1), Refusal.CLIENT_QUEUE_DEPTH),
    (state([client(A)], HELD), task(1), Refusal.PLATFORM_CONCURRENCY),
    (IDLE, task(1), None),
]


@pytest.mark.parametrize(("given_state", "one", "reason"), CASES)
def test_every_reason_has_its_code_and_a_sentence_with_its_numbers(
    given_state: RoundState, one: Candidate, reason: Hold | Refusal | None
) -> None:
    found = why(given_state, one)
    assert found.reason == (MAY_GO if reason is None else reason)
    assert "{" not in found.sentence
    assert found.sentence.endswith(".")
    if found.binding is not None and found.binding.limit:
        assert str(found.binding.limit) in found.sentence


def test_every_reason_is_among_the_cases() -> None:
    assert {reason for _, _, reason in CASES} == {None, *Hold, *Refusal}


def test_the_numbers_are_those_of_the_desktop_where_the_task_came_furthest() -> None:
    found = why(state([client(A, free=9), client(B)], [*RUNNING, *HELD]), task(1))
    assert (found.client_id, found.binding) == (B, Step("platform_concurrency", False, 1, 1))
    assert [step.name for step in found.steps if step.used is not None] == [refusal.value for refusal in Refusal]


def test_what_high_bypasses_has_no_limit() -> None:
    found = why(state([client(A)], QUEUED, tenant_minute={1: 99}), high(1))
    assert found.may_go
    assert {step.name for step in found.steps if step.used is not None and step.limit is None} == {
        "tenant_minute",
        "client_queue_depth",
    }
    assert Hold.CLIENT_HAS_HIGH not in [step.name for step in found.steps]


def test_high_that_leaves_the_floor_to_normal_shows_what_is_left_for_it() -> None:
    wide = dict.fromkeys(PLATFORMS, 9)
    given_state = state(
        [client(A), client(B)], settings=SMALL, normal_floor=0.2, cluster_minute=27, platform_limits=wide
    )
    assert why(given_state, high(9)).may_go
    found = why(given_state, high(9), task(1))
    assert found.binding == Step("cluster_minute", False, 27, 26)


def test_the_waiting_of_others_counts_as_it_does_for_the_planner() -> None:
    assert why(IDLE, task(1), high(2)).reason == Hold.CLIENT_HAS_HIGH
    assert why(IDLE, task(1, Lane.RETRY), task(2, Lane.HIGH, awaits_client=True)).reason == Hold.RETRY_AFTER_HIGH


def test_a_limit_of_zero_says_that_it_must_be_raised() -> None:
    found = why(state([client(A)], platform_limits={"openai": 0}), task(1), position=0, per_minute=6.0)
    assert "raises" in found.sentence
    assert found.estimate_seconds is None


def test_the_estimate_is_its_turn_at_the_present_rate_and_not_before_the_window_frees() -> None:
    full = state([client(A)], tenant_minute={1: 30})
    assert why(IDLE, task(1), position=0, per_minute=6.0).estimate_seconds == 0.0
    assert why(IDLE, task(1), position=2, per_minute=6.0).estimate_seconds == 30.0
    assert why(full, task(1), position=2, per_minute=6.0, frees_in=45.0).estimate_seconds == 45.0
    assert why(full, task(1), frees_in=12.5).estimate_seconds == 12.5
    assert why(state([client(A)], HELD), task(1), position=2, per_minute=0.0).estimate_seconds is None
    paused = state([client(A)], paused_tenants=frozenset({1}))
    assert why(paused, task(1), position=2, per_minute=6.0).estimate_seconds is None


def test_a_task_that_does_not_wait_is_not_explained() -> None:
    with pytest.raises(NotFound):
        explain(IDLE, [task(1)], 2)
