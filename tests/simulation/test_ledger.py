"""The ledger notices what the rules could get wrong."""

from collections.abc import Callable
from typing import Any

from domain.dispatch_settings import DispatchSettings, Fuses
from domain.lanes import Lane
from simulation.day import Day
from simulation.ledger import Ledger
from simulation.load import PLATFORMS
from simulation.report import report, sound
from simulation.state import Attempt, Outcome, State, Task
from tests.simulation.days import quiet


def task(day: Day, question: int = 0, platform: int = 0) -> Task:
    return day.task(day.context.tenants[0], question, PLATFORMS[platform])


def attempt(day: Day, number: int, *, lane: Lane = Lane.NORMAL, question: int = 0, platform: int = 0) -> Attempt:
    [client, *_] = day.context.tenants[0].clients
    made = Attempt(number, task(day, question, platform), client, lane, lane is not Lane.HIGH, None)
    client.held.append(made)
    return made


def test_a_second_end_and_a_second_lease_are_doubled() -> None:
    day = quiet()
    ledger = Ledger(day.context.settings)
    one = attempt(day, 1)
    ledger.ask(one.task)
    ledger.dispatch(one, 0.0)
    ledger.end(one.task, Outcome.COMPLETED)
    ledger.end(one.task, Outcome.COMPLETED)
    assert (ledger.duplicated, ledger.outcomes[Outcome.COMPLETED]) == (1, 1)
    ledger.dispatch(one, 1.0)
    assert ledger.duplicated == 2


def test_a_task_that_never_ends_is_unfinished_and_one_that_vanishes_is_lost() -> None:
    day = quiet()
    ledger = Ledger(day.context.settings)
    ledger.ask(task(day))
    assert (ledger.unfinished, ledger.lost) == (1, 0)
    ledger._open.clear()
    assert ledger.lost == 1


def violated(settings: DispatchSettings, do: Callable[[Day, Ledger], Any]) -> dict[str, int]:
    day = quiet()
    ledger = Ledger(settings)
    do(day, ledger)
    return {rule: number for rule, number in ledger.violations.items() if number}


def test_each_budget_is_checked_by_itself() -> None:
    def dispatch(number: int, lane: Lane = Lane.NORMAL) -> Callable[[Day, Ledger], None]:
        def do(day: Day, ledger: Ledger) -> None:
            for index in range(number):
                ledger.dispatch(attempt(day, index, lane=lane, question=index), 0.0)

        return do

    def start_three(day: Day, ledger: Ledger) -> None:
        for index in range(3):
            made = attempt(day, index, question=index, platform=index)
            made.state = State.RUNNING
            ledger.start(made)

    roomy = {"platform_concurrency": 99, "normal_floor": 0.0}
    wide = Fuses(platform_concurrency=99)
    assert violated(DispatchSettings(cluster_per_minute=10, **roomy, fuses=wide), dispatch(9)) == {"cluster_share": 1}
    narrow = Fuses(platform_concurrency=99, cluster_per_minute=8)
    assert violated(DispatchSettings(**roomy, fuses=narrow), dispatch(9, Lane.HIGH)) == {"cluster_fuse": 1}
    assert violated(DispatchSettings(tenant_per_minute=8, **roomy, fuses=wide), dispatch(9)) == {"tenant_minute": 1}
    assert violated(DispatchSettings(client_queue_depth=8, **roomy, fuses=wide), dispatch(9)) == {
        "client_queue_depth": 1
    }
    assert violated(DispatchSettings(), dispatch(2)) == {"platform_leases": 1}
    assert violated(DispatchSettings(), start_three) == {"client_concurrency": 1}


def test_books_that_do_not_balance_are_not_sound() -> None:
    day = quiet()
    day.run()
    assert sound(report(day, 0.0, 0.0))
    day.context.ledger.violations["cluster_fuse"] += 1
    assert not sound(report(day, 0.0, 0.0))
