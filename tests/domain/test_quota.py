"""Quota blocks: whatever several coordinators take and use, the ceilings of the one minute hold (1-dispatch §1.4)."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from domain.budgets import with_floors
from domain.quota import Quota, ask, grant
from tests.support.planning import SMALL, limits

# The fuse is 30, scheduled work stops at 16, its floor is 4.
LIMITS = with_floors(limits(SMALL), 0.2)
NOTHING = Quota()
quotas = st.builds(Quota, st.integers(0, 40), st.integers(0, 40))


def within(quota: Quota) -> bool:
    """Whether dispatches of these numbers in one window keep every ceiling."""
    return quota.total <= LIMITS.cluster_fuse and quota.scheduled <= 16


def plus(one: Quota, other: Quota) -> Quota:
    return Quota(one.scheduled + other.scheduled, one.high + other.high)


@given(quotas, quotas, quotas, st.booleans())
def test_a_grant_is_at_most_what_was_wanted_and_keeps_the_ceilings(
    used: Quota, others: Quota, wanted: Quota, normal_waits: bool
) -> None:
    given_quota = grant(used, others, LIMITS, wanted, normal_waits=normal_waits)
    assert 0 <= given_quota.scheduled <= wanted.scheduled
    assert 0 <= given_quota.high <= wanted.high
    if within(plus(used, others)):
        assert within(plus(plus(used, others), given_quota))


def test_high_leaves_the_floor_and_takes_it_when_nobody_has_normal_work() -> None:
    wanted = Quota(high=99)
    assert grant(NOTHING, NOTHING, LIMITS, wanted) == Quota(high=26)
    assert grant(Quota(scheduled=3), NOTHING, LIMITS, wanted) == Quota(high=26)
    assert grant(NOTHING, NOTHING, LIMITS, wanted, normal_waits=False) == Quota(high=30)


def test_scheduled_work_stops_at_its_share_but_not_below_its_floor() -> None:
    wanted = Quota(scheduled=99)
    assert grant(NOTHING, NOTHING, LIMITS, wanted) == Quota(scheduled=16)
    assert grant(Quota(high=20), NOTHING, LIMITS, wanted) == Quota(scheduled=4)
    assert grant(Quota(high=28), Quota(scheduled=1), LIMITS, wanted) == Quota(scheduled=1)
    assert grant(Quota(scheduled=16), NOTHING, LIMITS, wanted) == NOTHING


def test_nothing_is_left_unasked_for_when_the_window_has_room() -> None:
    assert grant(NOTHING, NOTHING, LIMITS, Quota(1, 1)) == Quota(1, 1)
    assert ask(NOTHING, LIMITS, 4) == NOTHING


@given(quotas, st.integers(1, 16))
def test_one_asks_for_what_it_lacks_and_no_more_than_a_block(lacking: Quota, shards: int) -> None:
    asked = ask(lacking, LIMITS, shards)
    assert (asked.high > 0, asked.scheduled > 0) == (lacking.high > 0, lacking.scheduled > 0)
    assert asked.high <= min(lacking.high, -(-30 // (6 * shards)))
    assert asked.scheduled <= min(lacking.scheduled, -(-16 // (6 * shards)))


@dataclass
class Coordinators:
    """Three of them over one window of ten ticks; a permit lives for three."""

    now: int = 0
    window: list[tuple[int, str]] = field(default_factory=list)
    held: list[list[tuple[int, str]]] = field(default_factory=lambda: [[], [], []])

    def count(self, kinds: list[tuple[int, str]]) -> Quota:
        return Quota(sum(kind == "scheduled" for _, kind in kinds), sum(kind == "high" for _, kind in kinds))

    def used(self) -> Quota:
        return self.count([one for one in self.window if one[0] > self.now - 10])

    def take(self, shard: int, wanted: Quota) -> None:
        others = self.count(
            [one for number, held in enumerate(self.held) if number != shard for one in self.live(held)]
        )
        mine = self.count(self.live(self.held[shard]))
        granted = grant(self.used(), plus(others, mine), LIMITS, wanted)
        self.held[shard] += [(self.now, "scheduled")] * granted.scheduled + [(self.now, "high")] * granted.high

    def live(self, held: list[tuple[int, str]]) -> list[tuple[int, str]]:
        return [one for one in held if one[0] > self.now - 3]

    def use(self, shard: int, number: int) -> None:
        live = self.live(self.held[shard])
        self.held[shard] = live[number:]
        self.window += [(self.now, kind) for _, kind in live[:number]]


steps = st.tuples(st.sampled_from(["take", "use", "tick"]), st.integers(0, 2), quotas)


@settings(max_examples=80)
@given(st.lists(steps, max_size=60))
def test_coordinators_side_by_side_never_exceed_the_ceilings(moves: list[tuple[str, int, Quota]]) -> None:
    all_of_them = Coordinators()
    for move, shard, quota in moves:
        match move:
            case "take":
                all_of_them.take(shard, quota)
            case "use":
                all_of_them.use(shard, quota.high)
            case _:
                all_of_them.now += 1
        assert within(all_of_them.used())
