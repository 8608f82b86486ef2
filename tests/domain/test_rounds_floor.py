"""The floor: what high leaves of each minute to normal work on other desktops, and when it lapses (1-dispatch §1.4)."""

from hypothesis import given, settings
from hypothesis import strategies as st

from domain.budgets import Refusal, limits_of, with_floors
from domain.dispatch_settings import DispatchSettings, Fuses
from domain.lanes import Lane
from domain.rounds import Candidate, Live, RoundState, plan_round
from tests.support.planning import PLATFORMS, SMALL, A, B, C, after, client, high, picked, state, task

# High may use 30, of which 4 are normal's.
FLOOR = {"settings": SMALL, "normal_floor": 0.2}
WIDE = dict.fromkeys(PLATFORMS, 99)
HIGH = [high(number, A, PLATFORMS[number % 3]) for number in range(100, 140)]


def backlog(number: int, **more: object) -> list[Candidate]:
    return [task(one, platform=PLATFORMS[one % 3], **more) for one in range(number)]


def lanes(given_state: RoundState, waiting: list[Candidate]) -> tuple[int, int]:
    """How many high and how many other tasks a round dispatches."""
    plan = plan_round(given_state, waiting)
    number = sum(pick.task.lane is Lane.HIGH for pick in plan.picks)
    return number, len(plan.picks) - number


def test_high_leaves_the_floor_to_normal_work_on_other_desktops() -> None:
    given_state = state([client(A), client(B, tenant=2)], platform_limits=WIDE, **FLOOR)
    assert lanes(given_state, [*HIGH, *backlog(3, tenant_id=2)]) == (27, 3)
    fleet = [client(A), client(B, tenant=2), client(C, tenant=2)]
    plan = plan_round(state(fleet, platform_limits=WIDE, **FLOOR), [*HIGH, *backlog(40, tenant_id=2)])
    assert (len(plan.picks), plan.refusals[Refusal.CLUSTER_MINUTE]) == (30, 50)
    assert sum(pick.task.lane is not Lane.HIGH for pick in plan.picks) == 4


def test_what_normal_makes_no_use_of_is_highs_again_in_the_same_round() -> None:
    given_state = state([client(A), client(B)], platform_limits=WIDE, **FLOOR)
    assert lanes(given_state, [*HIGH, *backlog(1)]) == (29, 1)
    assert lanes(given_state, [*HIGH, task(1, Lane.NORMAL_BOOSTED)]) == (29, 1)
    assert lanes(given_state, HIGH) == (30, 0)


def test_the_floor_lapses_when_the_normal_work_could_go_to_no_other_desktop() -> None:
    its_own = state([client(A)], platform_limits=WIDE, **FLOOR)
    assert lanes(its_own, [*HIGH, *backlog(9)]) == (30, 0)
    no_room = [Live(1, B, name, True, Lane.NORMAL) for name in PLATFORMS]
    full = state([client(A), client(B)], no_room, platform_limits=WIDE, **FLOOR)
    assert lanes(full, [*HIGH, *backlog(9)]) == (30, 0)
    paused = state([client(A), client(B)], platform_limits=WIDE, paused_lanes=frozenset({Lane.NORMAL}), **FLOOR)
    assert lanes(paused, [*HIGH, *backlog(9)]) == (30, 0)


def test_unbound_high_work_does_not_leave_its_own_desktop_to_normal() -> None:
    unbound = [task(number, Lane.HIGH) for number in range(100, 140)]
    given_state = state([client(A)], platform_limits=WIDE, cluster_minute=29, **FLOOR)
    assert lanes(given_state, [*unbound, *backlog(1)]) == (1, 0)
    two = state([client(A), client(B)], platform_limits=WIDE, cluster_minute=29, **FLOOR)
    assert lanes(two, [*unbound, *backlog(1)]) == (0, 1)


def test_normal_below_its_floor_goes_on_where_high_has_filled_the_share_and_never_past_the_fuse() -> None:
    fleet = [client(A), client(B)]
    filled = state(fleet, platform_limits=WIDE, cluster_minute=28, scheduled_minute=1, **FLOOR)
    assert lanes(filled, backlog(9)) == (0, 2)
    filled = state(fleet, platform_limits=WIDE, cluster_minute=20, scheduled_minute=1, **FLOOR)
    assert lanes(filled, backlog(9)) == (0, 3)
    without = state(fleet, platform_limits=WIDE, cluster_minute=20, scheduled_minute=1, settings=SMALL)
    assert lanes(without, backlog(9)) == (0, 0)


def test_a_minute_that_scheduled_work_filled_itself_owes_it_nothing() -> None:
    given_state = state([client(B)], platform_limits=WIDE, cluster_minute=16, scheduled_minute=16, **FLOOR)
    plan = plan_round(given_state, backlog(9))
    assert (plan.picks, plan.full_minutes) == ((), {0: 16})


def test_a_tenants_own_high_does_not_take_its_floor() -> None:
    fleet = [client(A), client(B)]
    filled = {"tenant_minute": {1: 9}, "tenant_scheduled_minute": {1: 1}, "platform_limits": WIDE}
    assert lanes(state(fleet, **filled, **FLOOR), backlog(9)) == (0, 1)
    assert lanes(state(fleet, **filled, settings=SMALL), backlog(9)) == (0, 0)


def test_the_window_that_high_left_to_normal_must_fall_below_what_is_highs() -> None:
    given_state = state([client(A), client(B)], platform_limits=WIDE, cluster_minute=27, **FLOOR)
    plan = plan_round(given_state, [*HIGH, *backlog(1)], limit=1)
    assert [pick.task.lane for pick in plan.picks] == [Lane.NORMAL]
    assert plan.full_minutes == {}
    held = plan_round(given_state, [*HIGH, *backlog(40)])
    assert held.full_minutes == {0: 30}


@settings(max_examples=40)
@given(
    st.integers(1, 60),
    st.integers(1, 60),
    st.integers(1, 40),
    st.sampled_from([0.0, 0.1, 0.25, 0.5]),
    st.integers(0, 30),
)
def test_over_a_minute_of_rounds_normal_gets_its_floor_and_high_all_that_is_left(
    clicks: int, normal: int, setting: int, share: float, more: int
) -> None:
    """High arrives a task a round while normal is backlogged on another desktop; nothing leaves the window."""
    given_settings = DispatchSettings(
        cluster_per_minute=setting,
        client_queue_depth=200,
        fuses=Fuses(cluster_per_minute=setting + more, client_queue_depth=200),
    )
    bounds = limits_of(given_settings, client_concurrency=None, client_queue_depth=None, platform=0)
    floor = with_floors(bounds, share).cluster_floor
    now = state([client(A), client(B, tenant=2)], settings=given_settings, platform_limits=WIDE, normal_floor=share)
    waiting: list[Candidate] = backlog(normal, tenant_id=2)
    for number in range(clicks):
        waiting.append(high(1000 + number, A, PLATFORMS[number % 3]))
        plan = plan_round(now, waiting)
        now = after(now, plan.picks)
        waiting = [one for one in waiting if one.task_id not in picked(plan)]
    assert now.cluster_minute <= setting + more
    assert now.scheduled_minute >= min(normal, floor, 30)
    high_left = sum(one.lane is Lane.HIGH for one in waiting)
    assert not high_left or now.cluster_minute == setting + more
