"""Whenever an order arrives, an execution stops at a safe point or not at all (2-desktop §2.3)."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desktop.board import Board
from desktop.config import Timings
from desktop.driver import Answer, RunContext
from desktop.effects import Ending, EndKind
from desktop.events import Reporter
from desktop.execution import DRIVEN, Execution, Tools
from desktop.posting import Posted
from desktop.rest import Reason, Refused
from desktop.results import KeptResult
from desktop.scheduler import Scheduler
from domain.desktop_calls import CancelAnswer, CancelCall, InterruptAckCall, LeaseAnswer, LeaseCall
from domain.phases import PAUSE_POINT_IN, SAFE_POINT_BEFORE, Phase, SafePoint
from domain.protocol import Control, TaskAvailable
from tests.desktop.frames import available, control

NO_STOP_INSIDE = (Phase.AUTHENTICATING, Phase.SUBMITTING, Phase.WAITING, Phase.PARSING)
EARLIER = {point: tuple(list(Phase)[: list(Phase).index(phase)]) for phase, point in SAFE_POINT_BEFORE.items()}

Order = tuple[Phase, Control, int]
orders = st.lists(
    st.tuples(st.sampled_from(DRIVEN), st.sampled_from(list(Control)), st.integers(0, 4)), min_size=0, max_size=5
)


@dataclass
class Server:
    """Takes acknowledgements as the real one: below `generation` they are stale."""

    generation: int = 0
    acks: list[InterruptAckCall] = field(default_factory=list)
    results: list[KeptResult] = field(default_factory=list)

    async def start(self, task_id: str, call: LeaseCall) -> LeaseAnswer | Refused:
        return LeaseAnswer(task_id=task_id, status="in_progress", lease_expires_at=datetime.now(UTC))

    async def interrupt_ack(self, task_id: str, call: InterruptAckCall) -> CancelAnswer | Refused:
        if call.interrupt_generation < self.generation:
            return Refused(Reason.STALE_GENERATION)
        self.acks.append(call)
        return CancelAnswer(task_id=task_id, result="preempted")

    async def cancel(self, task_id: str, call: CancelCall) -> CancelAnswer | Refused:
        return CancelAnswer(task_id=task_id, result="requeued")

    async def submit(self, result: KeptResult) -> Posted:
        self.results.append(result)
        return Posted.ACCEPTED


@dataclass
class OrderingDriver:
    """Lets the given orders arrive inside the given phases."""

    scheduler: Scheduler
    orders: list[Order]
    ended: list[Phase] = field(default_factory=list)
    released: int = 0

    async def run_phase(self, phase: Phase, task: TaskAvailable, context: RunContext) -> None:
        for _, order, generation in (one for one in self.orders if one[0] is phase):
            self.scheduler.ordered(control(task.task_id, order, generation))
            await asyncio.sleep(0)
        if phase is Phase.WAITING:
            context.answer = Answer("{}")
        self.ended.append(phase)

    async def release(self, task: TaskAvailable, context: RunContext) -> None:
        self.released += 1

    def sessions(self) -> Mapping[str, str]:
        return {}


@dataclass
class SteppedDriver(OrderingDriver):
    """Every phase takes three steps; the orders of a phase arrive in its first one."""

    left: int = 2
    steps: list[Phase] = field(default_factory=list)

    async def run_phase(self, phase: Phase, task: TaskAvailable, context: RunContext) -> bool:
        self.steps.append(phase)
        if self.left == 2:
            await super().run_phase(phase, task, context)
        self.left = 2 if self.left == 0 else self.left - 1
        return self.left < 2


@dataclass
class WatchedDriver(OrderingDriver):
    """A person is needed from NAVIGATING on, until AUTHENTICATING has ended."""

    async def run_phase(self, phase: Phase, task: TaskAvailable, context: RunContext) -> None:
        await super().run_phase(phase, task, context)
        context.unsafe = phase is Phase.NAVIGATING


def flag_after(found: list[Order], before: Phase) -> tuple[int, Control | None]:
    """The rule in one place: the newest order wins, equal generations are taken in their order of arrival."""
    seen, flag = 0, None
    canceled = False
    for phase in DRIVEN[: DRIVEN.index(before)]:
        for _, order, generation in (one for one in found if one[0] is phase):
            if generation >= seen:
                seen = generation
                canceled = canceled or order is Control.CANCELED
                flag = order if order is not Control.CANCELED else flag
    return seen, Control.CANCELED if canceled else flag


def expected_stop(found: list[Order]) -> tuple[SafePoint, Control] | None:
    for phase, point in SAFE_POINT_BEFORE.items():
        _, flag = flag_after(found, phase)
        if flag in (Control.INTERRUPT_REQUESTED, Control.CANCELED):
            return point, flag
    return None


async def run_with(
    found: list[Order],
    generation: int = 0,
    made: type[OrderingDriver] = OrderingDriver,
    owner: str = "desktop_tasks",
) -> tuple[Ending, Server, Any]:
    server = Server(generation)
    endings: asyncio.Queue[Ending] = asyncio.Queue()
    rest: Any = server
    reporter = Reporter("desk")
    scheduler = Scheduler(Board(1, Timings()), rest, reporter)
    driver = made(scheduler, found)
    tools = Tools(scheduler, server, driver, server, reporter, stale_grace=0.0)

    async def execute(task: TaskAvailable) -> Ending:
        ending = await Execution(task, tools).run()
        endings.put_nowait(ending)
        return ending

    loop = asyncio.create_task(scheduler.run(execute))
    try:
        scheduler.offered([available(owner=owner)], 0.0)
        return await asyncio.wait_for(endings.get(), 30), server, driver
    finally:
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)


@given(orders)
@settings(max_examples=300, deadline=None)
def test_an_execution_stops_at_the_first_safe_point_with_a_standing_order_and_never_elsewhere(
    found: list[Order],
) -> None:
    ending, server, driver = asyncio.run(run_with(found))
    expected = expected_stop(found)
    assert driver.released == 1
    if expected is None:
        assert (ending.kind, len(server.results), server.acks) == (EndKind.FINISHED, 1, [])
        return
    point, flag = expected
    assert tuple(driver.ended) == EARLIER[point]
    assert server.results == []
    if flag is Control.CANCELED:
        assert (ending, server.acks) == (Ending(EndKind.DROPPED, "canceled"), [])
    else:
        assert [ack.safe_point for ack in server.acks] == [point]
        assert server.acks[0].interrupt_generation == flag_after(found, phase_after(point))[0]


@given(orders, st.sampled_from(NO_STOP_INSIDE), st.integers(5, 9))
@settings(max_examples=100, deadline=None)
def test_a_phase_without_a_safe_point_before_the_next_is_never_the_last(
    found: list[Order], inside: Phase, generation: int
) -> None:
    only_late = [one for one in found if one[0] is inside] + [(inside, Control.INTERRUPT_REQUESTED, generation)]
    _, _, driver = asyncio.run(run_with(only_late))
    assert inside in driver.ended
    assert driver.ended[-1] is not Phase.SUBMITTING


@given(orders)
@settings(max_examples=100, deadline=None)
def test_an_acknowledgement_the_server_calls_stale_never_stops_the_work(found: list[Order]) -> None:
    interrupts = [(phase, Control.INTERRUPT_REQUESTED, generation) for phase, _, generation in found]
    ending, server, _ = asyncio.run(run_with(interrupts, generation=100))
    assert (ending.kind, len(server.results)) == (EndKind.FINISHED, 1)


@pytest.mark.parametrize("inside", DRIVEN)
def test_an_order_stops_a_stepped_phase_after_its_step_where_the_phase_may_stop_and_else_at_its_end(
    inside: Phase,
) -> None:
    order = (inside, Control.INTERRUPT_REQUESTED, 1)
    ending, server, driver = asyncio.run(run_with([order], made=SteppedDriver))
    steps = driver.steps.count(inside)
    if inside in PAUSE_POINT_IN:
        assert (ending.kind, steps) == (EndKind.GAVE_WAY, 1)
        assert [ack.safe_point for ack in server.acks] == [PAUSE_POINT_IN[inside]]
    else:
        assert steps == 3
        stopped = expected_stop([order])
        assert [ack.safe_point for ack in server.acks] == ([stopped[0]] if stopped else [])


@pytest.mark.parametrize(
    ("owner", "points"), [("legacy", []), ("desktop_tasks", [SafePoint.BEFORE_INPUT])], ids=["legacy", "new"]
)
def test_while_a_person_is_needed_no_point_is_a_safe_one(owner: str, points: list[SafePoint]) -> None:
    order = (Phase.NAVIGATING, Control.INTERRUPT_REQUESTED, 1)
    _, server, driver = asyncio.run(run_with([order], made=WatchedDriver, owner=owner))
    assert Phase.AUTHENTICATING in driver.ended
    assert [ack.safe_point for ack in server.acks] == points


def phase_after(point: SafePoint) -> Phase:
    return next(phase for phase, before in SAFE_POINT_BEFORE.items() if before is point)
