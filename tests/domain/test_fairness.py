"""Fair sharing: a tenant's wait is bounded by its weight, whatever the others queue (1-dispatch §1.4 rule 5)."""

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from domain.budgets import Refusal
from domain.dispatch_settings import DispatchSettings, Fuses
from domain.fairness import FairQueue, FairShares, Turns
from domain.lanes import Lane
from domain.rounds import Candidate, RoundState, plan_round
from tests.support.planning import PLATFORMS, client, high, picked, state, task

PERMITS = 8
# Only the cluster's minute binds: scheduled work stops at 8.
WIDE = DispatchSettings(
    cluster_per_minute=10,
    tenant_per_minute=999,
    client_queue_depth=999,
    fuses=Fuses(tenant_per_minute=999, client_queue_depth=999),
)


def reading(tenants: list[int], free: int, weights: dict[int, int]) -> RoundState:
    """A desktop for each tenant, and so many permits of the cluster's minute."""
    fleet = [client(UUID(int=tenant), tenant=tenant) for tenant in tenants]
    platforms = dict.fromkeys(PLATFORMS, 999)
    return state(fleet, settings=WIDE, cluster_minute=PERMITS - free, weights=weights, platform_limits=platforms)


def backlog(queues: dict[int, int], lane: Lane = Lane.NORMAL) -> list[Candidate]:
    """So many tasks of each tenant; those of the lower tenants are older."""
    return [
        task(tenant * 1000 + number, lane, PLATFORMS[number % 3], tenant_id=tenant)
        for tenant, length in queues.items()
        for number in range(length)
    ]


def serve(
    waiting: list[Candidate], permits: list[int], weights: dict[int, int], shares: FairShares
) -> tuple[list[int], list[Candidate]]:
    """Rounds with so many permits each: the tenants in the order of their picks, and what still waits."""
    order: list[int] = []
    tenants = sorted({one.tenant_id for one in waiting})
    for free in permits:
        plan = plan_round(reading(tenants, free, weights), waiting, shares)
        order += [pick.task.tenant_id for pick in plan.picks]
        waiting = [one for one in waiting if one.task_id not in picked(plan)]
    return order, waiting


def apart(order: list[int], one: int, other: int, weights: dict[int, int]) -> float:
    """The greatest difference of picks per weight over any stretch of the order."""
    ahead, highest, lowest = 0.0, 0.0, 0.0
    for tenant in order:
        ahead += (tenant == one) / weights[one] - (tenant == other) / weights[other]
        highest, lowest = max(highest, ahead), min(lowest, ahead)
    return highest - lowest


queues = st.dictionaries(st.integers(1, 5), st.integers(1, 60), min_size=2)
weightings = st.fixed_dictionaries({tenant: st.integers(1, 5) for tenant in range(1, 6)})
permit_lists = st.lists(st.integers(1, PERMITS), min_size=1, max_size=12)


@settings(max_examples=60)
@given(queues, weightings, permit_lists)
def test_tenants_that_all_wait_get_picks_by_weight_over_any_stretch(
    lengths: dict[int, int], weights: dict[int, int], permits: list[int]
) -> None:
    order, _ = serve(backlog(lengths), permits, weights, FairShares())
    for one, other in ((one, other) for one in lengths for other in lengths if one < other):
        both_wait = order[: min(_end_of(order, one, lengths), _end_of(order, other, lengths))]
        assert apart(both_wait, one, other, weights) <= 1 / weights[one] + 1 / weights[other] + 1e-6


def _end_of(order: list[int], tenant: int, lengths: dict[int, int]) -> int:
    """How many picks there are while the tenant has work waiting."""
    mine = [place for place, one in enumerate(order) if one == tenant]
    return mine[-1] + 1 if len(mine) == lengths[tenant] else len(order)


@settings(max_examples=60)
@given(queues, weightings, permit_lists)
def test_a_tenants_wait_for_its_next_picks_is_bounded_by_its_share(
    lengths: dict[int, int], weights: dict[int, int], permits: list[int]
) -> None:
    order, _ = serve(backlog(lengths), permits, weights, FairShares())
    for tenant in lengths:
        places = [place for place, one in enumerate(order) if one == tenant]
        for number, place in enumerate(places, 1):
            bound = sum(weights[one] * number / weights[tenant] + 1 for one in lengths if one != tenant)
            assert place - (number - 1) <= bound + 1e-6


def test_a_thousand_tasks_of_one_tenant_do_not_delay_anothers_ten() -> None:
    order, _ = serve(backlog({1: 999, 2: 10}), [PERMITS] * 3, {}, FairShares())
    assert order[:20].count(2) == 10


def test_shares_are_remembered_from_round_to_round() -> None:
    shares, waiting, order = FairShares(), backlog({1: 20, 2: 20}), []
    for _ in range(10):
        more, waiting = serve(waiting, [1], {}, shares)
        order += more
    assert order == [1, 2] * 5


def test_who_comes_late_starts_even_and_catches_nothing_up() -> None:
    shares = FairShares()
    _, waiting = serve(backlog({1: 99, 3: 99}), [PERMITS] * 5, {}, shares)
    order, _ = serve([*waiting, *backlog({2: 99})], [PERMITS] * 3, {}, shares)
    assert all(abs(order[:18].count(tenant) - 6) <= 1 for tenant in (1, 2, 3))


def test_a_tenant_that_was_refused_is_not_charged() -> None:
    shares = FairShares()
    closed = dict.fromkeys((1, 2), 99)
    fleet = [client(UUID(int=tenant), tenant=tenant) for tenant in (1, 2)]
    # One platform of one slot each: the second task of either is refused.
    plan = plan_round(state(fleet, weights={}), backlog(closed), shares)
    assert plan.refusals[Refusal.PLATFORM_CONCURRENCY] == 2 * 99 - 6
    assert shares.scheduled.start(1) == shares.scheduled.start(2)


def test_boosted_and_normal_are_one_service_and_a_tenants_boosted_goes_first() -> None:
    mixed = [*backlog({1: 4}), *backlog({2: 4}, Lane.NORMAL_BOOSTED)]
    order, waiting = serve(mixed, [4], {}, FairShares())
    assert sorted(order) == [1, 1, 2, 2]
    boosted = task(9999, Lane.NORMAL_BOOSTED, tenant_id=1)
    plan = plan_round(reading([1, 2], 1, {}), [*(one for one in waiting if one.tenant_id == 1), boosted])
    assert list(picked(plan)) == [9999]


def test_high_is_never_charged() -> None:
    shares = FairShares()
    fleet = [client(UUID(int=tenant), tenant=tenant) for tenant in (1, 2)]
    plan_round(state(fleet), [high(1, UUID(int=1)), task(2, tenant_id=2), task(3, tenant_id=2)], shares)
    assert shares.scheduled.start(1) < shares.scheduled.start(2)


def test_retries_are_shared_among_tenants_and_come_after_normal() -> None:
    retries = backlog({1: 9, 2: 9}, Lane.RETRY)
    order, _ = serve([*retries, *backlog({3: 2})], [PERMITS], {}, FairShares())
    assert order == [3, 3, 1, 2, 1, 2, 1, 2]


def test_a_pick_that_was_not_dispatched_is_given_back() -> None:
    shares = FairShares()
    for lane, queue in ((Lane.NORMAL, shares.scheduled), (Lane.RETRY, shares.retry)):
        before = queue.charge(1, 4)
        queue.charge(1, 4)
        shares.refund(1, lane, 4)
        assert queue.start(1) == before
    shares.refund(1, Lane.HIGH)
    assert shares.scheduled.start(1) == before


def test_where_all_were_served_nobody_is_owed_anything() -> None:
    shares = FairShares()
    serve(backlog({1: 5, 2: 1}), [PERMITS], {}, shares)
    assert len(shares.scheduled) == 0
    assert shares.scheduled.start(1) == shares.scheduled.start(2) == shares.scheduled.start(3)


def test_memory_is_bounded_by_the_tenants_that_are_ahead() -> None:
    queue = FairQueue()
    for tenant in range(1, 2000):
        queue.charge(tenant, 1)
        # Somebody is always behind, so v moves on.
        queue.charge(0, 1)
        queue.forget()
    assert len(queue) < 200


def test_a_tenant_that_leaves_takes_its_work_along_and_the_others_go_on() -> None:
    turns = Turns(FairQueue(), {})
    for one in [task(1), task(2), task(3, tenant_id=2)]:
        turns.add(one)
    assert turns.next().task_id == 1
    assert [one.task_id for one in turns.leave()] == [2]
    assert turns.next().task_id == 3
    turns.served()
    assert not turns


def test_a_tenants_turn_goes_on_with_what_comes_after_a_task_that_cannot_go() -> None:
    turns = Turns(FairQueue(), {})
    for one in [task(1), task(2), task(3, tenant_id=2), task(4)]:
        turns.add(one)
    assert turns.next().task_id == 1
    turns.passed_over()
    assert turns.next().task_id == 2
    turns.passed_over()
    # Of equal tags the older task comes first.
    assert turns.next().task_id == 3
