"""The five budgets, in order, and what high bypasses (1-dispatch §1.3)."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.budgets import Limits, Refusal, Usage, checks, decide, floor_of, limits_of, with_floors
from domain.dispatch_settings import DispatchSettings, Fuses, check_setting, from_rows
from domain.errors import InvalidInput
from domain.lanes import Lane

FREE = Usage(cluster_minute=0, tenant_minute=0, client_running=0, client_queued=0, platform_running=0)
LIMITS = limits_of(DispatchSettings(), client_concurrency=None, client_queue_depth=None, platform=1)
FULL = Usage(cluster_minute=500, tenant_minute=30, client_running=2, client_queued=20, platform_running=1)


@pytest.mark.parametrize(
    ("setting", "share", "ceiling"), [(100, 0.29, 29), (300, 0.57, 171), (10, 0.7, 7), (7, 0.5, 3)]
)
def test_scheduled_work_stops_at_its_whole_share(setting: int, share: float, ceiling: int) -> None:
    settings = DispatchSettings(cluster_per_minute=setting, scheduled_share=share)
    limits = limits_of(settings, client_concurrency=None, client_queue_depth=None, platform=1)
    assert limits.cluster_ceiling(Lane.NORMAL) == ceiling


def test_the_first_check_that_fails_is_named() -> None:
    assert decide(Lane.NORMAL, FREE, LIMITS) is None
    named = []
    usage = FULL
    for name in ("cluster_minute", "tenant_minute", "client_running", "client_queued", "platform_running"):
        named.append(decide(Lane.NORMAL, usage, LIMITS))
        usage = replace(usage, **{name: 0})
    assert named == list(Refusal)
    assert decide(Lane.NORMAL, usage, LIMITS) is None


def test_high_bypasses_tenant_minute_and_queue_depth_and_nothing_else() -> None:
    assert decide(Lane.HIGH, replace(FREE, tenant_minute=999, client_queued=999), LIMITS) is None
    assert decide(Lane.HIGH, replace(FREE, client_running=2), LIMITS) is Refusal.CLIENT_CONCURRENCY
    assert decide(Lane.HIGH, replace(FREE, platform_running=1), LIMITS) is Refusal.PLATFORM_CONCURRENCY


def test_scheduled_work_stops_at_its_share_and_high_may_use_the_room_up_to_the_fuse() -> None:
    at_share = replace(FREE, cluster_minute=240)
    assert decide(Lane.NORMAL, replace(FREE, cluster_minute=239), LIMITS) is None
    for lane in (Lane.NORMAL, Lane.NORMAL_BOOSTED, Lane.RETRY):
        assert decide(lane, at_share, LIMITS) is Refusal.CLUSTER_MINUTE
    assert decide(Lane.HIGH, replace(FREE, cluster_minute=499), LIMITS) is None
    assert decide(Lane.HIGH, replace(FREE, cluster_minute=500), LIMITS) is Refusal.CLUSTER_MINUTE


def test_below_its_floor_scheduled_work_goes_on_up_to_the_fuse() -> None:
    floors = with_floors(LIMITS, 0.2)
    assert (floors.cluster_floor, floors.tenant_floor) == (60, 6)
    filled = replace(FREE, cluster_minute=499, cluster_scheduled=59)
    assert decide(Lane.NORMAL, filled, floors) is None
    assert decide(Lane.NORMAL, filled, LIMITS) is Refusal.CLUSTER_MINUTE
    assert decide(Lane.NORMAL, replace(filled, cluster_scheduled=60), floors) is Refusal.CLUSTER_MINUTE
    assert decide(Lane.NORMAL, replace(filled, cluster_minute=500), floors) is Refusal.CLUSTER_MINUTE


def test_below_its_floor_a_tenants_scheduled_work_goes_on_beside_its_own_high() -> None:
    floors = with_floors(LIMITS, 0.2)
    filled = replace(FREE, tenant_minute=99, tenant_scheduled=5)
    assert decide(Lane.RETRY, filled, floors) is None
    assert decide(Lane.RETRY, replace(filled, tenant_scheduled=6), floors) is Refusal.TENANT_MINUTE


def test_what_high_leaves_to_normal_work_is_taken_from_its_room() -> None:
    assert decide(Lane.HIGH, replace(FREE, cluster_minute=439, held_for_normal=60), LIMITS) is None
    assert decide(Lane.HIGH, replace(FREE, cluster_minute=440, held_for_normal=60), LIMITS) is Refusal.CLUSTER_MINUTE


@pytest.mark.parametrize(("limit", "share", "floor"), [(300, 0.2, 60), (100, 0.07, 7), (4, 0.2, 1), (7, 0.0, 0)])
def test_a_floor_is_at_least_its_share_in_whole_dispatches(limit: int, share: float, floor: int) -> None:
    assert floor_of(limit, share) == floor


@given(st.sampled_from([Lane.HIGH, Lane.NORMAL]), st.builds(Usage, *[st.integers(0, 600)] * 8), st.floats(0, 0.5))
def test_the_checks_shown_are_those_decided(lane: Lane, usage: Usage, share: float) -> None:
    shown = checks(lane, usage, with_floors(LIMITS, share))
    assert [check.name for check in shown] == list(Refusal)
    first = next((check.name for check in shown if not check.passed), None)
    assert first is decide(lane, usage, with_floors(LIMITS, share))


def test_a_fuse_below_the_setting_stops_scheduled_work_too() -> None:
    low = DispatchSettings(fuses=Fuses(cluster_per_minute=100))
    limits = limits_of(low, client_concurrency=None, client_queue_depth=None, platform=1)
    assert limits.cluster_ceiling(Lane.NORMAL) == 80


@given(st.sampled_from([Lane.HIGH, Lane.NORMAL, Lane.RETRY]), st.builds(Usage, *[st.integers(0, 600)] * 5))
def test_more_usage_never_turns_a_refusal_into_an_allowance(lane: Lane, usage: Usage) -> None:
    more = Usage(
        *[
            value + 1
            for value in (
                usage.cluster_minute,
                usage.tenant_minute,
                usage.client_running,
                usage.client_queued,
                usage.platform_running,
            )
        ]
    )
    if decide(lane, usage, LIMITS) is not None:
        assert decide(lane, more, LIMITS) is not None


def test_a_clients_own_limits_stay_under_the_fuse() -> None:
    limits: Limits = limits_of(DispatchSettings(), client_concurrency=64, client_queue_depth=500, platform=1)
    assert (limits.client_concurrency, limits.client_queue_depth) == (4, 40)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cluster_per_minute", 501),
        ("tenant_per_minute", 61),
        ("client_concurrency", 5),
        ("client_queue_depth", 41),
        ("platform_concurrency", 3),
        ("tenant_per_minute", -1),
        ("tenant_per_minute", "many"),
        ("tenant_per_minute", 1.5),
        ("tenant_per_minute", True),
        ("preempt_policy", "sometimes"),
        ("no_such_setting", 1),
        ("scheduled_share", float("inf")),
        ("paused_lanes", "high"),
        ("paused_lanes", ["urgent"]),
        ("paused_lanes", ["no_such_lane"]),
        ("paused_lanes", [1]),
    ],
)
def test_a_setting_over_its_fuse_or_of_the_wrong_kind_is_refused(key: str, value: object) -> None:
    with pytest.raises(InvalidInput):
        check_setting(key, value)


def test_a_tenants_own_minute_stays_under_the_fuse() -> None:
    limits = limits_of(
        DispatchSettings(), client_concurrency=None, client_queue_depth=None, platform=1, tenant_per_minute=1000
    )
    assert limits.tenant_per_minute == 60


def test_paused_lanes_are_named_once() -> None:
    assert check_setting("paused_lanes", ["retry", "normal", "retry"]) == ("retry", "normal")


def test_a_stored_value_that_is_no_longer_acceptable_falls_back_to_its_default() -> None:
    settings = from_rows({"tenant_per_minute": 60, "cluster_per_minute": 9999, "gone": 1})
    assert settings == DispatchSettings(tenant_per_minute=60)
