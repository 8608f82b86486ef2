"""Scenarios: tasks from push to result, and what the client does when a call is refused."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final

import msgspec

from desktop.conformance.ledger import Lease
from desktop.conformance.play import Play
from desktop.conformance.verdict import CannotCheck, Check, expect
from domain.errors import DatabaseUnavailable, LeaseLost, NoSlot
from domain.lanes import Kind, Lane, rule_of
from domain.protocol import CloseCode

# Of the time that was asked for: clocks and timers are not exact.
WELL_BEFORE: Final = 0.9
# Of the time that a question took.
LONG_ENOUGH: Final = 2.0
# More tries than a client makes until it is back.
REFUSALS: Final = 1000


async def runs_a_task(play: Play) -> None:
    """start, then the result of that attempt with its lease token."""
    await play.present()
    lease = await play.push()
    result = await play.ended(lease)
    started = play.record.done(lease.frame.task_id, "start")
    expect(started, "a start call before the result", play.record.told(lease.frame.task_id))
    assert started[0].answered_at is not None
    play.times.append(result.at - started[0].answered_at)
    expect(started[0].answered_at <= result.at, "the result after the answer to start", "before it")
    expect(str(result.call.attempt_id) == lease.frame.attempt_id, "the attempt's id", result.call.attempt_id)
    if result.call.outcome == "succeeded":
        expect(result.call.raw is not None, "a success with `raw`", "none")


async def starts_first(play: Play) -> None:
    """Nothing is posted while start is unanswered."""
    await play.present()
    if not play.times:
        await runs_a_task(play)
    lease = await play.push_held()
    early = await play.stage.signal.comes(
        lambda: play.record.called(lease.frame.task_id, "result"), LONG_ENOUGH * play.times[0]
    )
    lease.gate.set()
    expect(not early, "no result before start is answered", play.record.told(lease.frame.task_id))
    await play.ended(lease)


async def runs_a_duplicate_once(play: Play) -> None:
    """The same frame before, while and after it runs is one run."""
    await play.present()
    lease = play.stage.ledger.grant(play.stage.make.task())
    lease.gate.clear()
    for _ in range(2):
        await play.stage.send(lease.frame)
    await play.until(lambda: play.record.called(lease.frame.task_id, "start"), "a start call")
    await play.stage.send(lease.frame)
    await play.caught_up()
    starts = len(play.record.called(lease.frame.task_id, "start"))
    lease.gate.set()
    await play.ended(lease)
    await play.stage.send(msgspec.structs.replace(lease.frame, id=play.stage.make.task().id))
    await play.last_in_line()
    expect(starts == 1, "one start call for three equal frames", f"{starts} start calls")
    done = {action: len(play.record.done(lease.frame.task_id, action)) for action in ("start", "result")}
    expect(done == {"start": 1, "result": 1}, "one start and one result", play.record.told(lease.frame.task_id))


async def keeps_it_without_a_slot(play: Play) -> None:
    """no_slot keeps the task queued; it starts later."""
    await play.present()
    lease = play.stage.ledger.grant(play.stage.make.task())
    lease.trouble("start", NoSlot("as many tasks run on this platform as may; keep it queued"))
    await play.stage.send(lease.frame)
    await play.ended(lease)
    expect(len(play.record.called(lease.frame.task_id, "start")) >= 2, "start again after no_slot", "no second start")


async def starts_the_most_urgent(play: Play) -> None:
    """Local order: lane weight, priority, then what came first."""
    await play.present()
    busy = await play.fill()
    wanted = await _in_disorder(play)
    await play.caught_up()
    busy[0].gate.set()
    await play.all_ended(*wanted, busy[0])
    for lease in busy[1:]:
        lease.gate.set()
    await play.all_ended(*busy)
    expected = [lease.frame.task_id for lease in wanted]
    granted = [call.task_id for call in play.record.calls if call.action == "start" and call.done]
    seen = [task_id for task_id in granted if task_id in expected]
    ranks = [expected.index(task_id) + 1 for task_id in seen]
    expect(seen == expected, "starts in the order 1 2 3 4 5 6 (most urgent first)", " ".join(map(str, ranks)))


async def _in_disorder(play: Play) -> list[Lease]:
    """Six tasks, pushed the least urgent first, returned the most urgent first."""
    high = rule_of(Kind.MONITOR, Lane.HIGH)
    retry = await play.push(Lane.RETRY)
    first, second = await play.push(), await play.push()
    boosted = await play.push(Lane.NORMAL_BOOSTED)
    low = await play.push(Lane.HIGH, priority=high.lowest)
    top = await play.push(Lane.HIGH, priority=high.highest, enqueued_at=datetime.now(UTC) + timedelta(hours=1))
    return [top, low, boosted, first, second, retry]


async def sends_a_result_until_it_is_taken(play: Play) -> None:
    """503 keeps the result; it comes again, after the time that was asked for, until 202."""
    await play.present()
    asked = play.pace.retry_after
    lease = play.stage.ledger.grant(play.stage.make.task())
    away = [DatabaseUnavailable("try again", retry_after=asked) for _ in range(2)]
    lease.trouble("result", *away)
    await play.stage.send(lease.frame)
    await play.ended(lease)
    calls = play.record.called(lease.frame.task_id, "result")
    bodies = {call.call.model_dump_json() for call in calls}
    expect(len(bodies) == 1, "the same result every time", f"{len(bodies)} different ones")
    waits = [later.at - (call.answered_at or call.at) for call, later in pairwise(calls)]
    expect(min(waits) >= asked * WELL_BEFORE, f"at least {asked} s between tries, as asked", f"{min(waits):.2f} s")


async def keeps_a_result_over_a_reconnect(play: Play) -> None:
    """A result that waits is named in hello, so that its lease lives on."""
    visit = await play.present()
    lease = play.stage.ledger.grant(play.stage.make.task())
    away = DatabaseUnavailable("try again", retry_after=play.pace.retry_after)
    lease.trouble("result", *[away] * REFUSALS)
    await play.stage.send(lease.frame)
    await play.until(lambda: play.record.called(lease.frame.task_id, "result"), "a result")
    await play.stage.close(CloseCode.SERVICE_RESTART)
    hello = await play.comes_back(visit.number, "a new connection after 1012")
    lease.troubles.clear()
    named = [held.attempt_id for held in hello.held]
    expect(lease.frame.attempt_id in named, "hello lists the attempt whose result waits", named)
    await play.ended(lease)


async def drops_a_lost_lease_at_the_start(play: Play) -> None:
    """lease_lost at start: the task is dropped."""
    await _drops_what_is_called_lost(play, "start", "no further call about a task that start called lost")


async def drops_a_lost_lease_at_the_result(play: Play) -> None:
    """lease_lost at result: the result is dropped."""
    await _drops_what_is_called_lost(play, "result", "no further call about a task whose result was called lost")


async def _drops_what_is_called_lost(play: Play, call: str, rule: str) -> None:
    await play.present()
    lease = play.stage.ledger.grant(play.stage.make.task())
    lease.trouble(call, LeaseLost("the lease token is not the task's current one; drop the task"))
    await play.stage.send(lease.frame)
    await play.until(lambda: play.record.called(lease.frame.task_id, call), f"a {call} call")
    await play.quiet_about(lease, rule, since=play.record.called(lease.frame.task_id, call)[0].at)


async def pulls_offers(play: Play) -> None:
    """The legacy path, for clients that know it: pull, then the same calls."""
    await play.present()
    leased = play.stage.make.legacy()
    play.stage.ledger.offers.append(leased)
    bare = msgspec.structs.replace(leased, attempt=0, attempt_id="", lease_token="", status="pending")
    await play.stage.send(bare)
    if not await play.stage.signal.comes(lambda: play.record.called("", "lease"), play.pace.optional):
        play.stage.ledger.offers.clear()
        expect(not play.record.called(leased.task_id), "no call about a task that was only offered", "calls")
        raise CannotCheck("the client does not pull legacy offers; that is optional")
    await play.until(lambda: play.record.done(leased.task_id, "result"), "the result of the pulled task")


TASKS = (
    Check("task.result", "The life of a lease", "start, then a result with the attempt's token and id", runs_a_task),
    Check("task.start_first", "The life of a lease", "does nothing before start is answered", starts_first),
    Check("task.duplicate_push", "From hub to client", "runs a task that is pushed twice once", runs_a_duplicate_once),
    Check("task.no_slot", "Refusals", "keeps a task queued on no_slot", keeps_it_without_a_slot),
    Check("task.local_order", "The life of a lease", "starts the most urgent first", starts_the_most_urgent),
    Check(
        "result.unavailable",
        "Refusals",
        "keeps a result and sends it again until 202",
        sends_a_result_until_it_is_taken,
    ),
    Check(
        "result.reconnect", "What a client keeps", "lists a result that waits in hello", keeps_a_result_over_a_reconnect
    ),
    Check("lease.lost_at_start", "Refusals", "drops a task on lease_lost", drops_a_lost_lease_at_the_start),
    Check("lease.lost_at_result", "Refusals", "drops a result on lease_lost", drops_a_lost_lease_at_the_result),
    Check("legacy.offers", "The legacy path", "pulls legacy offers (optional)", pulls_offers),
)
