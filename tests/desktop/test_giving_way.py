"""A desktop gives way at safe points and nowhere else; against a real hub and a real API (2-desktop §2.2, §2.3)."""

from typing import Any

from desktop.events import EventKind
from domain.lanes import Lane
from domain.phases import Phase, SafePoint
from domain.protocol import Control
from tests.desktop.frames import available, control, interrupt
from tests.desktop.hub import Hub
from tests.desktop.stepdriver import StepDriver


async def test_scheduled_work_gives_way_at_its_next_safe_point_and_the_high_task_starts(
    hub: Hub, driver: StepDriver, open_desk: Any
) -> None:
    desk = await open_desk(max_concurrent=1)
    normal, high = available(), available(Lane.HIGH)
    driver.hold(normal.task_id, Phase.AUTHENTICATING)
    await hub.push(normal)
    await driver.inside(normal.task_id, Phase.AUTHENTICATING)
    await hub.order(interrupt(normal.task_id, 7))
    await desk.record.seen(EventKind.ORDER_TAKEN, normal.task_id)
    await hub.push(high)
    await desk.record.seen(EventKind.FRAME_RECEIVED, high.task_id)
    assert hub.called("interrupt-ack") == []

    driver.let(normal.task_id)
    gave_way = await desk.record.seen(EventKind.GAVE_WAY, normal.task_id)
    await desk.record.seen(EventKind.FINISHED, high.task_id)

    [ack] = hub.called("interrupt-ack")
    assert (ack.body["lease_token"], ack.body["interrupt_generation"]) == (normal.lease_token, 7)
    assert (ack.body["phase"], ack.body["safe_point"]) == ("AUTHENTICATING", "before_input")
    assert ack.body["safe_point_interval_ms"] > 0
    assert set(ack.body["phase_times"]) == {"PREPARING", "NAVIGATING", "AUTHENTICATING"}
    assert (gave_way.safe_point, gave_way.generation) == (SafePoint.BEFORE_INPUT, 7)
    assert driver.released.count(normal.task_id) == 1
    assert [result["attempt_id"] for result in hub.results] == [high.attempt_id]
    assert hub.calls.index(ack) < hub.calls.index(hub.called("start", high.task_id)[0])


async def test_an_answer_already_there_is_given_up_at_before_parse(
    hub: Hub, driver: StepDriver, open_desk: Any
) -> None:
    desk = await open_desk()
    task = available()
    driver.hold(task.task_id, Phase.WAITING)
    await hub.push(task)
    await driver.inside(task.task_id, Phase.WAITING)
    await hub.order(interrupt(task.task_id, 3))
    await desk.record.seen(EventKind.ORDER_TAKEN, task.task_id)
    assert driver.phases(task.task_id, "cancelled") == []
    driver.let(task.task_id)
    gave_way = await desk.record.seen(EventKind.GAVE_WAY, task.task_id)
    assert gave_way.safe_point is SafePoint.BEFORE_PARSE
    assert Phase.WAITING in driver.phases(task.task_id, "ended")
    assert hub.results == []


async def test_an_older_generation_is_ignored_and_counted(hub: Hub, driver: StepDriver, open_desk: Any) -> None:
    desk = await open_desk()
    task = available(interrupt_generation=8)
    driver.hold(task.task_id, Phase.NAVIGATING)
    await hub.push(task)
    await driver.inside(task.task_id, Phase.NAVIGATING)
    await hub.send(interrupt(task.task_id, 7))
    await desk.record.seen(EventKind.ORDER_STALE, task.task_id)
    driver.let(task.task_id)
    await desk.record.seen(EventKind.FINISHED, task.task_id)
    assert hub.called("interrupt-ack") == []


async def test_a_withdrawn_interrupt_lets_the_task_finish(hub: Hub, driver: StepDriver, open_desk: Any) -> None:
    desk = await open_desk()
    task = available()
    driver.hold(task.task_id, Phase.INPUTTING)
    await hub.push(task)
    await driver.inside(task.task_id, Phase.INPUTTING)
    await hub.order(interrupt(task.task_id, 7))
    await hub.order(control(task.task_id, Control.INTERRUPT_WITHDRAWN, 8))
    await hub.send(interrupt(task.task_id, 7))
    await desk.record.seen(EventKind.ORDER_STALE, task.task_id)
    driver.let(task.task_id)
    await desk.record.seen(EventKind.FINISHED, task.task_id)
    assert hub.called("interrupt-ack") == []
    assert len(hub.results) == 1


async def test_a_stale_acknowledgement_is_repeated_at_the_current_generation(
    hub: Hub, driver: StepDriver, open_desk: Any
) -> None:
    desk = await open_desk()
    task = available()
    driver.hold(task.task_id, Phase.PREPARING)
    await hub.push(task)
    await driver.inside(task.task_id, Phase.PREPARING)
    await hub.order(interrupt(task.task_id, 7))
    await desk.record.seen(EventKind.ORDER_TAKEN, task.task_id)
    hub.leases[task.task_id].generation = 9  # a second click whose frame is still on its way
    driver.let(task.task_id)
    gave_way = await desk.record.seen(EventKind.GAVE_WAY, task.task_id)
    assert gave_way.generation == 9
    assert [(call.body["interrupt_generation"], call.status) for call in hub.called("interrupt-ack")] == [
        (7, 409),
        (9, 200),
    ]


async def test_work_goes_on_when_the_acknowledgement_has_no_answer_and_stops_at_the_next_safe_point(
    hub: Hub, driver: StepDriver, open_desk: Any
) -> None:
    desk = await open_desk()
    task = available()
    driver.hold(task.task_id, Phase.PREPARING)
    await hub.push(task)
    await driver.inside(task.task_id, Phase.PREPARING)
    hub.trouble("interrupt-ack", *[(503, "database_unavailable")] * 4)
    await hub.order(interrupt(task.task_id, 7))
    await desk.record.seen(EventKind.ORDER_TAKEN, task.task_id)
    driver.let(task.task_id)
    gave_way = await desk.record.seen(EventKind.GAVE_WAY, task.task_id)
    assert gave_way.safe_point is SafePoint.BEFORE_INPUT


async def test_an_interrupt_told_by_the_start_answer_is_obeyed(hub: Hub, driver: StepDriver, open_desk: Any) -> None:
    desk = await open_desk()
    task = available()
    driver.hold(task.task_id, Phase.PREPARING)
    await hub.push(task)
    hub.leases[task.task_id].interrupted, hub.leases[task.task_id].generation = True, 4
    await driver.inside(task.task_id, Phase.PREPARING)
    driver.let(task.task_id)
    gave_way = await desk.record.seen(EventKind.GAVE_WAY, task.task_id)
    assert (gave_way.safe_point, gave_way.generation) == (SafePoint.BEFORE_OPEN, 4)


async def test_an_order_for_work_not_run_here_is_acknowledged_without_a_token(hub: Hub, open_desk: Any) -> None:
    desk = await open_desk()
    gone = available()
    await hub.send(interrupt(gone.task_id, 12))
    acked = await desk.record.seen(EventKind.ACKED_UNHELD, gone.task_id)
    [call] = hub.called("interrupt-ack", gone.task_id)
    assert (call.body["lease_token"], call.body["interrupt_generation"], acked.generation) == (None, 12, 12)


async def test_a_waiting_task_is_cancelled_by_an_interrupt_and_dropped_by_a_cancel(
    hub: Hub, driver: StepDriver, open_desk: Any
) -> None:
    desk = await open_desk(max_concurrent=1)
    running, interrupted, canceled = available(), available(), available()
    driver.hold(running.task_id, Phase.WAITING)
    await hub.push(running)
    await driver.inside(running.task_id, Phase.WAITING)
    await hub.push(interrupted, canceled)
    await hub.order(interrupt(interrupted.task_id, 2))
    await hub.order(control(canceled.task_id, Control.CANCELED, 2))
    await desk.record.seen(EventKind.RETURNED, interrupted.task_id)
    await desk.record.seen(EventKind.DROPPED, canceled.task_id)
    driver.let(running.task_id)
    await desk.record.seen(EventKind.FINISHED, running.task_id)
    [call] = hub.called("cancel")
    assert (call.task_id, call.body["interrupt_generation"]) == (interrupted.task_id, 2)
    assert {call.task_id for call in hub.called("start")} == {running.task_id}


async def test_a_canceled_running_task_stops_at_its_safe_point_and_tells_nobody(
    hub: Hub, driver: StepDriver, open_desk: Any
) -> None:
    desk = await open_desk()
    task = available()
    driver.hold(task.task_id, Phase.SUBMITTING)
    await hub.push(task)
    await driver.inside(task.task_id, Phase.SUBMITTING)
    await hub.order(control(task.task_id, Control.CANCELED, 5))
    await desk.record.seen(EventKind.ORDER_TAKEN, task.task_id)
    driver.let(task.task_id)
    dropped = await desk.record.seen(EventKind.DROPPED, task.task_id)
    assert dropped.detail == "canceled"
    assert driver.phases(task.task_id)[-1] == Phase.WAITING
    assert {call.action for call in hub.calls} == {"start"}


async def test_a_refused_slot_keeps_the_task_and_tries_again(hub: Hub, driver: StepDriver, open_desk: Any) -> None:
    desk = await open_desk()
    hub.trouble("start", (409, "no_slot"), (409, "no_slot"))
    task = available(Lane.HIGH)
    await hub.push(task)
    await desk.record.seen(EventKind.FINISHED, task.task_id)
    assert [call.status for call in hub.called("start")] == [409, 409, 200]
    assert len(desk.record.of(EventKind.NO_SLOT, task.task_id)) == 2


async def test_the_most_urgent_waiting_task_takes_the_slot_that_frees(
    hub: Hub, driver: StepDriver, open_desk: Any
) -> None:
    desk = await open_desk(max_concurrent=1)
    first, retry, normal, high = available(), available(Lane.RETRY), available(), available(Lane.HIGH)
    driver.hold(first.task_id, Phase.WAITING)
    await hub.push(first)
    await driver.inside(first.task_id, Phase.WAITING)
    await hub.push(retry, normal, high)
    await desk.record.seen(EventKind.FRAME_RECEIVED, high.task_id)
    driver.let(first.task_id)
    await desk.record.seen(EventKind.FINISHED, retry.task_id)
    started = [event.task_id for event in desk.record.of(EventKind.STARTED)]
    assert started == [first.task_id, high.task_id, normal.task_id, retry.task_id]
