"""A simulated day obeys the rules, keeps its books, and is the same for the same seed."""

from dataclasses import replace
from typing import Any

import pytest

from domain.dispatch_settings import Fuses
from domain.lanes import Lane
from simulation.day import Day
from simulation.load import PLATFORMS, intervals
from simulation.report import report, sound
from simulation.state import Outcome
from tests.simulation.days import BUSY, ROOMY, played, quiet


def figures(day: Day) -> dict[str, Any]:
    return report(day, 0.0, 0.0)


def without_cost(day: Day) -> dict[str, Any]:
    return {name: value for name, value in figures(day).items() if name != "cost"}


def test_the_same_seed_gives_the_same_day_and_another_one_another() -> None:
    first, again, other = played(), played(), played(replace(BUSY, seed=8))
    assert without_cost(first) == without_cost(again)
    assert figures(first)["digest"] != figures(other)["digest"]


@pytest.mark.parametrize("coordinators", [1, 3])
def test_nothing_is_lost_or_doubled_and_no_budget_is_passed(coordinators: int) -> None:
    day = played(coordinator_shards=coordinators)
    found = figures(day)
    assert sound(found), (found["tasks"], found["violations"])
    assert found["tasks"]["unfinished"] == 0
    assert found["tasks"]["asked"] == sum(found["tasks"][outcome.value] for outcome in Outcome)
    assert found["budgets"]["refusals"]["cluster_minute"] > 0
    assert found["budgets"]["cluster"]["highest_minute"] <= 30


def test_the_settings_bind_the_day() -> None:
    scarce, roomy = figures(played()), figures(played(**ROOMY))
    assert roomy["starvation_s"]["p99"] < scarce["starvation_s"]["p99"]
    assert roomy["budgets"]["refusals"]["cluster_minute"] == 0 < scarce["budgets"]["refusals"]["cluster_minute"]


def test_every_interrupt_comes_to_an_end() -> None:
    found = figures(played(replace(BUSY, hangs=0.15), **ROOMY))["preemption"]
    ends = ("settled", "finished_instead", "withdrawn", "forced", "lost_with_its_desktop")
    assert found["asked"] == sum(found[name] for name in ends)
    assert found["settled"] > 0
    assert found["forced"] > 0


def test_a_click_gets_ahead_of_the_backlog() -> None:
    found = figures(played(**ROOMY))
    assert found["click_ms"]["to_dispatched"]["p50"] < 1000 < found["first_dispatch_ms"]["normal"]["p50"]


def test_a_short_minute_is_used_up_at_once() -> None:
    day = quiet(clients=5, cluster_per_minute=5, tenant_per_minute=30)
    [tenant] = day.context.tenants
    day.materialise(tenant)
    day.context.clock.run(0.5)
    assert day.context.ledger.dispatched == 4


def test_a_small_plan_is_not_delayed_by_large_ones_and_equal_plans_wait_equally() -> None:
    day = Day(
        replace(BUSY, tenants=4, clicks=0.0, absences=0.0, batch_minutes=0.0, hangs=0.0, failures=0.0),
        quiet(cluster_per_minute=20, tenant_per_minute=30, fuses=Fuses(cluster_per_minute=30)).context.settings,
        quiet().context.machine,
    )
    for tenant, questions in zip(day.context.tenants, (40, 40, 40, 2), strict=True):
        tenant.questions = questions
    day.run()
    waits = {tenant.id: sums[0] / sums[1] for tenant, sums in _waits(day)}
    assert waits[4] < 60
    assert max(waits[1], waits[2], waits[3]) < 1.2 * min(waits[1], waits[2], waits[3])


def _waits(day: Day) -> list[tuple[Any, list[float]]]:
    return [(tenant, day.context.meters.tenant_waits[tenant.id]) for tenant in day.context.tenants]


def test_work_that_waits_at_midnight_expires() -> None:
    found = figures(played(replace(BUSY, start=23.5, clicks=0.0)))
    assert found["tasks"]["expired"] > 0
    assert found["starvation_s"]["max"] >= 1500


def test_old_work_is_promoted_and_not_before_its_time() -> None:
    day = quiet(clients=1, cluster_per_minute=5, tenant_per_minute=5)
    [tenant] = day.context.tenants
    day.materialise(tenant)
    day.plan_load()
    day.context.clock.run(299.0)
    assert tenant.waiting.by_lane[Lane.NORMAL_BOOSTED] == 0
    day.context.clock.run(331.0)
    assert 0 < tenant.waiting.by_lane[Lane.NORMAL_BOOSTED] <= 100


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda platform: platform.name)
def test_safe_point_intervals_have_the_p95_of_the_source(platform: Any) -> None:
    random = quiet().context.random("test")
    drawn = sorted(length for _ in range(4000) for length in intervals(platform, random))
    assert drawn[int(len(drawn) * 0.95)] == pytest.approx(platform.p95, rel=0.1)
