"""A hint becomes a leased frame on the client's socket; what is lost on the way comes with a snapshot."""

import asyncio
from uuid import UUID, uuid4

import pytest

from domain.errors import DatabaseUnavailable
from domain.protocol import (
    ErrorFrame,
    Heartbeat,
    HeldAttempt,
    Hello,
    ServerAck,
    Snapshot,
    Sync,
    TaskAvailable,
    TaskControl,
)
from hub.session import Session
from tests.hub.conftest import Rig
from tests.hub.memory_backend import an_interrupt
from tests.support.broker import until


async def test_a_hint_becomes_one_leased_frame_and_is_reported_as_pushed(rig: Rig) -> None:
    desk = await rig.desk()
    await desk.hello()
    task_id = rig.backend.queue(desk.client)
    assert await rig.hint(desk.client, task_id)
    frame = await desk.next(TaskAvailable)
    assert (frame.task_id, frame.target_client_id) == (str(task_id), str(desk.client.client_id))
    await until(lambda: rig.backend.reported == [task_id])
    await rig.hint(desk.client, task_id)
    await until(lambda: len(rig.backend.grants) == 2)
    await desk.send(Heartbeat(id="b1"))
    await desk.next(ServerAck)
    assert [type(frame) for frame in desk.seen].count(TaskAvailable) == 1


async def test_hints_that_come_during_a_grant_are_fetched_together_by_the_next(rig: Rig) -> None:
    desk = await rig.desk()
    await desk.hello()
    tasks = [rig.backend.queue(desk.client) for _ in range(30)]
    rig.backend.gate.clear()
    for task_id in tasks:
        await rig.hint(desk.client, task_id)
        await rig.hint(desk.client, task_id)
    await rig.order(desk.client, tasks[0], 1)
    # Orders do not wait for grants, so the order proves that all hints before it have arrived.
    await desk.next(TaskControl)
    rig.backend.gate.set()
    got = [(await desk.next(TaskAvailable)).task_id for _ in tasks]
    assert got == [str(task_id) for task_id in tasks]
    assert len(rig.backend.grants) == 2
    await until(lambda: sorted(rig.backend.reported) == sorted(tasks))


async def test_hints_of_many_clients_that_come_during_grants_go_together_into_the_next(rig: Rig) -> None:
    desks = [await rig.desk() for _ in range(10)]
    for desk in desks:
        await desk.hello()
    rig.backend.gate.clear()
    for desk in desks:
        await rig.hint(desk.client, rig.backend.queue(desk.client))
        # Orders do not wait for grants: what was published before this one has arrived.
        await rig.order(desk.client, uuid4(), 1)
        await desk.next(TaskControl)
    rig.backend.gate.set()
    for desk in desks:
        assert (await desk.next(TaskAvailable)).target_client_id == str(desk.client.client_id)
    # One, then one beside it that took what had come by then, then the rest.
    assert len(rig.backend.grants) <= 3
    assert sum(map(len, rig.backend.grants)) == 10


async def test_a_task_that_somebody_else_holds_is_asked_for_again(rig: Rig) -> None:
    desk = await rig.desk()
    await desk.hello()
    rig.backend.busy[desk.client.client_id] = 2
    task_id = rig.backend.queue(desk.client)
    await rig.hint(desk.client, task_id)
    assert (await desk.next(TaskAvailable)).task_id == str(task_id)
    assert rig.backend.grants == [[task_id]] * 3
    assert len(rig.backend.snapshots) == 1


async def test_a_grant_that_fails_costs_the_other_clients_in_it_a_snapshot_and_no_task(rig: Rig) -> None:
    desks = [await rig.desk() for _ in range(4)]
    for desk in desks:
        await desk.hello()
    rig.backend.gate.clear()
    tasks = [rig.backend.queue(desk.client) for desk in desks]
    for desk, task_id in zip(desks, tasks, strict=True):
        await rig.hint(desk.client, task_id)
        await rig.order(desk.client, uuid4(), 1)
        await desk.next(TaskControl)
    rig.backend.lost_grants = 3
    rig.backend.gate.set()
    for desk, task_id in zip(desks, tasks, strict=True):
        assert [frame.task_id for frame in (await desk.next(Snapshot)).available] == [str(task_id)]


async def test_one_clients_slow_grant_delays_no_other_client(rig: Rig) -> None:
    slow, quick = await rig.desk(), await rig.desk()
    await slow.hello()
    await quick.hello()
    rig.backend.gate.clear()
    await rig.hint(slow.client, rig.backend.queue(slow.client))
    await rig.order(quick.client, uuid4(), 1)
    await quick.next(TaskControl)
    rig.backend.gate.set()
    await slow.next(TaskAvailable)


async def test_an_order_is_passed_on_as_it_is(rig: Rig) -> None:
    desk = await rig.desk()
    await desk.hello()
    task_id = uuid4()
    await rig.order(desk.client, task_id, 12)
    order = await desk.next(TaskControl)
    assert (order.task_id, order.control, order.interrupt_generation) == (str(task_id), "interrupt_requested", 12)


async def test_a_malformed_message_stops_nothing(rig: Rig) -> None:
    desk = await rig.desk()
    await desk.hello()
    await rig.publisher.publish("desktop.task.dispatch", f"x.{desk.client.client_id}", b"{nonsense")
    body = b'{"type":"task_available","client_id":"%s","task_id":"?"}' % str(desk.client.client_id).encode()
    await rig.publisher.publish("desktop.task.dispatch", f"x.{desk.client.client_id}", body)
    await rig.order(desk.client, uuid4(), 1)
    assert (await desk.next(TaskControl)).interrupt_generation == 1


async def test_a_push_that_fails_for_one_client_stops_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = await rig.desk()
    await desk.hello()

    def fails(session: Session, _control: TaskControl) -> None:
        monkeypatch.undo()
        raise LookupError("a mistake of ours")

    monkeypatch.setattr(Session, "order", fails)
    await rig.order(desk.client, uuid4(), 1)
    await rig.order(desk.client, uuid4(), 2)
    assert (await desk.next(TaskControl)).interrupt_generation == 2


async def test_the_snapshot_brings_tasks_orders_and_verdicts(rig: Rig) -> None:
    desk = await rig.desk()
    task_id = rig.backend.queue(desk.client)
    order = an_interrupt(desk.client, uuid4(), 5)
    rig.backend.controls[desk.client.client_id] = [order]
    stranger = HeldAttempt(task_id=str(uuid4()), attempt_id=str(uuid4()))
    snapshot = await desk.hello(stranger, generation=5)
    assert [item.task_id for item in snapshot.available] == [str(task_id)]
    assert [item.id for item in snapshot.controls] == [order.id]
    assert [(item.task_id, item.valid) for item in snapshot.held] == [(stranger.task_id, False)]
    assert snapshot.generation == 5
    await until(lambda: rig.backend.reported == [task_id])


async def test_a_long_snapshot_comes_in_pages_that_fit_a_frame(rig: Rig) -> None:
    desk = await rig.desk()
    long = "茶" * 10_000
    tasks = [str(rig.backend.queue(desk.client, long if number % 40 == 0 else "short?")) for number in range(320)]
    await desk.send(Hello(id="h1"))
    pages = [await desk.next(Snapshot)]
    while not pages[-1].last:
        pages.append(await desk.next(Snapshot))
    assert [page.page for page in pages] == list(range(len(pages)))
    assert {page.ref for page in pages} == {"h1"}
    assert max(len(page.available) for page in pages) <= 50
    assert [item.task_id for page in pages for item in page.available] == tasks


async def test_a_snapshot_longer_than_the_queue_does_not_overflow_it(rig: Rig) -> None:
    desk = await rig.desk()
    for _ in range(300):
        rig.backend.queue(desk.client, "x" * 40_000)
    await desk.send(Hello(id="h1"))
    pages = [await desk.next(Snapshot)]
    while not pages[-1].last:
        pages.append(await desk.next(Snapshot))
    assert len(pages) == 300


async def test_a_database_that_is_away_costs_an_error_frame_and_the_snapshot_follows(rig: Rig) -> None:
    desk = await rig.desk()
    rig.backend.failure = DatabaseUnavailable("away")
    await desk.send(Hello(id="h1"))
    error = await desk.next(ErrorFrame)
    assert (error.ref, error.code) == ("h1", "database_unavailable")
    rig.backend.failure = None
    assert (await desk.next(Snapshot)).connection_epoch == 1
    rig.backend.failure = DatabaseUnavailable("away")
    await desk.send(Sync(id="s1"))
    assert (await desk.next(ErrorFrame)).ref == "s1"
    rig.backend.failure = None
    assert (await desk.next(Snapshot)).ref is None


async def test_a_grant_that_fails_is_tried_again(rig: Rig) -> None:
    desk = await rig.desk()
    await desk.hello()
    rig.backend.failure = ConnectionError("gone")
    task_id = rig.backend.queue(desk.client)
    await rig.hint(desk.client, task_id)
    await rig.order(desk.client, uuid4(), 1)
    await desk.next(TaskControl)
    rig.backend.failure = None
    assert [frame.task_id for frame in (await desk.next(Snapshot)).available] == [str(task_id)]
    await until(lambda: rig.backend.reported == [task_id])


async def test_a_grant_that_commits_and_reports_a_timeout_reaches_the_client_at_once(rig: Rig) -> None:
    desk = await rig.desk()
    await desk.hello()
    rig.backend.lost_grants = 1
    task_id = rig.backend.queue(desk.client)
    await rig.hint(desk.client, task_id)
    [frame] = (await desk.next(Snapshot)).available
    assert (frame.task_id, frame.attempt) == (str(task_id), 2)
    await until(lambda: rig.backend.reported == [task_id])


async def test_a_heartbeat_that_lists_a_lease_taken_away_is_answered_with_a_snapshot_once(rig: Rig) -> None:
    desk = await rig.desk()
    await desk.hello()
    leases = []
    for _ in range(2):
        task_id = rig.backend.queue(desk.client)
        await rig.hint(desk.client, task_id)
        leases.append(await desk.next(TaskAvailable))
    held = [HeldAttempt(task_id=lease.task_id, attempt_id=lease.attempt_id, phase="WAITING") for lease in leases]
    rig.backend.revoke(UUID(held[0].task_id))
    await desk.send(Heartbeat(id="b1", running=held))
    snapshot = await desk.next(Snapshot)
    assert [(item.attempt_id, item.valid) for item in snapshot.held] == [
        (held[0].attempt_id, False),
        (held[1].attempt_id, True),
    ]
    # It still stops: told is told.
    await desk.send(Heartbeat(id="b2", running=held))
    await until(lambda: any(beat.heartbeat.id == "b2" for batch in rig.backend.beats for beat in batch))
    rig.backend.revoke(UUID(held[1].task_id))
    await desk.send(Heartbeat(id="b3", running=held))
    await desk.next(Snapshot)
    assert [beat.heartbeat.id for batch in rig.backend.beats for beat in batch] == ["b1", "b2", "b3"]
    assert len(rig.backend.snapshots) == 3


async def test_heartbeats_of_many_clients_are_folded_the_newest_of_each(rig: Rig) -> None:
    desks = [await rig.desk() for _ in range(5)]
    for desk in desks:
        await desk.hello()
    for number in range(3):
        await asyncio.gather(*(desk.send(Heartbeat(id=f"b{number}")) for desk in desks))
    await until(lambda: {beat.client_id for batch in rig.backend.beats for beat in batch} == set(rig.backend.online))
    for desk in desks:
        await desk.send(Heartbeat(id="last"))
    last = {desk.client.client_id for desk in desks}
    await until(lambda: last <= {b.client_id for batch in rig.backend.beats for b in batch if b.heartbeat.id == "last"})
    assert len(rig.backend.beats) < 20
    assert all(beat.epoch == 1 for batch in rig.backend.beats for beat in batch)


async def test_one_clients_poisonous_heartbeat_does_not_cost_the_others_theirs(rig: Rig) -> None:
    poisonous, healthy = await rig.desk(), await rig.desk()
    await poisonous.hello()
    await healthy.hello()
    rig.backend.poison = poisonous.client.client_id
    await poisonous.send(Heartbeat(id="b1"))
    await healthy.send(Heartbeat(id="b1"))
    await until(lambda: any(b.client_id == healthy.client.client_id for batch in rig.backend.beats for b in batch))
