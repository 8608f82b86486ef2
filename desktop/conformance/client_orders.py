"""Scenarios: orders to give way, their generations, and where a client may stop."""

from typing import Final

from desktop.conformance.client_tasks import runs_a_task
from desktop.conformance.heard import HeardCall
from desktop.conformance.play import STOPS, Play
from desktop.conformance.verdict import CannotCheck, Check, expect
from domain.errors import StaleGeneration
from domain.ids import new_uuid
from domain.lanes import Lane
from domain.phases import Phase, SafePoint
from domain.protocol import Control

# The phase that a stop at the safe point may name: the one before it, or the one it leads to.
PHASES_AT: Final[dict[SafePoint, frozenset[Phase]]] = {
    SafePoint.BEFORE_OPEN: frozenset({Phase.PREPARING, Phase.NAVIGATING}),
    SafePoint.BEFORE_INPUT: frozenset({Phase.NAVIGATING, Phase.AUTHENTICATING, Phase.INPUTTING}),
    SafePoint.BEFORE_SUBMIT: frozenset({Phase.INPUTTING}),
    SafePoint.BEFORE_PARSE: frozenset({Phase.WAITING, Phase.PARSING}),
    SafePoint.AFTER_QUESTION: frozenset({Phase.POSTING}),
}
MOMENTS: Final = 8


async def gives_way(play: Play) -> None:
    """An order that comes before start is answered stops the task at the first safe point."""
    await play.present()
    lease = await play.push_held()
    generation = await play.interrupt(lease)
    await play.caught_up()
    lease.gate.set()
    call = await play.stopped(lease)
    _expect_acknowledgement(call, generation)
    await play.quiet_about(lease, "no further call about a task that gave way", since=call.at)


def _expect_acknowledgement(call: HeardCall, generation: int) -> None:
    expect(call.action == "interrupt-ack", "interrupt-ack for a task that runs", call.action)
    seen = call.call.interrupt_generation
    expect(seen == generation, f"the order's generation {generation}", seen)
    expect(call.call.lease_token is not None, "the lease token", "none")
    _expect_safe_point(call)


def _expect_safe_point(call: HeardCall) -> None:
    point, phase = call.call.safe_point, call.call.phase
    if point is not None and phase is not None:
        allowed = ", ".join(sorted(PHASES_AT[point]))
        expect(phase in PHASES_AT[point], f"a stop at {point} in {allowed}", f"{point} in {phase}")
    expect(phase is not Phase.SUBMITTING, "no stop between submitting and the answer", f"a stop in {phase}")


async def stops_only_at_safe_points(play: Play) -> None:
    """Orders at many moments of a run: each ends at a safe point, or in the result."""
    await play.present()
    if not play.times:
        await runs_a_task(play)
    named = 0
    for moment in range(MOMENTS):
        call = await _ordered_after(play, play.times[0] * moment / MOMENTS)
        named += call.action == "interrupt-ack" and call.call.safe_point is not None and call.call.phase is not None
    if not named:
        raise CannotCheck("no acknowledgement named its phase and safe point; they are optional")


async def _ordered_after(play: Play, seconds: float) -> HeardCall:
    lease = await play.push()
    task_id = lease.frame.task_id
    await play.until(lambda: play.record.done(task_id, "start"), "a start call")
    await play.stage.signal.comes(lambda: play.record.done(task_id, "result"), seconds)
    generation = await play.interrupt(lease)
    ends = (*STOPS, "result")
    await play.until(lambda: play.record.done(task_id, *ends), "interrupt-ack at a safe point, or the result")
    call = play.record.done(task_id, *ends)[0]
    if call.action in STOPS and call.call.lease_token is not None:
        _expect_acknowledgement(call, generation)
    return call


async def lets_the_urgent_one_go_first(play: Play) -> None:
    """The slot that a task gives up goes to the high one, not to what waited longer."""
    await play.present()
    busy = await play.fill()
    waiting = await play.push()
    high = await play.push(Lane.HIGH)
    await play.interrupt(busy[0])
    await play.caught_up()
    busy[0].gate.set()
    await play.stopped(busy[0])
    await play.ended(high)
    for lease in busy[1:]:
        lease.gate.set()
    await play.all_ended(waiting, *busy[1:])
    starts = [call.task_id for call in play.record.calls if call.action == "start" and call.done]
    first, second = starts.index(high.frame.task_id), starts.index(waiting.frame.task_id)
    expect(first < second, "the high task starts before the one that waited", "after it")


async def returns_what_waits(play: Play) -> None:
    """An order about a task that has not begun gives it back."""
    await play.present()
    busy, waiting = await play.fill(), await play.push()
    generation = await play.interrupt(waiting)
    await play.caught_up()
    for lease in busy:
        lease.gate.set()
    call = await play.stopped(waiting)
    expect(call.call.interrupt_generation == generation, f"the generation {generation}", call.call.interrupt_generation)
    expect(not play.record.done(waiting.frame.task_id, "start"), "no start of it", "it was started")
    await play.all_ended(*busy)


async def goes_on_after_a_withdrawal(play: Play) -> None:
    """An order that is taken back leaves the task running, also when an older one comes late."""
    await play.present()
    lease = await play.push_held()
    older = await play.interrupt(lease)
    await play.order(lease, Control.INTERRUPT_WITHDRAWN, play.stage.next_generation())
    await play.order(lease, Control.INTERRUPT_REQUESTED, older)
    await play.caught_up()
    lease.gate.set()
    await _runs_on(play, lease.frame.task_id, "the task runs on: its order was withdrawn")


async def ignores_an_older_order(play: Play) -> None:
    """An order older than what the task was pushed with changes nothing."""
    await play.present()
    older, newer = play.stage.next_generation(), play.stage.next_generation()
    busy = await play.fill()
    waiting = await play.push(interrupt_generation=newer)
    await play.order(waiting, Control.INTERRUPT_REQUESTED, older)
    await play.caught_up()
    for lease in busy:
        lease.gate.set()
    await play.all_ended(*busy)
    await _runs_on(play, waiting.frame.task_id, "the task runs: the order was older than its generation")


async def _runs_on(play: Play, task_id: str, rule: str) -> None:
    ends = (*STOPS, "result")
    await play.until(lambda: play.record.called(task_id, *ends), "a result", lambda: play.record.told(task_id))
    await play.until(
        lambda: play.record.done(task_id, "result") or play.record.called(task_id, *STOPS), "a result that is taken"
    )
    stops = play.record.called(task_id, *STOPS)
    expect(not stops, rule, play.record.told(task_id))


async def answers_for_what_it_has_not(play: Play) -> None:
    """An order about a task that is not held is acknowledged without a lease token, at its generation."""
    await play.present()
    generation = play.stage.next_generation()
    order = play.stage.make.order(str(new_uuid()), Control.INTERRUPT_REQUESTED, generation)
    await play.stage.send(order)
    await play.until(lambda: play.record.called(order.task_id), "interrupt-ack without a lease token")
    call = play.record.called(order.task_id)[0]
    expect(call.action == "interrupt-ack", "interrupt-ack", call.action)
    expect(call.call.lease_token is None, "no lease token", "one")
    seen = call.call.interrupt_generation
    expect(seen == generation, f"the order's generation {generation}", seen)


async def waits_for_the_current_order(play: Play) -> None:
    """stale_generation: not stopped; the newer order that follows is the one to acknowledge."""
    await play.present()
    lease = await play.push_held()
    first = await play.interrupt(lease)
    await play.caught_up()
    # The newer order is on its way while the client acknowledges the older one.
    lease.generation = second = play.stage.next_generation()
    lease.gate.set()
    call = await play.stopped(lease)
    stale = [
        one for one in play.record.called(lease.frame.task_id, "interrupt-ack") if one.code == StaleGeneration.code
    ]
    expect(stale, f"an acknowledgement at {first}", play.record.told(lease.frame.task_id))
    expect(len(stale) == 1, "one acknowledgement of an order that is called stale", f"{len(stale)} of them")
    seen = call.call.interrupt_generation
    expect(seen == second, f"then the current generation {second}", seen)


async def drops_what_is_cancelled(play: Play) -> None:
    """`canceled` about a task that waits: it never starts."""
    await play.present()
    busy, waiting = await play.fill(), await play.push()
    await play.order(waiting, Control.CANCELED, play.stage.next_generation())
    await play.caught_up()
    since = play.now()
    for lease in busy:
        lease.gate.set()
    await play.all_ended(*busy)
    await play.quiet_about(waiting, "no start of a cancelled task", since=since, actions=("start", "result"))


async def stops_what_is_cancelled(play: Play) -> None:
    """`canceled` about a task that runs: it is dropped at the next safe point, nothing is posted."""
    await play.present()
    lease = await play.push_held()
    await play.order(lease, Control.CANCELED, play.stage.next_generation())
    await play.caught_up()
    since = play.now()
    lease.gate.set()
    await play.quiet_about(lease, "no result of a cancelled task", since=since, actions=("result",))


ORDERS = (
    Check("order.gives_way", "Preemption", "stops at the next safe point and acknowledges", gives_way),
    Check("order.safe_points", "Preemption", "stops nowhere but at safe points", stops_only_at_safe_points),
    Check("order.high_first", "The life of a lease", "the slot goes to the high task", lets_the_urgent_one_go_first),
    Check("order.queued", "Preemption", "gives a waiting task back", returns_what_waits),
    Check("order.withdrawn", "Preemption", "runs on when the order is withdrawn", goes_on_after_a_withdrawal),
    Check("order.older", "Stale generations", "ignores an order at an older generation", ignores_an_older_order),
    Check("order.unheld", "Preemption", "acknowledges orders about what it does not hold", answers_for_what_it_has_not),
    Check(
        "order.stale",
        "Stale generations",
        "waits for the current order on stale_generation",
        waits_for_the_current_order,
    ),
    Check("order.canceled_queued", "Preemption", "drops a waiting task that is cancelled", drops_what_is_cancelled),
    Check("order.canceled_running", "Preemption", "drops a running task that is cancelled", stops_what_is_cancelled),
)
