"""A hub that stops: everybody is sent to another one, spread, with nothing lost, and nobody can hold it up."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed

from domain.protocol import CloseCode, Heartbeat, HeldAttempt, ServerAck, TaskAvailable
from hub.draining import STEP_SECONDS, in_steps, spread_seconds
from hub.ports import HubStatus, Limits
from tests.hub.conftest import LIMITS, Desk, MakeRig, Rig, close_code
from tests.support.broker import until


def codes(rig: Rig) -> list[int | None]:
    """With which codes connections were reported as ended."""
    return [end.code for batch in rig.backend.ends for end in batch]


@given(st.integers(0, 20_000))
def test_few_go_at_once_and_a_full_hub_takes_all_of_its_spread_and_no_more(connections: int) -> None:
    spread = spread_seconds(connections, Limits())
    batches = in_steps(range(connections), spread)
    assert [each for batch in batches for each in batch] == list(range(connections))
    assert spread <= 4
    if connections <= 10:
        assert spread <= STEP_SECONDS
    if connections >= 1000:
        assert spread == 4
        assert len(batches) > 50
        # No step sends away much more than its share.
        assert max(map(len, batches)) <= 2 * connections / len(batches)


# One goes at once, the next one in half an hour.
ENDLESS = replace(LIMITS, drain_closes_per_second=0.001, drain_spread_seconds=3600, drain_seconds=7200)


async def test_who_waits_for_its_turn_is_served_until_then_and_nobody_new_is_let_in(make_rig: MakeRig) -> None:
    rig = await make_rig(limits=ENDLESS)
    desks = [await rig.desk(), await rig.desk()]
    for desk in desks:
        await desk.hello()
    stopping = asyncio.create_task(rig.hub.stop())
    gone, waiting = await _first_gone(desks)
    assert gone.socket.close_code == CloseCode.SERVICE_RESTART
    assert rig.hub.state.status is HubStatus.DRAINING
    with pytest.raises(ConnectionRefusedError):
        await rig.desk()
    await waiting.send(Heartbeat(id="b1"))
    assert (await waiting.next(ServerAck)).ref == "b1"
    assert await rig.hint(waiting.client, rig.backend.queue(waiting.client))
    await waiting.next(TaskAvailable)
    rig.hub.hurry()
    assert await waiting.closed() == CloseCode.SERVICE_RESTART
    await stopping
    assert codes(rig) == [CloseCode.SERVICE_RESTART] * 2
    assert rig.backend.online == set()


async def _first_gone(desks: list[Desk]) -> tuple[Desk, Desk]:
    ends = {asyncio.create_task(desk.socket.wait_closed()): desk for desk in desks}
    async with asyncio.timeout(20):
        done, pending = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    return ends[done.pop()], ends[pending.pop()]


async def test_a_client_that_never_answers_the_close_cannot_hold_the_hub_up(make_rig: MakeRig) -> None:
    rig = await make_rig(limits=replace(LIMITS, close_seconds=600, drain_seconds=0.4))
    deaf, other = await rig.desk(), await rig.desk()
    await deaf.hello()
    await other.hello()
    await other.send(Heartbeat(id="b1"))
    await other.next(ServerAck)
    deaf.socket.transport.pause_reading()
    async with asyncio.timeout(60):
        await rig.hub.stop()
    assert rig.hub.connections == 0
    assert [beat.heartbeat.id for batch in rig.backend.beats for beat in batch] == ["b1"]
    assert len(codes(rig)) == 2


async def test_a_backend_that_is_away_cannot_hold_the_hub_up(make_rig: MakeRig) -> None:
    rig = await make_rig(limits=replace(LIMITS, drain_seconds=0.4))
    await (await rig.desk()).hello()
    rig.backend.failure = OSError("away")
    async with asyncio.timeout(60):
        await rig.hub.stop()
    assert codes(rig) == []


async def test_sockets_that_are_not_through_the_door_are_ended_too(make_rig: MakeRig) -> None:
    rig = await make_rig(limits=replace(LIMITS, handshake_seconds=600, drain_seconds=600))
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.hub.port)
    silent, mute = await rig.socket(), await rig.desk()
    await until(lambda: rig.hub.state.pending == 2)
    async with asyncio.timeout(60):
        ended = await asyncio.gather(rig.hub.stop(), close_code(silent), mute.closed())
        assert ended[1:] == [CloseCode.SERVICE_RESTART] * 2
        assert await reader.read() == b""
    writer.close()
    assert rig.hub.state.pending == 0


async def test_a_stop_in_the_middle_of_pushes_writes_whole_frames_and_loses_no_task(make_rig: MakeRig) -> None:
    here, there = await make_rig(), await make_rig()
    known = here.backend.register()
    desk = await here.desk(known, max_queue=1)
    await desk.hello()
    tasks = {str(here.backend.queue(desk.client, "茶" * 5_000)) for _ in range(40)}
    for task_id in list(here.backend.tasks):
        await here.hint(desk.client, task_id)
    seen = {(await desk.next(TaskAvailable)).task_id}
    stopping = asyncio.create_task(here.hub.stop())
    try:
        # Every frame decodes; then the close, and nothing else.
        while True:
            seen.add((await desk.next(TaskAvailable)).task_id)
    except ConnectionClosed:
        assert desk.socket.close_code == CloseCode.SERVICE_RESTART
    await stopping
    again = await there.desk(known)
    held = [frame for frame in desk.seen if isinstance(frame, TaskAvailable)]
    snapshot = await again.hello(*map(_held, held))
    listed = [frame for frame in again.seen if frame is not snapshot]
    offered = {item.task_id for page in [*listed, snapshot] for item in getattr(page, "available", [])}
    assert offered | seen == tasks
    assert not offered & seen


def _held(frame: TaskAvailable) -> HeldAttempt:
    return HeldAttempt(task_id=frame.task_id, attempt_id=frame.attempt_id, state="queued")


async def test_a_second_stop_changes_nothing(rig: Rig) -> None:
    await (await rig.desk()).hello()
    await rig.hub.stop()
    await rig.hub.stop()
    assert codes(rig) == [CloseCode.SERVICE_RESTART]
