"""Checks of a hub that need work: leases from push to result, over reconnects, and giving way."""

import asyncio
from datetime import UTC, datetime
from typing import Any, Final

from desktop.conformance.hub_desk import SLOTS, HubDesk
from desktop.conformance.hub_work import Workshop
from desktop.conformance.target import expect_problem, told
from desktop.conformance.verdict import CannotCheck, Check, expect
from domain.lanes import Kind, Lane, allows, rule_of
from domain.legacy import ExecutionOwner
from domain.protocol import LEASE_SECONDS, Control, TaskAvailable, TaskControl

SHORTEST_TOKEN: Final = 20
# How often a request is looked at.
LOOK: Final = 0.3
WRONG_TOKEN: Final = "w" * 43


async def push_is_complete(workshop: Workshop) -> None:
    """Everything a desktop needs stands in the frame."""
    desk, frame = await workshop.task()
    expect(frame.target_client_id == desk.client.client_id, "the client's own id", frame.target_client_id)
    expect(frame.status == "queued", "status queued", frame.status)
    expect(frame.owner == ExecutionOwner.DESKTOP_TASKS, "owner desktop_tasks", frame.owner)
    expect(len(frame.lease_token) >= SHORTEST_TOKEN, f"a token of {SHORTEST_TOKEN} characters or more", "a shorter one")
    expect(frame.attempt >= 1, "attempt 1 or more", frame.attempt)
    expect(frame.question and frame.platform in workshop.platforms, "the question and its platform", frame.platform)
    _expect_lane(frame)


def _expect_lane(frame: TaskAvailable) -> None:
    lane = Lane(frame.lane)
    expect(lane is Lane.HIGH, "lane high for a collect-now", lane)
    expect(allows(Kind.MONITOR, lane, frame.priority), "a priority of its lane", frame.priority)
    weight = rule_of(Kind.MONITOR, lane).weight
    expect(frame.lane_weight == weight, f"lane weight {weight}", frame.lane_weight)
    expect(frame.collect_request_id, "the request's id", frame.collect_request_id)


async def wrong_token_is_lost(workshop: Workshop) -> None:
    """409 lease_lost for each call, and the task is as it was."""
    desk, frame = await workshop.task()
    calls: dict[str, dict[str, Any]] = {
        "start": {},
        "extend": {},
        "cancel": {"reason": "conformance"},
        "interrupt-ack": {"interrupt_generation": frame.interrupt_generation},
        "result": {"attempt_id": frame.attempt_id, "outcome": "failed", "error": "conformance"},
    }
    for action, fields in calls.items():
        response = await desk.call(frame, action, lease_token=WRONG_TOKEN, **fields)
        expect_problem(response, 409, "lease_lost")
    extended = await desk.call(frame, "extend")
    expect(extended.status_code == 200, "200 to extend with the right token", told(extended))


async def from_start_to_result(workshop: Workshop) -> None:
    """start, again, extend, result, again."""
    desk, frame = await workshop.task()
    answers = [await desk.start(frame), await desk.start(frame), (await desk.call(frame, "extend")).json()]
    for answer in answers:
        expect(answer.get("status") == "in_progress", "status in_progress", answer.get("status"))
        left = (datetime.fromisoformat(answer["lease_expires_at"]) - datetime.now(UTC)).total_seconds()
        # Both clocks have their say here, so only the order of magnitude is judged.
        expect(left > LEASE_SECONDS / 2, f"a lease of about {LEASE_SECONDS} s", f"{left:.0f} s")
    for duplicate in (False, True):
        response = await desk.answer(frame)
        expect(response.status_code == 202, "202 to the result", told(response))
        expect(response.json()["duplicate"] is duplicate, f"duplicate {str(duplicate).lower()}", told(response))
    expect_problem(await desk.call(frame, "extend"), 409, "lease_lost")


async def settled_without_a_token(workshop: Workshop) -> None:
    """A client that does not run the task says so without a token."""
    desk, frame = await workshop.task()
    await desk.start(frame)
    await desk.answer(frame)
    generation = frame.interrupt_generation + 1
    response = await desk.call(frame, "interrupt-ack", lease_token=None, interrupt_generation=generation)
    expect(response.status_code == 200, "200", told(response))
    expect(response.json().get("result") == "already_settled", "already_settled", told(response))


async def cancel_gives_back(workshop: Workshop) -> None:
    """A cancel before the start: requeued, and the question comes again with another lease."""
    desk, frame = await workshop.task()
    response = await desk.call(frame, "cancel", reason="conformance", interrupt_generation=frame.interrupt_generation)
    desk.forget(frame)
    expect(response.status_code == 200, "200 to cancel", told(response))
    expect(response.json().get("result") == "requeued", "requeued", told(response))
    expect_problem(await desk.call(frame, "start"), 409, "lease_lost")
    same = (frame.question, frame.platform)
    again = await desk.next_task("question again", lambda other: (other.question, other.platform) == same)
    expect(again.lease_token != frame.lease_token, "another lease token", "the same")


async def reconnect_leases_anew(workshop: Workshop) -> None:
    """A queued task that hello does not list gets a fresh token; the old one is void."""
    desk, old = await workshop.task()
    await desk.disconnect()
    desk.waiting.clear()
    await desk.connect()
    fresh = desk.waiting.get(old.task_id)
    expect(fresh is not None, "the task in the snapshot, for hello did not list it", "it is missing")
    assert fresh is not None
    expect(fresh.lease_token != old.lease_token, "a fresh lease token", "the same")
    expect_problem(await desk.call(old, "start"), 409, "lease_lost")
    response = await desk.call(fresh, "extend")
    expect(response.status_code == 200, "200 to extend with the fresh token", told(response))


async def reconnect_keeps_what_is_held(workshop: Workshop) -> None:
    """Listed attempts keep their leases: one runs, the others wait."""
    desk = await workshop.open()
    running, waiting = await desk.tasks(2)
    await desk.start(running)
    await desk.disconnect()
    held = [running, *desk.waiting.values()]
    pages = await desk.connect(held)
    given = {frame.task_id for page in pages for frame in page.available}
    for frame in (running, waiting):
        verdict = desk.verdicts.get(frame.attempt_id)
        expect(verdict is not None and verdict.valid, "`valid` true for a held attempt", verdict)
        expect(frame.task_id not in given, "no second lease for a held attempt", "one in `available`")
        response = await desk.call(frame, "extend")
        expect(response.status_code == 200, "200 to extend with the old token", told(response))
    expect((await desk.answer(running)).status_code == 202, "202 to its result", "another answer")


async def not_named_is_over(workshop: Workshop) -> None:
    """What runs and hello does not name is over; its late success is taken all the same."""
    desk, frame = await workshop.task()
    await desk.start(frame)
    await desk.disconnect()
    desk.running.clear()
    await desk.connect(list(desk.waiting.values()))
    expect_problem(await desk.call(frame, "extend"), 409, "lease_lost")
    response = await desk.answer(frame)
    expect(response.status_code == 202, "202: a late success is taken", told(response))


async def no_slot_keeps_it_queued(workshop: Workshop) -> None:
    """With every slot busy start is refused, and the lease stays."""
    desk = await workshop.open()
    frames = await desk.tasks(SLOTS + 1)
    answers = [(frame, await desk.call(frame, "start")) for frame in frames]
    refused = [(frame, response) for frame, response in answers if response.status_code != 200]
    try:
        expect(refused, f"409 no_slot to one of {SLOTS + 1} starts, with {SLOTS} slots", "all of them run")
        frame, response = refused[-1]
        expect_problem(response, 409, "no_slot")
        kept = await desk.call(frame, "extend")
        expect(kept.status_code == 200, "its lease stays after no_slot", told(kept))
    finally:
        for frame, response in answers:
            if response.status_code == 200:
                await desk.answer(frame)


async def gives_way_to_a_click(workshop: Workshop) -> None:
    """A click interrupts scheduled work; a stale acknowledgement is refused and the order comes again."""
    desk = await workshop.open()
    await _finish_clicks(workshop, desk)
    await workshop.run_plan()
    victim = await desk.next_task("scheduled task", lambda frame: frame.question == workshop.planned_text)
    await desk.start(victim)
    request = await workshop.click(desk, [workshop.urgent], [victim.platform])
    order = await _order(workshop, desk, victim, count=1)
    expect(order.interrupt_generation > victim.interrupt_generation, "a newer generation", order.interrupt_generation)
    await _acknowledge_stale(workshop, desk, victim, order)
    fields = {"interrupt_generation": order.interrupt_generation, "phase": "PREPARING", "safe_point": "before_open"}
    response = await desk.call(victim, "interrupt-ack", **fields)
    desk.forget(victim)
    expect(response.status_code == 200, "200 to the acknowledgement", told(response))
    expect(response.json().get("result") == "preempted", "preempted", told(response))
    high = await desk.next_task("task of the click", lambda frame: frame.collect_request_id == request)
    await desk.start(high)
    expect((await desk.answer(high)).status_code == 202, "202 to the high task's result", "another answer")


async def _finish_clicks(workshop: Workshop, desk: HubDesk) -> None:
    """Answer what is left of the first click: what waits here would keep scheduled work of its platform away."""
    for frame in list(desk.running.values()):
        await desk.answer(frame)
    seconds = workshop.target.pace.work
    try:
        async with asyncio.timeout(seconds):
            while await workshop.collects():
                await _answer_all(desk)
                await desk.signal.comes(lambda: desk.waiting, LOOK)
    except TimeoutError:
        raise CannotCheck(f"the first click was not over after {seconds:g} s, all of it answered") from None


async def _answer_all(desk: HubDesk) -> None:
    for frame in list(desk.waiting.values()):
        if (await desk.call(frame, "start")).status_code == 200:
            await desk.answer(frame)


async def _order(workshop: Workshop, desk: HubDesk, victim: TaskAvailable, count: int) -> TaskControl:
    def orders() -> list[TaskControl]:
        wanted = Control.INTERRUPT_REQUESTED
        return [one for one in desk.controls if one.task_id == victim.task_id and one.control is wanted]

    seconds = workshop.target.pace.patience
    which = "interrupt_requested" if count == 1 else "the current order again"
    await desk.signal.until(lambda: len(orders()) >= count, seconds, f"{which} for the scheduled task that runs")
    return orders()[-1]


async def _acknowledge_stale(workshop: Workshop, desk: HubDesk, victim: TaskAvailable, order: TaskControl) -> None:
    seen = sum(one.task_id == victim.task_id for one in desk.controls)
    response = await desk.call(victim, "interrupt-ack", interrupt_generation=order.interrupt_generation - 1)
    expect_problem(response, 409, "stale_generation")
    again = await _order(workshop, desk, victim, count=seen + 1)
    same = again.interrupt_generation == order.interrupt_generation
    expect(same, f"the order again at {order.interrupt_generation}", again.interrupt_generation)


LEASES = (
    Check("lease.push", "From hub to client", "a pushed task is complete", push_is_complete),
    Check("lease.wrong_token", "Refusals", "a wrong lease token is 409 lease_lost", wrong_token_is_lost),
    Check("lease.result", "The life of a lease", "start, extend and result; again is the same", from_start_to_result),
    Check("lease.unheld", "Preemption", "already_settled without a token", settled_without_a_token),
    Check("lease.cancel", "The life of a lease", "cancel before the start gives back", cancel_gives_back),
    Check("lease.reconnect", "The life of a lease", "what hello does not list is leased anew", reconnect_leases_anew),
    Check("lease.held", "The life of a lease", "what hello lists keeps its lease", reconnect_keeps_what_is_held),
    Check("lease.no_slot", "Refusals", "no_slot keeps a task queued", no_slot_keeps_it_queued),
    # Its question may be leased anew for a moment before the late success counts: nothing after it may start that one.
    Check(
        "lease.late",
        "The life of a lease",
        "what hello does not name is over; a late success counts",
        not_named_is_over,
    ),
    Check("order.preempts", "Preemption", "a click interrupts, stale is refused", gives_way_to_a_click),
)
