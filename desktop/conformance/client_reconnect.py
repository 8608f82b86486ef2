"""Scenarios: connections that end, what the next hello says, and the codes after which there is no next one."""

from typing import Final

from desktop.conformance.play import Play
from desktop.conformance.verdict import Check, expect
from domain.protocol import CloseCode, Control

LOSSES: Final = 5
# A client without any jitter comes back after the same time, give or take the machine.
LEAST_SPREAD: Final = 0.1
AT_ONCE: Final = 0.03


async def comes_back_after_a_restart(play: Play) -> None:
    """1012 means: connect again."""
    visit = await play.present()
    await play.stage.close(CloseCode.SERVICE_RESTART)
    await play.comes_back(visit.number, "a new connection after 1012")


async def comes_back_after_slowness(play: Play) -> None:
    """4400–4499 mean: connect again."""
    visit = await play.present()
    await play.stage.close(CloseCode.SLOW_CONSUMER)
    await play.comes_back(visit.number, "a new connection after 4408")


async def spreads_its_returns(play: Play) -> None:
    """Several losses without a word: it comes back each time, not at once and not after the same time."""
    await play.present()
    waits = [await _lost(play) for _ in range(LOSSES)]
    spread = max(waits) - min(waits)
    told = " ".join(f"{wait:.2f}" for wait in waits)
    expect(max(waits) > AT_ONCE, "some time before it connects again", f"waits of {told} s")
    least = LEAST_SPREAD * sum(waits) / len(waits)
    expect(spread > least, "jitter: waits that differ", f"waits of {told} s")


async def _lost(play: Play) -> float:
    visit = await play.present()
    play.stage.lose()
    await play.comes_back(visit.number, "a new connection after a loss")
    assert visit.closed_at is not None
    return play.record.visits[visit.number].opened_at - visit.closed_at


async def names_what_it_holds(play: Play) -> None:
    """hello lists what runs and what waits, and the highest generation; held work goes on."""
    visit = await play.present()
    busy, waiting = await play.fill(), await play.push()
    await play.caught_up()
    highest = play.stage.next_generation()
    lease = play.stage.make.order(waiting.frame.task_id, Control.INTERRUPT_WITHDRAWN, highest)
    await play.stage.send(lease)
    await play.caught_up()
    play.stage.lose()
    hello = await play.comes_back(visit.number, "a new connection after a loss")
    wanted = {one.frame.attempt_id for one in [*busy, waiting]}
    named = {held.attempt_id for held in hello.held}
    for one in busy:
        one.gate.set()
    expect(wanted <= named, f"hello lists all {len(wanted)} attempts that it holds", f"{len(wanted & named)} of them")
    expect(hello.highest_generation >= highest, f"highest_generation {highest} or more", hello.highest_generation)
    await play.all_ended(*busy, waiting)


async def drops_what_a_snapshot_calls_over(play: Play) -> None:
    """`valid` false: the attempt is dropped."""
    visit = await play.present()
    busy, waiting = await play.fill(), await play.push()
    await play.caught_up()
    waiting.valid = False
    await play.stage.close(CloseCode.SERVICE_RESTART)
    await play.comes_back(visit.number, "a new connection after 1012")
    await play.caught_up()
    since = play.now()
    for lease in busy:
        lease.gate.set()
    await play.all_ended(*busy)
    await play.quiet_about(waiting, "no start of a task that the snapshot called over", since=since)


async def follows_an_order_of_the_snapshot(play: Play) -> None:
    """An order whose frame was lost stands in the snapshot."""
    visit = await play.present()
    lease = await play.push_held()
    lease.generation, lease.interrupted = play.stage.next_generation(), True
    await play.stage.close(CloseCode.SERVICE_RESTART)
    await play.comes_back(visit.number, "a new connection after 1012")
    await play.caught_up()
    lease.gate.set()
    await play.stopped(lease)


def _final(code: CloseCode) -> Check[Play]:
    async def stays_away(play: Play) -> None:
        """A final code ends it."""
        visit = await play.present()
        await play.stage.close(code)
        await play.stays_away(visit.number, str(int(code)))

    rule = f"does not come back after {int(code)}"
    return Check(f"final.{int(code)}", "Close codes", rule, stays_away)


async def stays_away_when_refused(play: Play) -> None:
    """A token that is not known any more."""
    visit = await play.present()
    play.stage.refuse_with = CloseCode.UNAUTHENTICATED
    await play.stage.close(CloseCode.SERVICE_RESTART)
    await play.until(lambda: len(play.record.visits) > visit.number, "a new connection after 1012")
    try:
        await play.stays_away(visit.number + 1, "4501")
    finally:
        play.stage.refuse_with = None


RECONNECT = (
    Check("reconnect.restart", "Reconnecting", "connects again after 1012", comes_back_after_a_restart),
    Check("reconnect.slow", "Reconnecting", "connects again after 4408", comes_back_after_slowness),
    Check("reconnect.jitter", "Reconnecting", "waits a different time each time", spreads_its_returns),
    Check("reconnect.held", "Reconnecting", "names what it holds and the highest generation", names_what_it_holds),
    Check(
        "snapshot.invalid", "From hub to client", "drops what the snapshot calls over", drops_what_a_snapshot_calls_over
    ),
    Check(
        "snapshot.orders", "From hub to client", "follows an order of the snapshot", follows_an_order_of_the_snapshot
    ),
)
FINAL = (
    _final(CloseCode.REVOKED),
    _final(CloseCode.REPLACED),
    Check("final.4501", "Close codes", "does not come back after 4501", stays_away_when_refused),
)
