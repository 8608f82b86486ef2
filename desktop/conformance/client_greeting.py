"""Scenarios: how a client connects, greets, and what it makes of frames it does not expect."""

from desktop.conformance.orders import frame_id
from desktop.conformance.play import Play
from desktop.conformance.verdict import CannotCheck, Check, expect
from domain import protocol
from domain.ids import new_uuid
from domain.protocol import (
    SUPPORTED,
    ClientAck,
    CloseCode,
    ErrorCode,
    ErrorFrame,
    Heartbeat,
    Hello,
    ServerFrame,
)


async def connects(play: Play) -> None:
    """The handshake as it came."""
    visit = await play.comes()
    expect(visit.path == protocol.PATH, f"the path {protocol.PATH} and no query", visit.path)
    expect(set(visit.offered) & set(SUPPORTED), f"one of the subprotocols {', '.join(SUPPORTED)}", visit.offered)
    await play.present()


async def greets(play: Play) -> None:
    """hello is the first frame, in time, and says what it must."""
    visit = await play.present()
    assert visit.trusted_at is not None
    assert visit.greeted_at is not None
    took = visit.greeted_at - visit.trusted_at
    expect(took <= play.pace.hello, f"hello within {play.pace.hello:g} s of the token", f"{took:.1f} s")
    hello = play.record.hello_of(visit.number)
    assert hello is not None
    expect(hello.protocol in visit.offered, f"hello of one of {', '.join(visit.offered)}", hello.protocol)
    expect(hello.version, "a version", "an empty one")


async def waits_for_a_late_snapshot(play: Play) -> None:
    """A hub whose database is away says so; the client stays, and takes the snapshot that follows."""
    visit = await play.present()
    play.stage.greeting = _database_is_away
    await play.stage.close(CloseCode.SERVICE_RESTART)
    await play.comes_back(visit.number, "a new connection after 1012")
    connections = len(play.record.visits)
    lease = play.stage.ledger.grant(play.stage.make.task())
    await play.stage.send(play.stage.page(None, 0, last=True, available=[lease.frame]))
    await play.ended(lease)
    expect(len(play.record.visits) == connections, "the same connection", "another one")


def _database_is_away(hello: Hello) -> list[ServerFrame]:
    code = ErrorCode.DATABASE_UNAVAILABLE
    return [ErrorFrame(id=frame_id(), ref=hello.id, code=code, message="the snapshot follows as soon as possible")]


async def takes_pages(play: Play) -> None:
    """A snapshot in three pages brings everything that stands in them."""
    visit = await play.present()
    leases = [play.stage.ledger.grant(play.stage.make.task()) for _ in range(3)]
    play.stage.greeting = lambda hello: play.stage.snapshot(hello, pages=3)
    await play.stage.close(CloseCode.SERVICE_RESTART)
    await play.comes_back(visit.number, "a new connection after 1012")
    await play.all_ended(*leases)


async def beats(play: Play) -> None:
    """Heartbeats come all the time, in time."""
    if play.pace.skip_heartbeats:
        raise CannotCheck("it takes half a minute; leave --quick out")
    visit = await play.present()
    seen = len(play.record.of(Heartbeat))
    for number in range(1, 4):
        began = play.now()
        await play.stage.signal.until(
            lambda wanted=seen + number: len(play.record.of(Heartbeat)) >= wanted,  # type: ignore[misc]
            play.pace.heartbeat,
            "a heartbeat every 10 s",
            lambda began=began: f"none for {play.now() - began:.1f} s",  # type: ignore[misc]
        )
    expect(play.stage.visit is visit, "the same connection", "another one")


async def lists_what_runs(play: Play) -> None:
    """A heartbeat names the running attempt and the waiting one: it extends their leases."""
    if play.pace.skip_heartbeats:
        raise CannotCheck("it waits for heartbeats; leave --quick out")
    await play.present()
    running, waiting = await play.fill(), await play.push()
    names = {lease.frame.attempt_id for lease in [*running, waiting]}

    def told() -> set[str]:
        beats = play.record.of(Heartbeat)[-1:]
        return {held.attempt_id for beat in beats for held in [*beat.running, *beat.queued]}

    await play.until(lambda: names <= told(), "a heartbeat that lists what runs and what waits", told)
    for lease in running:
        lease.gate.set()
    await play.all_ended(*running, waiting)


async def acknowledges(play: Play) -> None:
    """Receipts, if the client sends them, name frames that it got."""
    await play.present()
    lease = await play.push()
    await play.ended(lease)
    acks = {ack.ref for ack in play.record.of(ClientAck)}
    if not acks:
        raise CannotCheck("the client sends no receipts; they are optional")
    await play.until(
        lambda: lease.frame.id in {ack.ref for ack in play.record.of(ClientAck)}, "a receipt of the pushed frame"
    )


async def ignores_the_unknown(play: Play) -> None:
    """Frames of later versions, and fields of later versions, disturb nothing."""
    visit = await play.present()
    await play.stage.send_text(f'{{"type":"conformance_of_tomorrow","id":"{new_uuid()}","anything":[1]}}')
    lease = play.stage.ledger.grant(play.stage.make.task())
    text = protocol.encode(lease.frame)
    await play.stage.send_text(text[:-1] + ',"field_of_tomorrow":{"deep":[null]}}')
    await play.ended(lease)
    expect(play.stage.visit is visit, "the same connection", "another one")


async def keeps_frame_rules(play: Play) -> None:
    """What was noted all along, and in one more run."""
    await play.present()
    await play.ended(await play.push())
    await play.caught_up()
    expect(not play.record.breaches, "frames and calls as the protocol says", "; ".join(play.record.breaches))


GREETING = (
    Check(
        "connect.handshake", "Connecting", "connects to the path, offers the version, token not in the URL", connects
    ),
    Check("connect.hello", "Connecting", "says hello within 5 s of the token", greets),
    Check(
        "snapshot.late",
        "From hub to client",
        "stays connected when the snapshot has to wait",
        waits_for_a_late_snapshot,
    ),
    Check("snapshot.pages", "From hub to client", "takes a snapshot in pages", takes_pages),
    Check("frames.unknown", "Frames", "ignores unknown frames and fields", ignores_the_unknown),
    Check("frames.receipts", "Frames", "receipts name frames that came", acknowledges),
    Check("heartbeat.cadence", "From client to hub", "sends a heartbeat every 10 s", beats),
    Check("heartbeat.lists", "From client to hub", "lists what runs and what waits", lists_what_runs),
)
MANNERS = (Check("frames.rules", "Frames", "every frame and call was well formed", keeps_frame_rules),)
