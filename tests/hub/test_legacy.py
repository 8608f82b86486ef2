"""The hub announces legacy offers and passes orders about legacy tasks on; it leases none of them (2-desktop §2.2)."""

from domain.protocol import Heartbeat, ServerAck, Sync, TaskAvailable, TaskControl
from domain.transport import ControlHint, TaskHint
from tests.desktop.frames import available
from tests.hub.conftest import Rig
from tests.support.broker import until


async def test_a_hint_about_a_legacy_task_becomes_an_offer_that_nobody_holds(rig: Rig) -> None:
    desk = await rig.desk()
    await desk.hello()
    bare = {"owner": "legacy", "attempt": 0, "attempt_id": "", "lease_token": ""}
    rig.backend.offers[7] = available(task_id="l-7", **bare)
    client_id = str(desk.client.client_id)
    assert await rig.publish(TaskHint(task_id="l-7", client_id=client_id))
    frame = await desk.next(TaskAvailable)
    assert (frame.task_id, frame.owner, frame.is_offer) == ("l-7", "legacy", True)
    pushed = rig.backend.queue(desk.client)
    await rig.hint(desk.client, pushed)
    await desk.next(TaskAvailable)
    await until(lambda: rig.backend.reported == [pushed])
    await desk.send(Sync(id="s", held=[]))
    await until(lambda: len(rig.backend.snapshots) == 2)
    assert rig.backend.snapshots[-1][1] == [], "an offer is nothing that the hub lists as held"


async def test_an_order_about_a_legacy_task_is_passed_on(rig: Rig) -> None:
    desk = await rig.desk()
    await desk.hello()
    order = ControlHint(client_id=str(desk.client.client_id), task_id="l-7", control="interrupt_requested")
    await rig.publish(order)
    assert (await desk.next(TaskControl)).task_id == "l-7"


async def test_a_hint_with_an_id_that_can_be_nobodys_stops_nothing(rig: Rig) -> None:
    desk = await rig.desk()
    await desk.hello()
    for text in ("l-x", "7", ""):
        await rig.publish(TaskHint(task_id=text, client_id=str(desk.client.client_id)))
    await desk.send(Heartbeat(id="b"))
    await desk.next(ServerAck)
    task_id = rig.backend.queue(desk.client)
    await rig.hint(desk.client, task_id)
    assert (await desk.next(TaskAvailable)).task_id == str(task_id)
