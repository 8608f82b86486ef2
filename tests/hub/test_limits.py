"""What a client may do before and after it is known, and what it costs when somebody does more."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed, InvalidStatus

from broker.dispatch_queue import DispatchQueue
from domain.hub_port import ClientIdentity, SnapshotContent
from domain.protocol import CloseCode, Heartbeat, Hello, ServerAck, Snapshot, TaskAvailable
from hub.door import Pace
from hub.ports import HubStatus
from tests.hub.conftest import LIMITS, MakeRig, Rig, close_code
from tests.hub.memory_backend import MemoryBackend
from tests.support.broker import until

Raw = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def raw(rig: Rig) -> Raw:
    """A TCP connection that has not said anything."""
    return await asyncio.open_connection("127.0.0.1", rig.hub.port)


async def rest_of(reader: asyncio.StreamReader) -> bytes:
    """Everything until the other side ends."""
    async with asyncio.timeout(20):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


def folding() -> list[str]:
    """Reports of hubs that are under way."""
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("fold-")]


# --- frames -----------------------------------------------------------------------------------------------------------


@given(st.floats(0.1, 1000), st.integers(1, 500), st.lists(st.floats(0, 5), max_size=60))
def test_in_any_stretch_of_time_only_a_burst_and_the_rate_pass(rate: float, burst: int, gaps: list[float]) -> None:
    pace, due, now, passed = Pace(rate, burst), 0.0, 0.0, list[float]()
    for gap in gaps:
        now += gap
        following = pace.next(due, now)
        if following is not None:
            due = following
            passed.append(now)
    for first, start in enumerate(passed):
        for last in range(first, len(passed)):
            assert last - first + 1 <= burst + (passed[last] - start) * rate + 1e-3


def test_a_burst_passes_whole_and_then_one_after_each_interval() -> None:
    pace, due = Pace(10, 3), 0.0
    for _ in range(3):
        following = pace.next(due, 100.0)
        assert following is not None
        due = following
    assert pace.next(due, 100.0) is None
    assert pace.next(due, 100.05) is None
    assert pace.next(due, 100.1) is not None


SLOW = replace(LIMITS, frames_per_second=0.001, frames_burst=10)


async def test_a_client_that_sends_too_fast_is_closed_and_its_neighbour_is_not(make_rig: MakeRig) -> None:
    rig = await make_rig(limits=SLOW)
    noisy, neighbour = await rig.desk(), await rig.desk()
    await noisy.hello()
    await neighbour.hello()
    with suppress(ConnectionClosed):
        for number in range(20):
            await noisy.send(Heartbeat(id=f"b{number}"))
    assert await noisy.closed() == CloseCode.TOO_MANY_FRAMES
    await until(lambda: rig.backend.online == {neighbour.client.client_id})
    await neighbour.send(Heartbeat(id="b"))
    assert (await neighbour.next(ServerAck)).ref == "b"


@pytest.mark.parametrize("kind", ["pings", "fragments"])
async def test_pings_and_fragments_count_as_frames(make_rig: MakeRig, kind: str) -> None:
    rig = await make_rig(limits=SLOW)
    desk = await rig.desk()
    await desk.hello()
    with suppress(ConnectionClosed):
        if kind == "pings":
            for _ in range(20):
                await desk.socket.ping()
        else:
            await desk.socket.send(["x"] * 20)
    assert await desk.closed() == CloseCode.TOO_MANY_FRAMES


async def test_who_does_not_go_after_a_refused_frame_is_cut_off(make_rig: MakeRig) -> None:
    rig = await make_rig(limits=replace(LIMITS, close_seconds=0.2, ping_interval=600))
    desk = await rig.desk()
    await desk.hello()
    # Nothing of the end is noticed by the client's side: it neither answers nor hangs up.
    desk.socket.transport.pause_reading()
    await desk.socket.send("x" * 70_000)
    await until(lambda: rig.hub.connections == 0 and not rig.backend.online)


# --- the hub's room ---------------------------------------------------------------------------------------------------


async def test_a_full_hub_sends_away_without_asking_who_it_is_until_somebody_leaves(make_rig: MakeRig) -> None:
    rig = await make_rig(limits=replace(LIMITS, max_connections=2))
    first, _second = await rig.desk(), await rig.desk()
    await first.hello()
    await until(lambda: rig.hub.state.status is HubStatus.FULL)
    asked = rig.backend.authentications
    assert await (await rig.desk()).closed() == CloseCode.HUB_FULL
    assert rig.backend.authentications == asked
    await first.socket.close()
    await until(lambda: rig.hub.state.status is HubStatus.READY)
    assert (await (await rig.desk()).hello()).last


async def test_strangers_at_the_door_take_nobodys_place(make_rig: MakeRig) -> None:
    rig = await make_rig(limits=replace(LIMITS, max_connections=2))
    for _ in range(3):
        await rig.socket()
    await until(lambda: rig.hub.state.pending == 3)
    assert rig.hub.state.status is HubStatus.READY
    assert (await (await rig.desk()).hello()).last


async def test_of_those_who_are_looked_up_at_once_only_as_many_get_in_as_there_is_room_for(make_rig: MakeRig) -> None:
    rig = await make_rig(limits=replace(LIMITS, max_connections=2))
    rig.backend.door.clear()
    herd = [await rig.desk() for _ in range(6)]
    await until(lambda: rig.hub.state.pending == 6)
    rig.backend.door.set()
    for desk in herd:
        with suppress(ConnectionClosed):
            await desk.send(Hello(id="h"))
    await until(lambda: rig.hub.connections == 2 and rig.hub.state.pending == 0)
    ends = [desk for desk in herd if desk.client.client_id not in rig.backend.epochs]
    assert await asyncio.gather(*(desk.closed() for desk in ends)) == [CloseCode.HUB_FULL] * 4


async def test_too_many_sockets_that_have_not_authenticated_are_turned_away_at_once(make_rig: MakeRig) -> None:
    rig = await make_rig(limits=replace(LIMITS, max_pending=3))
    known = await rig.desk()
    await known.hello()
    loris = [await raw(rig) for _ in range(3)]
    # The greeting is told to the other hubs, in tasks that end.
    await until(lambda: rig.hub.state.pending == 3 and not folding())
    tasks = len(asyncio.all_tasks())
    reader, writer = await raw(rig)
    answer = await rest_of(reader)
    writer.close()
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nRetry-After: 5\r\n" in answer
    assert len(asyncio.all_tasks()) <= tasks
    # Who is connected does not notice.
    assert await rig.hint(known.client, rig.backend.queue(known.client))
    await known.next(TaskAvailable)
    for _, each in loris:
        each.transport.abort()
    await until(lambda: rig.hub.state.pending == 0)
    assert (await (await rig.desk()).hello()).last


async def test_a_client_that_is_turned_away_learns_when_to_come_again(make_rig: MakeRig) -> None:
    rig = await make_rig(limits=replace(LIMITS, max_pending=1))
    _reader, writer = await raw(rig)
    await until(lambda: rig.hub.state.pending == 1)
    with pytest.raises((InvalidStatus, ConnectionError, EOFError)) as refused:
        await rig.desk()
    if isinstance(refused.value, InvalidStatus):
        assert refused.value.response.status_code == 503
    writer.transport.abort()


async def test_who_asks_for_nothing_is_cut_off(make_rig: MakeRig) -> None:
    rig = await make_rig(limits=replace(LIMITS, handshake_seconds=0.2))
    silent, slow = await raw(rig), await raw(rig)
    slow[1].write(b"GET /api/desktop/ws HTTP/1.1\r\nHost: x\r\n")
    assert await rest_of(silent[0]) == await rest_of(slow[0]) == b""
    await until(lambda: rig.hub.state.pending == 0)
    for _, writer in (silent, slow):
        writer.close()


async def test_a_request_of_too_many_bytes_is_refused_before_it_ends(make_rig: MakeRig) -> None:
    rig = await make_rig(limits=replace(LIMITS, header_bytes=2048, handshake_seconds=600))
    reader, writer = await raw(rig)
    writer.write(b"GET /api/desktop/ws HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"x" * 100) for n in range(30)))
    answer = await rest_of(reader)
    writer.close()
    assert answer == b"" or answer.startswith(b"HTTP/1.1 431 ")
    await until(lambda: rig.hub.state.pending == 0)
    assert (await (await rig.desk()).hello()).last


async def test_a_herd_at_the_door_leaves_the_backend_to_those_who_are_connected(make_rig: MakeRig) -> None:
    rig = await make_rig(limits=replace(LIMITS, greetings_at_once=2))
    known = await rig.desk()
    await known.hello()
    rig.backend.door.clear()
    herd = [await rig.desk() for _ in range(12)]
    for desk in herd:
        await desk.send(Hello(id="h"))
    await until(lambda: rig.backend.authenticating == 2)
    # Grants, beats and reports do not queue behind them.
    assert await rig.hint(known.client, rig.backend.queue(known.client))
    await known.next(TaskAvailable)
    rig.backend.door.set()
    await until(lambda: rig.hub.connections == 13)
    assert rig.backend.most_authenticating == 2


async def test_who_has_left_before_its_turn_costs_no_query(make_rig: MakeRig) -> None:
    rig = await make_rig(limits=replace(LIMITS, greetings_at_once=1))
    rig.backend.door.clear()
    first = await rig.desk()
    await until(lambda: rig.backend.authenticating == 1)
    impatient = await rig.desk()
    await until(lambda: rig.hub.state.pending == 2)
    await impatient.socket.close()
    rig.backend.door.set()
    await first.hello()
    await until(lambda: rig.hub.state.pending == 0)
    assert rig.backend.authentications == 1


async def test_who_has_left_before_its_greeting_costs_none(make_rig: MakeRig) -> None:
    rig = await make_rig(limits=replace(LIMITS, greetings_at_once=1))
    impatient = await rig.desk()
    rig.backend.door.clear()
    first = await rig.desk()
    await until(lambda: rig.backend.authenticating == 1)
    await impatient.send(Hello(id="h"))
    await impatient.send(Heartbeat(id="b"))
    await impatient.next(ServerAck)
    await impatient.socket.close()
    rig.backend.door.set()
    await first.hello()
    assert impatient.client.client_id not in rig.backend.epochs


class Noting(MemoryBackend):
    """Keeps what it was asked."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.asked: list[str] = []

    async def authenticate(self, token: str) -> ClientIdentity | None:
        self.asked.append("authenticate")
        return await super().authenticate(token)

    async def connected(self, client: ClientIdentity, hello: Hello) -> int:
        self.asked.append("connected")
        return await super().connected(client, hello)

    async def snapshot(self, *arguments: Any) -> SnapshotContent:
        self.asked.append("snapshot")
        return await super().snapshot(*arguments)


class BoundAtOnce(DispatchQueue):
    """Nobody is pushed anything here."""

    async def bind(self, client_id: UUID) -> None:
        pass


async def test_who_is_through_the_door_has_its_snapshot_before_the_rest_of_the_herd_is_looked_up(
    make_rig: MakeRig,
) -> None:
    backend = Noting()
    rig = await make_rig(over=backend, limits=replace(LIMITS, greetings_at_once=1), queues=BoundAtOnce)
    greeted = await rig.desk()
    await until(lambda: rig.hub.state.pending == 0)
    backend.door.clear()
    herd = [await rig.desk() for _ in range(4)]
    await until(lambda: rig.hub.state.pending == 4 and backend.authenticating == 1)
    await greeted.send(Hello(id="h"))
    await greeted.send(Heartbeat(id="b"))
    await greeted.next(ServerAck)
    backend.door.set()
    await greeted.next(Snapshot)
    await asyncio.gather(*(desk.hello() for desk in herd))
    # Between the two it is bound, which needs no turn: one more gets in.
    assert backend.asked[:5] == ["authenticate", "authenticate", "connected", "authenticate", "snapshot"]


async def test_a_refused_token_leaves_nothing_behind(rig: Rig) -> None:
    tasks = len(asyncio.all_tasks())
    for _ in range(20):
        assert await close_code(await rig.socket("nobody's")) == CloseCode.UNAUTHENTICATED
    await until(lambda: rig.hub.state.pending == 0 and len(asyncio.all_tasks()) <= tasks + 1)
