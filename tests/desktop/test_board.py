"""The rules of the desktop's state, step by step (2-desktop §2.3, dispatch §14.4)."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from desktop.board import Board
from desktop.config import Timings
from desktop.effects import AckUnheld, Begin, Effect, Ending, EndKind, Extend, GiveBack, GiveWay, GoOn, Halt
from domain.lanes import MONITOR_LANES, Lane
from domain.phases import Phase, SafePoint
from domain.protocol import Control, HeldTask
from tests.desktop.frames import available, control, interrupt

TIMINGS = Timings(no_slot=1.0)


def board(slots: int = 1) -> Board:
    return Board(slots, TIMINGS)


def begun(effects: list[Effect]) -> list[str]:
    return [effect.task.frame.task_id for effect in effects if isinstance(effect, Begin)]


def test_a_refused_slot_waits_until_something_ends_here() -> None:
    state, one, other = board(2), available(), available()
    state.offer(one, 0.0)
    state.offer(other, 0.0)
    state.due(0.0)
    state.ended(other.attempt_id, Ending(EndKind.NO_SLOT), 0.0)
    assert begun(state.due(0.5)) == []
    state.ended(one.attempt_id, Ending(EndKind.FINISHED), 0.6)
    assert begun(state.due(0.6)) == [other.task_id]


def test_a_refused_slot_is_tried_again_after_its_delay() -> None:
    state, task = board(), available()
    state.offer(task, 0.0)
    state.due(0.0)
    state.ended(task.attempt_id, Ending(EndKind.NO_SLOT), 0.0)
    assert 0.0 < state.next_wake(0.2) <= 0.8
    assert begun(state.due(1.0)) == [task.task_id]


def test_a_task_refused_its_slot_while_interrupted_goes_back() -> None:
    state, task = board(), available()
    state.offer(task, 0.0)
    state.due(0.0)
    state.order(interrupt(task.task_id, 3))
    assert state.ended(task.attempt_id, Ending(EndKind.NO_SLOT), 0.0) == [GiveBack(task, 3, "collect_now_preempt")]
    assert state.idle


def test_a_task_halted_while_it_asked_for_a_slot_is_not_queued_again() -> None:
    state, task = board(), available()
    state.offer(task, 0.0)
    state.due(0.0)
    state.lease_over(task.attempt_id, "lease_lost")
    state.ended(task.attempt_id, Ending(EndKind.NO_SLOT), 0.0)
    assert state.idle


def test_publish_is_never_interrupted_and_has_a_slot_of_its_own() -> None:
    state, busy = board(1), available()
    publish = available(kind="publish", priority=12000, lane_weight=80)
    state.offer(busy, 0.0)
    state.due(0.0)
    state.offer(publish, 0.0)
    assert begun(state.due(0.0)) == [publish.task_id]
    state.order(interrupt(publish.task_id, 9))
    assert state.pass_into(publish.attempt_id, Phase.INPUTTING, SafePoint.BEFORE_INPUT) == GoOn()


def test_a_halted_execution_keeps_its_slot_until_it_has_ended() -> None:
    state, lost, next_one = board(1), available(), available()
    state.offer(lost, 0.0)
    state.due(0.0)
    state.offer(next_one, 0.0)
    report = HeldTask(task_id=lost.task_id, attempt_id=lost.attempt_id, valid=False)
    assert state.reported(report) == [Halt(lost.attempt_id)]
    assert begun(state.due(0.0)) == []
    state.ended(lost.attempt_id, Ending(EndKind.DROPPED, "halted"), 0.0)
    assert begun(state.due(0.0)) == [next_one.task_id]


def test_a_newer_lease_of_a_running_task_stops_the_older_execution() -> None:
    state, old = board(2), available()
    state.offer(old, 0.0)
    state.due(0.0)
    fresh = available(task_id=old.task_id, attempt=2)
    assert state.offer(fresh, 1.0) == [Halt(old.attempt_id)]
    assert begun(state.due(1.0)) == [old.task_id]


def test_an_older_lease_arriving_late_changes_nothing() -> None:
    state, task = board(), available(attempt=3)
    state.offer(task, 0.0)
    assert state.offer(available(task_id=task.task_id, attempt=2), 1.0) == []
    assert [held.attempt_id for held in state.held()[1]] == [task.attempt_id]


def test_an_order_for_a_task_whose_result_waits_is_left_to_the_result() -> None:
    waiting, other = available(), available()
    state = Board(1, TIMINGS, result_waits=lambda task_id: task_id == waiting.task_id)
    assert state.order(interrupt(waiting.task_id, 4)) == []
    assert state.order(interrupt(other.task_id, 4)) == [AckUnheld(other.task_id, 4, "collect_now_preempt")]
    assert state.order(control(other.task_id, Control.CANCELED, 5)) == []


def test_a_start_answer_older_than_the_order_seen_does_not_clear_it() -> None:
    state, task = board(), available()
    state.offer(task, 0.0)
    state.due(0.0)
    state.order(interrupt(task.task_id, 7))
    state.told(task.attempt_id, 6, False)
    assert isinstance(state.pass_into(task.attempt_id, Phase.NAVIGATING, SafePoint.BEFORE_OPEN), GiveWay)


def test_leases_in_their_last_third_are_extended_once_in_a_while() -> None:
    state, task = board(), available()
    state.offer(task, 0.0)
    assert state.expiring(79.0) == []
    assert state.expiring(81.0) == [Extend(task)]
    assert state.expiring(82.0) == []
    state.extended(frozenset({task.attempt_id}), 82.0)
    assert state.expiring(150.0) == []


def test_once_closing_nothing_begins_and_new_leases_go_back() -> None:
    state, task = board(), available()
    state.close(finish=True)
    assert state.offer(task, 0.0) == [GiveBack(task, 0, "client_stopping")]
    assert state.due(0.0) == []


@given(st.lists(st.tuples(st.sampled_from([*Control][:2]), st.integers(0, 9))))
@settings(max_examples=200)
def test_generations_never_go_back_and_every_older_order_is_counted(found: list[tuple[Control, int]]) -> None:
    state, task = board(), available()
    state.offer(task, 0.0)
    state.due(0.0)
    highest, stale = 0, 0
    for order, generation in found:
        state.order(control(task.task_id, order, generation))
        stale += generation < highest
        highest = max(highest, generation)
    assert (state.highest_generation, state.stale_orders) == (highest, stale)


class BoardMachine(RuleBasedStateMachine):
    """Any order of frames, verdicts and endings keeps the slots and loses no lease silently."""

    def __init__(self) -> None:
        super().__init__()
        self.state, self.now, self.slots = board(2), 0.0, 2
        self.running: dict[str, str] = {}
        self.open: set[str] = set()

    def perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Begin):
                assert effect.task.attempt_id not in self.running
                self.running[effect.task.attempt_id] = effect.task.frame.task_id
            if isinstance(effect, GiveBack):
                self.open.discard(effect.frame.attempt_id)

    @rule(lane=st.sampled_from(MONITOR_LANES))
    def push(self, lane: Lane) -> None:
        frame = available(lane)
        self.open.add(frame.attempt_id)
        self.perform(self.state.offer(frame, self.now))

    @rule()
    def turn(self) -> None:
        self.perform(self.state.due(self.now))

    @rule(seconds=st.floats(0.1, 3))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.running)
    @rule(data=st.data(), generation=st.integers(1, 9))
    def interrupt_running(self, data: st.DataObject, generation: int) -> None:
        attempt = data.draw(st.sampled_from(sorted(self.running)))
        self.perform(self.state.order(interrupt(self.running[attempt], generation)))

    @precondition(lambda self: self.running)
    @rule(data=st.data(), kind=st.sampled_from([EndKind.FINISHED, EndKind.GAVE_WAY, EndKind.NO_SLOT]))
    def end(self, data: st.DataObject, kind: EndKind) -> None:
        attempt = data.draw(st.sampled_from(sorted(self.running)))
        del self.running[attempt]
        if kind is not EndKind.NO_SLOT:
            self.open.discard(attempt)
        self.perform(self.state.ended(attempt, Ending(kind), self.now))

    @invariant()
    def slots_are_never_exceeded(self) -> None:
        assert len(self.running) <= self.slots

    @invariant()
    def every_open_lease_is_listed(self) -> None:
        running, queued = self.state.held()
        assert {held.attempt_id for held in [*running, *queued]} == self.open
        assert {held.attempt_id for held in running} == set(self.running)


BoardMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestBoardMachine = BoardMachine.TestCase
