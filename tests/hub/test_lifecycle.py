"""One connection a client, slow ones closed, restarts announced, and nothing lost with the broker."""

import asyncio
from dataclasses import replace
from uuid import uuid4

import pytest

from broker.connection import BrokerConnection
from domain.protocol import CloseCode, Heartbeat, HeldAttempt, ServerAck, Snapshot, TaskAvailable, TaskControl
from domain.transport import ClientClosed
from tests.hub.conftest import LIMITS, MakeRig, Rig
from tests.support.broker import until
from tests.support.tcp_proxy import TcpProxy


async def test_a_newer_connection_replaces_the_older_and_the_client_stays_online(rig: Rig) -> None:
    known = rig.backend.register()
    older = await rig.desk(known)
    await older.hello()
    newer = await rig.desk(known)
    assert (await newer.hello()).connection_epoch == 2
    assert await older.closed() == CloseCode.REPLACED
    task_id = rig.backend.queue(newer.client)
    assert await rig.hint(newer.client, task_id)
    assert (await newer.next(TaskAvailable)).task_id == str(task_id)
    assert rig.backend.online == {newer.client.client_id}
    assert rig.hub.connections == 1


async def test_a_newer_connection_at_another_hub_replaces_the_older(make_rig: MakeRig) -> None:
    here, there = await make_rig(), await make_rig()
    known = here.backend.register()
    older = await here.desk(known)
    await older.hello()
    newer = await there.desk(known)
    await newer.hello()
    assert await older.closed() == CloseCode.REPLACED
    await until(lambda: here.hub.connections == 0)
    assert there.hub.connections == 1
    assert here.backend.online == {newer.client.client_id}
    assert await there.hint(newer.client, there.backend.queue(newer.client))
    await newer.next(TaskAvailable)


async def test_a_revoked_client_is_closed_whatever_its_epoch(rig: Rig) -> None:
    desk = await rig.desk()
    await desk.hello()
    await rig.publish(ClientClosed(client_id=str(desk.client.client_id), code=CloseCode.REVOKED))
    assert await desk.closed() == CloseCode.REVOKED
    await until(lambda: not rig.backend.online)


async def test_a_client_that_leaves_is_offline_and_no_longer_bound(rig: Rig) -> None:
    desk = await rig.desk()
    await desk.hello()
    await desk.socket.close()
    await until(lambda: not rig.backend.online and rig.hub.connections == 0)
    assert not await rig.hint(desk.client, uuid4())


async def test_a_client_that_stops_reading_is_closed_as_slow_and_its_neighbour_notices_nothing(rig: Rig) -> None:
    slow, neighbour = await rig.desk(max_queue=1), await rig.desk()
    await slow.hello()
    await neighbour.hello()
    big = "茶" * 20_000
    while rig.hub.connections == 2:
        for _ in range(50):
            await rig.hint(slow.client, rig.backend.queue(slow.client, big))
        await rig.order(neighbour.client, uuid4(), 1)
        await neighbour.next(TaskControl)
    await until(lambda: rig.backend.online == {neighbour.client.client_id})
    assert await slow.closed() in (CloseCode.SLOW_CONSUMER, 1006)


async def test_a_slow_client_that_reads_again_in_time_sees_the_code(
    make_rig: MakeRig, caplog: pytest.LogCaptureFixture
) -> None:
    rig = await make_rig(limits=replace(LIMITS, close_seconds=20.0))
    desk = await rig.desk(max_queue=1)
    await desk.hello()
    while "does not read" not in caplog.text:
        for _ in range(20):
            await rig.hint(desk.client, rig.backend.queue(desk.client, "茶" * 20_000))
    assert await desk.closed() == CloseCode.SLOW_CONSUMER


async def test_a_stop_closes_with_service_restart_and_hands_over_what_is_folded(rig: Rig) -> None:
    desk = await rig.desk()
    await desk.hello()
    await desk.send(Heartbeat(id="b1"))
    await desk.next(ServerAck)
    ending = asyncio.create_task(rig.hub.stop())
    assert await desk.closed() == CloseCode.SERVICE_RESTART
    await ending
    assert [beat.heartbeat.id for batch in rig.backend.beats for beat in batch] == ["b1"]
    assert rig.hub.connections == 0


async def test_a_lost_broker_is_followed_by_a_snapshot_with_what_the_client_holds(
    make_rig: MakeRig, proxied: BrokerConnection, proxy: TcpProxy
) -> None:
    rig = await make_rig(proxied)
    desk = await rig.desk()
    await desk.hello()
    first = rig.backend.queue(desk.client)
    await rig.hint(desk.client, first)
    held = await desk.next(TaskAvailable)
    proxy.refusing = True
    proxy.cut()
    missed = rig.backend.queue(desk.client)
    assert not await settled_hint(rig, desk.client, missed)
    proxy.refusing = False
    snapshot = await desk.next(Snapshot)
    assert snapshot.ref is None
    assert [item.task_id for item in snapshot.available] == [str(missed)]
    assert rig.backend.snapshots[-1][1] == [
        HeldAttempt(task_id=held.task_id, attempt_id=held.attempt_id, state="queued")
    ]
    last = rig.backend.queue(desk.client)
    assert await rig.hint(desk.client, last)
    assert (await desk.next(TaskAvailable)).task_id == str(last)


async def settled_hint(rig: Rig, client: object, task_id: object) -> bool:
    """Publish until the broker has dropped the hub's old queue, which takes it a moment to notice."""
    async with asyncio.timeout(20):
        while await rig.hint(client, task_id):  # type: ignore[arg-type]
            await asyncio.sleep(0.01)
    return False


async def test_a_client_that_comes_while_the_broker_is_away_is_served_from_its_snapshot(
    make_rig: MakeRig, proxied: BrokerConnection, proxy: TcpProxy
) -> None:
    rig = await make_rig(proxied)
    proxy.refusing = True
    proxy.cut()
    await until(lambda: not rig.queue.ready.is_set())
    desk = await rig.desk()
    task_id = rig.backend.queue(desk.client)
    assert [item.task_id for item in (await desk.hello()).available] == [str(task_id)]
    proxy.refusing = False
    assert (await desk.next(Snapshot)).ref is None
    assert await rig.hint(desk.client, rig.backend.queue(desk.client))
    await desk.next(TaskAvailable)
