"""A desktop on the legacy path: it pulls what is on offer, beside the tasks that are pushed (dispatch §14.3, §16.1)."""

from typing import Any

import pytest

from desktop.board import Board
from desktop.config import Timings
from desktop.effects import Begin, Effect, Ending, EndKind, GiveBack, GiveWay, GoOn, Pull
from desktop.events import EventKind
from domain.lanes import Lane
from domain.phases import Phase, SafePoint
from domain.protocol import TaskAvailable
from tests.desktop.frames import available, interrupt
from tests.desktop.hub import Hub
from tests.desktop.stepdriver import StepDriver

TIMINGS = Timings(no_slot=1.0)


def on_offer(lane: Lane = Lane.NORMAL, number: int = 7, **changes: Any) -> TaskAvailable:
    """An offer as the hub pushes it."""
    none = {"attempt": 0, "attempt_id": "", "lease_token": "", "status": "pending"}
    return available(lane, task_id=f"l-{number}", owner="legacy", **{**none, **changes})


def leased(lane: Lane = Lane.NORMAL, number: int = 7) -> TaskAvailable:
    """The same task once it is pulled."""
    return available(lane, task_id=f"l-{number}", owner="legacy", status="leased")


def pulls(effects: list[Effect]) -> list[int]:
    return [effect.count for effect in effects if isinstance(effect, Pull)]


def begun(effects: list[Effect]) -> list[str]:
    return [effect.task.frame.task_id for effect in effects if isinstance(effect, Begin)]


def test_an_offer_is_pulled_for_the_free_slots_once() -> None:
    board = Board(2, TIMINGS)
    assert board.offer(on_offer(), 0.0) == []
    assert board.idle
    assert pulls(board.due(0.0)) == [2]
    assert pulls(board.due(0.1)) == [], "one pull at a time"


def test_a_full_desktop_pulls_when_a_slot_is_free_again() -> None:
    board, pushed = Board(1, TIMINGS), available()
    board.offer(pushed, 0.0)
    board.due(0.0)
    board.offer(on_offer(), 0.0)
    assert pulls(board.due(0.1)) == []
    board.ended(pushed.attempt_id, Ending(EndKind.FINISHED), 0.2)
    assert pulls(board.due(0.2)) == [1]


def test_what_a_pull_did_not_get_is_asked_for_again_after_a_while() -> None:
    board = Board(1, TIMINGS)
    board.offer(on_offer(), 0.0)
    board.due(0.0)
    board.pulled([], 1, 0.1)
    assert pulls(board.due(0.5)) == []
    assert board.next_wake(0.5) == pytest.approx(0.6)
    assert pulls(board.due(1.2)) == [1]


def test_an_offer_that_is_gone_is_not_asked_for_again() -> None:
    board = Board(1, TIMINGS)
    board.offer(on_offer(), 0.0)
    board.due(0.0)
    board.pulled([], 0, 0.1)
    assert pulls(board.due(60.0)) == []


def test_an_offer_that_comes_during_a_pull_is_pulled_next() -> None:
    board = Board(2, TIMINGS)
    board.offer(on_offer(number=1), 0.0)
    board.due(0.0)
    board.offer(on_offer(number=2), 0.1)
    board.pulled([leased(number=1)], 0, 0.2)
    assert pulls(board.due(0.2)) == [1]


def test_a_pull_that_failed_is_tried_again() -> None:
    board = Board(1, TIMINGS)
    board.offer(on_offer(), 0.0)
    board.due(0.0)
    board.pull_failed(0.1)
    assert pulls(board.due(0.5)) == []
    assert pulls(board.due(1.2)) == [1]


def test_offers_that_were_never_announced_are_pulled_too() -> None:
    board = Board(1, TIMINGS)
    board.offer(on_offer(number=1), 0.0)
    board.due(0.0)
    first = leased(number=1)
    board.pulled([first], 3, 0.0)
    board.due(0.0)
    board.ended(first.attempt_id, Ending(EndKind.FINISHED), 2.0)
    assert pulls(board.due(2.0)) == [1]


def test_a_more_urgent_offer_gets_the_slot_before_pushed_work() -> None:
    board, pushed, high = Board(1, TIMINGS), available(), leased(Lane.HIGH)
    board.offer(pushed, 0.0)
    board.offer(on_offer(Lane.HIGH), 0.0)
    assert (begun(effects := board.due(0.0)), pulls(effects)) == ([], [1])
    board.pulled([high], 0, 0.1)
    assert begun(board.due(0.1)) == [high.task_id]


def test_pushed_work_goes_on_while_an_offer_has_no_slot_at_the_server() -> None:
    board, pushed = Board(1, TIMINGS), available()
    board.offer(on_offer(Lane.HIGH), 0.0)
    board.due(0.0)
    board.pulled([], 1, 0.0)
    board.offer(pushed, 0.1)
    assert begun(board.due(0.1)) == [pushed.task_id]


def test_a_desktop_that_ends_pulls_nothing_and_gives_back_what_still_comes() -> None:
    board, task = Board(1, TIMINGS), leased()
    board.offer(on_offer(), 0.0)
    board.due(0.0)
    board.close(finish=False)
    assert board.pulled([task], 1, 0.1) == [GiveBack(task, 0, "client_stopping")]
    assert pulls(board.due(5.0)) == []


@pytest.mark.parametrize(
    ("entering", "point"),
    [(Phase.NAVIGATING, SafePoint.BEFORE_OPEN), (Phase.AUTHENTICATING, SafePoint.BEFORE_INPUT)],
)
def test_a_legacy_task_gives_way_until_it_has_navigated(entering: Phase, point: SafePoint) -> None:
    board, task = Board(1, TIMINGS), leased()
    board.offer(task, 0.0)
    board.due(0.0)
    if entering is Phase.AUTHENTICATING:
        board.pass_into(task.attempt_id, Phase.NAVIGATING, SafePoint.BEFORE_OPEN)
    board.order(interrupt(task.task_id, 3))
    assert board.pass_into(task.attempt_id, entering, point) == GiveWay(3, "collect_now_preempt")


def test_a_legacy_task_that_has_begun_runs_on() -> None:
    board, task = Board(1, TIMINGS), leased()
    board.offer(task, 0.0)
    board.due(0.0)
    board.pass_into(task.attempt_id, Phase.AUTHENTICATING, SafePoint.BEFORE_INPUT)
    board.order(interrupt(task.task_id, 3))
    for phase, point in ((Phase.INPUTTING, SafePoint.BEFORE_INPUT), (Phase.PARSING, SafePoint.BEFORE_PARSE)):
        assert board.pass_into(task.attempt_id, phase, point) == GoOn()


async def test_a_desktop_runs_pulled_and_pushed_tasks_side_by_side(
    hub: Hub, driver: StepDriver, open_desk: Any
) -> None:
    desk = await open_desk(max_concurrent=2)
    pushed, pulled = available(), leased()
    driver.hold(pushed.task_id, Phase.WAITING)
    driver.hold(pulled.task_id, Phase.WAITING)
    await hub.push(pushed)
    await hub.offer(pulled)
    await driver.inside(pushed.task_id, Phase.WAITING)
    await driver.inside(pulled.task_id, Phase.WAITING)
    driver.let(pushed.task_id)
    driver.let(pulled.task_id)
    await desk.record.seen(EventKind.FINISHED, count=2)
    assert {result["attempt_id"] for result in hub.results} == {pushed.attempt_id, pulled.attempt_id}
    [lease] = hub.called("lease")
    assert lease.body == {"count": 1}
    assert [event.task_id for event in desk.record.of(EventKind.PULLED)] == [pulled.task_id]


async def test_a_legacy_task_gives_way_over_the_wire_and_runs_on_later(
    hub: Hub, driver: StepDriver, open_desk: Any
) -> None:
    desk = await open_desk(max_concurrent=2)
    early, late = leased(number=1), leased(number=2)
    driver.hold(early.task_id, Phase.NAVIGATING)
    driver.hold(late.task_id, Phase.AUTHENTICATING)
    await hub.offer(early, late)
    await driver.inside(early.task_id, Phase.NAVIGATING)
    await driver.inside(late.task_id, Phase.AUTHENTICATING)
    for task in (early, late):
        await hub.order(interrupt(task.task_id, 7))
        await desk.record.seen(EventKind.ORDER_TAKEN, task.task_id)
        driver.let(task.task_id)
    await desk.record.seen(EventKind.GAVE_WAY, early.task_id)
    await desk.record.seen(EventKind.FINISHED, late.task_id)
    [ack] = hub.called("interrupt-ack")
    assert (ack.task_id, ack.body["phase"], ack.body["interrupt_generation"]) == (early.task_id, "NAVIGATING", 7)
    assert [result["attempt_id"] for result in hub.results] == [late.attempt_id]


async def test_a_pull_that_the_server_cannot_answer_is_repeated(hub: Hub, driver: StepDriver, open_desk: Any) -> None:
    desk = await open_desk()
    task = leased()
    hub.trouble("lease", (503, "database_unavailable"))
    await hub.offer(task)
    await desk.record.seen(EventKind.FINISHED, task.task_id)
    assert [call.status for call in hub.called("lease")] == [503, 200]


def test_an_offer_that_still_stands_after_a_pull_keeps_its_rank() -> None:
    board, first, pushed = Board(1, TIMINGS), leased(Lane.HIGH, number=1), available()
    board.offer(on_offer(Lane.HIGH, number=1), 0.0)
    board.offer(on_offer(Lane.HIGH, number=2), 0.0)
    board.due(0.0)
    board.pulled([first], 1, 0.0)
    board.due(0.0)
    board.offer(pushed, 1.0)
    board.ended(first.attempt_id, Ending(EndKind.FINISHED), 2.0)
    assert (begun(effects := board.due(2.0)), pulls(effects)) == ([], [1])
