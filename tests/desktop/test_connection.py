"""Connecting, being thrown off, and coming back (2-desktop §2.1)."""

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from desktop.backoff import Backoff
from desktop.config import Timings
from desktop.events import EventKind
from desktop.naps import NapWatch
from domain.lanes import Lane
from domain.phases import Phase
from domain.protocol import ClientAck, CloseCode, Heartbeat, Hello, Snapshot, Sync, decode_client_frame
from tests.desktop.frames import available, interrupt
from tests.desktop.hub import Hub
from tests.desktop.stepdriver import StepDriver

QUICK_BEATS = Timings(heartbeat=0.02, reconnect=Backoff(0.01, 0.05), resend=Backoff(0.02, 0.1))


async def test_after_a_restart_of_the_hub_the_desktop_comes_back_with_what_it_holds(
    hub: Hub, driver: StepDriver, open_desk: Any
) -> None:
    desk = await open_desk(max_concurrent=1)
    running, waiting = available(interrupt_generation=5), available()
    driver.hold(running.task_id, Phase.WAITING)
    await hub.push(running, waiting)
    await driver.inside(running.task_id, Phase.WAITING)
    await hub.until(lambda: len(hub.of(ClientAck)) == 2)
    await hub.sockets[-1].close(CloseCode.SERVICE_RESTART)
    await desk.connected(2)

    hello = hub.of(Hello)[-1]
    held = {one.attempt_id: (one.state, one.phase) for one in hello.held}
    assert held == {running.attempt_id: ("running", "WAITING"), waiting.attempt_id: ("queued", None)}
    assert hello.highest_generation == 5
    driver.let(running.task_id)
    await desk.record.seen(EventKind.FINISHED, waiting.task_id)
    assert driver.phases(running.task_id).count(Phase.WAITING) == 1


@pytest.mark.parametrize(
    "code",
    [
        CloseCode.SLOW_CONSUMER,
        CloseCode.TOO_MANY_FRAMES,
        CloseCode.HUB_FULL,
        CloseCode.SERVER_ERROR,
        CloseCode.SERVICE_RESTART,
        1011,
    ],
)
async def test_these_close_codes_reconnect(hub: Hub, open_desk: Any, code: int) -> None:
    desk = await open_desk()
    await hub.sockets[-1].close(code)
    await desk.connected(2)


async def test_a_connection_that_breaks_without_a_close_frame_is_made_again(hub: Hub, open_desk: Any) -> None:
    desk = await open_desk()
    hub.sockets[-1].transport.abort()
    await desk.connected(2)


@pytest.mark.parametrize("code", [CloseCode.REPLACED, CloseCode.REVOKED, CloseCode.PROTOCOL_VERSION])
async def test_these_close_codes_end_the_client_with_a_typed_error(hub: Hub, open_desk: Any, code: CloseCode) -> None:
    desk = await open_desk()
    await hub.sockets[-1].close(code, "go away")
    refused = await desk.refused()
    assert (refused.code, refused.reason) == (code, "go away")
    assert hub.connections == 1


async def test_a_wrong_token_is_not_tried_again(hub: Hub, open_desk: Any) -> None:
    desk = await open_desk(token="another", connected=False)
    assert (await desk.refused()).code == CloseCode.UNAUTHENTICATED
    assert hub.connections == 1


async def test_a_hub_that_does_not_answer_hello_is_left(hub: Hub, open_desk: Any) -> None:
    hub.answers_hello = False
    desk = await open_desk(connected=False, timings=Timings(snapshot=0.05, reconnect=Backoff(0.01, 0.02)))
    await hub.connected(2)
    hub.answers_hello = True
    await desk.connected()


async def test_a_hub_without_its_database_is_waited_for(hub: Hub, open_desk: Any) -> None:
    hub.late_snapshot = True
    desk = await open_desk(connected=False, timings=Timings(heartbeat=0.02, snapshot=0.2))
    await hub.until(lambda: len(hub.of(Heartbeat)) >= 20)  # twice the time in which hello must be answered
    common: dict[str, Any] = {"ref": None, "page": 0, "last": True, "connection_epoch": 1, "generation": 0}
    await hub.send(Snapshot(id="1", **common))
    await desk.connected()
    assert hub.connections == 1


async def test_the_snapshot_brings_tasks_and_orders_that_were_missed(
    hub: Hub, driver: StepDriver, open_desk: Any
) -> None:
    desk = await open_desk()
    normal, missed = available(), available(Lane.HIGH)
    driver.hold(normal.task_id, Phase.NAVIGATING)
    await hub.push(normal)
    await driver.inside(normal.task_id, Phase.NAVIGATING)
    hub.leases[missed.task_id] = type(hub.leases[normal.task_id])(missed)
    hub.controls.append(interrupt(normal.task_id, 3))
    await desk.client.sync()
    await desk.record.seen(EventKind.FINISHED, missed.task_id)
    driver.let(normal.task_id)
    await desk.record.seen(EventKind.GAVE_WAY, normal.task_id)


async def test_a_task_pushed_and_in_the_snapshot_runs_once(hub: Hub, driver: StepDriver, open_desk: Any) -> None:
    desk = await open_desk()
    task = available()
    await hub.push(task)
    await hub.send(task)
    await desk.record.seen(EventKind.FINISHED, task.task_id)
    await hub.send(task)
    await desk.client.sync()
    other = available()
    await hub.push(other)
    await desk.record.seen(EventKind.FINISHED, other.task_id)
    assert len(hub.called("start", task.task_id)) == 1


async def test_a_fresh_lease_of_a_waiting_task_replaces_the_old_one(
    hub: Hub, driver: StepDriver, open_desk: Any
) -> None:
    desk = await open_desk(max_concurrent=1)
    busy, old = available(), available()
    driver.hold(busy.task_id, Phase.WAITING)
    await hub.push(busy)
    await driver.inside(busy.task_id, Phase.WAITING)
    fresh = available(task_id=old.task_id, attempt=2)
    await hub.push(old, fresh)
    await desk.record.seen(EventKind.FRAME_RECEIVED, old.task_id, count=2)
    driver.let(busy.task_id)
    await desk.record.seen(EventKind.FINISHED, old.task_id)
    assert [call.body["lease_token"] for call in hub.called("start", old.task_id)] == [fresh.lease_token]


async def test_an_attempt_the_server_no_longer_knows_is_stopped_at_once(
    hub: Hub, driver: StepDriver, open_desk: Any
) -> None:
    desk = await open_desk()
    task = available()
    driver.hold(task.task_id, Phase.WAITING)
    await hub.push(task)
    await driver.inside(task.task_id, Phase.WAITING)
    hub.leases[task.task_id].valid = False
    await desk.client.sync()
    await driver.stopped(task.task_id)
    assert driver.phases(task.task_id, "cancelled") == [Phase.WAITING]
    assert (await desk.record.seen(EventKind.DROPPED, task.task_id)).detail == "lease_lost"
    assert hub.called("result") == []


async def test_heartbeats_name_what_runs_with_its_phase_and_what_waits(
    hub: Hub, driver: StepDriver, open_desk: Any
) -> None:
    await open_desk(max_concurrent=1, timings=QUICK_BEATS)
    running, waiting = available(), available()
    driver.hold(running.task_id, Phase.INPUTTING)
    await hub.push(running, waiting)
    await driver.inside(running.task_id, Phase.INPUTTING)

    def told() -> bool:
        beat = hub.of(Heartbeat)[-1] if hub.of(Heartbeat) else Heartbeat(id="")
        running_now = [(held.attempt_id, held.phase, held.state) for held in beat.running]
        return running_now == [(running.attempt_id, "INPUTTING", "running")] and [
            held.attempt_id for held in beat.queued
        ] == [waiting.attempt_id]

    await hub.until(told)
    assert hub.of(Heartbeat)[-1].platform_sessions == {"deepseek": "healthy"}


async def test_a_lease_that_heartbeats_do_not_extend_is_extended_by_rest(
    hub: Hub, driver: StepDriver, open_desk: Any
) -> None:
    hub.acks_heartbeats = False
    await open_desk(timings=Timings(lease=0.3))
    task = available()
    driver.hold(task.task_id, Phase.WAITING)
    await hub.push(task)
    await hub.until(lambda: len(hub.called("extend", task.task_id)) >= 2)
    assert hub.called("extend")[0].body["lease_token"] == task.lease_token


async def test_a_lease_found_lost_by_extend_stops_the_execution(hub: Hub, driver: StepDriver, open_desk: Any) -> None:
    hub.acks_heartbeats = False
    desk = await open_desk(timings=Timings(lease=0.3))
    task = available()
    driver.hold(task.task_id, Phase.WAITING)
    await hub.push(task)
    await driver.inside(task.task_id, Phase.WAITING)
    hub.leases[task.task_id].valid = False
    assert (await desk.record.seen(EventKind.DROPPED, task.task_id)).detail == "lease_lost"
    assert driver.phases(task.task_id, "cancelled") == [Phase.WAITING]


async def test_an_idle_desktop_asks_for_a_snapshot_now_and_then(hub: Hub, open_desk: Any) -> None:
    await open_desk(timings=Timings(heartbeat=0.02, idle_sync=0.02))
    await hub.until(lambda: len(hub.of(Sync)) >= 2)


async def test_a_frame_of_unknown_kind_is_ignored(hub: Hub, open_desk: Any) -> None:
    desk = await open_desk()
    await hub.sockets[-1].send('{"type":"proxy_request","id":"1"}')
    await hub.sockets[-1].send("[1,")
    task = available()
    await hub.push(task)
    await desk.record.seen(EventKind.FINISHED, task.task_id)
    assert hub.connections == 1


async def test_the_highest_generation_survives_a_restart(hub: Hub, open_desk: Any) -> None:
    desk = await open_desk()
    await hub.send(interrupt(available().task_id, 41))
    await desk.record.seen(EventKind.ACKED_UNHELD)
    await desk.kill()
    await open_desk()
    assert hub.of(Hello)[-1].highest_generation == 41


async def test_the_first_heartbeat_comes_with_the_snapshot_and_names_what_it_brought(
    hub: Hub, driver: StepDriver, open_desk: Any
) -> None:
    desk = await open_desk(max_concurrent=1, timings=Timings(heartbeat=3600.0, reconnect=Backoff(0.01, 0.05)))
    running, missed = available(), available()
    driver.hold(running.task_id, Phase.WAITING)
    await hub.push(running)
    await driver.inside(running.task_id, Phase.WAITING)
    hub.leases[missed.task_id] = type(hub.leases[running.task_id])(missed)
    before = len(hub.of(Heartbeat))
    hub.sockets[-1].transport.abort()
    await desk.connected(2)
    await hub.until(lambda: len(hub.of(Heartbeat)) > before)
    beat = hub.of(Heartbeat)[-1]
    assert [held.attempt_id for held in beat.running] == [running.attempt_id]
    assert [held.attempt_id for held in beat.queued] == [missed.attempt_id]


async def test_a_desktop_that_slept_connects_again_though_its_socket_looks_healthy(
    hub: Hub, open_desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SleepyClock()
    monkeypatch.setattr("desktop.session.NapWatch", lambda: NapWatch(wall=clock, steady=lambda: 0.0))
    desk = await open_desk(timings=Timings(heartbeat=0.02, reconnect=Backoff(0.01, 0.05)))
    beats = len(hub.of(Heartbeat))
    await hub.until(lambda: len(hub.of(Heartbeat)) > beats + 2)
    assert hub.connections == 1
    clock.now += 3600.0
    await desk.connected(2)
    again = len(hub.of(Heartbeat))
    await hub.until(lambda: len(hub.of(Heartbeat)) > again + 2)
    assert hub.connections == 2


class SleepyClock:
    """A wall clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class LongestWaits(Random):
    """Chance that always takes the upper end."""

    def uniform(self, a: float, b: float) -> float:
        return max(a, b)


async def test_connections_that_end_right_after_opening_make_the_waits_longer(hub: Hub, open_desk: Any) -> None:
    desk = await open_desk(timings=Timings(reconnect=Backoff(0.01, 1.0)), rng=LongestWaits())
    for number in (2, 3, 4):
        await hub.sockets[-1].close(CloseCode.SERVICE_RESTART)
        await desk.connected(number)
    waits = [event.interval_ms for event in desk.record.of(EventKind.RECONNECTING)]
    assert waits == [10.0, 20.0, 40.0]


async def test_after_a_connection_that_held_the_next_wait_is_the_first_one_again(hub: Hub, open_desk: Any) -> None:
    desk = await open_desk(timings=Timings(reconnect=Backoff(0.01, 1.0), settled=0.0), rng=LongestWaits())
    for number in (2, 3, 4):
        await hub.sockets[-1].close(CloseCode.SERVICE_RESTART)
        await desk.connected(number)
    waits = [event.interval_ms for event in desk.record.of(EventKind.RECONNECTING)]
    assert waits == [10.0, 10.0, 10.0]


async def test_a_handshake_answered_with_503_waits_as_long_as_it_asks(open_desk: Any) -> None:
    def refuse(_connection: ServerConnection, _request: Request) -> Response:
        return Response(503, "Service Unavailable", Headers({"Retry-After": "7", "Content-Length": "0"}))

    async def unreachable(_socket: ServerConnection) -> None:
        raise AssertionError("no handshake succeeds")

    async with serve(unreachable, "127.0.0.1", 0, process_request=refuse) as server:
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        desk = await open_desk(connected=False, ws_url=url)
        waits = await desk.record.seen(EventKind.RECONNECTING)
        await desk.kill()
    assert waits.detail == "503"
    assert 7_000 <= waits.interval_ms <= 7_100


async def test_hello_names_the_version_that_the_hub_chose_among_all_that_were_offered(
    open_desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("domain.protocol.SUPPORTED", ("giveway.v3", "giveway.v2", "giveway.v1"))
    greeted: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()

    async def greet(socket: ServerConnection) -> None:
        assert socket.request is not None
        hello = decode_client_frame(await socket.recv())
        assert isinstance(hello, Hello)
        greeted.set_result((socket.request.headers["Sec-WebSocket-Protocol"], hello.protocol))
        await socket.wait_closed()

    async with serve(greet, "127.0.0.1", 0, subprotocols=[Subprotocol("giveway.v2")], close_timeout=1) as server:
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        desk = await open_desk(connected=False, ws_url=url)
        async with asyncio.timeout(20):
            offered, named = await greeted
        await desk.kill()
    assert (offered, named) == ("giveway.v3, giveway.v2, giveway.v1", "giveway.v2")


class ForgetfulDriver(StepDriver):
    """Cannot say how its logins are: once, when a heartbeat asks."""

    asked = 0

    def sessions(self) -> Mapping[str, str]:
        self.asked += 1
        if self.asked == 3:
            raise KeyError("a page that is gone")
        return super().sessions()


async def test_a_desktop_that_cannot_beat_connects_again_rather_than_fall_silent(hub: Hub, open_desk: Any) -> None:
    desk = await open_desk(driver=ForgetfulDriver(), timings=QUICK_BEATS)
    await desk.connected(2)
    beats = len(hub.of(Heartbeat))
    await hub.until(lambda: len(hub.of(Heartbeat)) > beats + 2)
