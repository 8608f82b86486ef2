"""What every `HubBackend` does, as the hub relies on it. Subclass it and give the fixture `world`."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID, uuid4

from domain.hub_port import ClientIdentity, HeartbeatRecord, HubBackend
from domain.protocol import Heartbeat, HeldAttempt, Hello


@dataclass(frozen=True, slots=True)
class BackendWorld:
    """A backend with one registered client; `queue_task` makes a task that waits for that client's lease."""

    backend: HubBackend
    token: str
    queue_task: Callable[[], Awaitable[UUID]]


def a_hello() -> Hello:
    return Hello(id="h1")


async def identify(world: BackendWorld) -> ClientIdentity:
    client = await world.backend.authenticate(world.token)
    assert client is not None
    return client


class BackendContract:
    """The suite."""

    async def test_an_unknown_token_is_nobody(self, world: BackendWorld) -> None:
        assert await world.backend.authenticate("device-token-of-nobody") is None

    async def test_a_token_always_means_the_same_client(self, world: BackendWorld) -> None:
        assert await identify(world) == await identify(world)

    async def test_epochs_grow(self, world: BackendWorld) -> None:
        client = await identify(world)
        epochs = [await world.backend.connected(client, a_hello()) for _ in range(3)]
        assert epochs == sorted(set(epochs))
        assert epochs[0] > 0

    async def test_a_waiting_task_is_granted_once(self, world: BackendWorld) -> None:
        client = await identify(world)
        epoch = await world.backend.connected(client, a_hello())
        task_id = await world.queue_task()
        (lease,) = await world.backend.grant(client, epoch, [task_id])
        assert (lease.task_id, lease.target_client_id) == (str(task_id), str(client.client_id))
        assert lease.lease_token
        assert await world.backend.grant(client, epoch, [task_id]) == []

    async def test_an_unknown_task_is_left_out(self, world: BackendWorld) -> None:
        client = await identify(world)
        epoch = await world.backend.connected(client, a_hello())
        assert await world.backend.grant(client, epoch, [uuid4()]) == []

    async def test_a_connection_that_was_replaced_is_granted_nothing(self, world: BackendWorld) -> None:
        client = await identify(world)
        older = await world.backend.connected(client, a_hello())
        await world.backend.connected(client, a_hello())
        assert await world.backend.grant(client, older, [await world.queue_task()]) == []

    async def test_a_snapshot_leases_what_the_client_does_not_hold_and_keeps_what_it_holds(
        self, world: BackendWorld
    ) -> None:
        client = await identify(world)
        epoch = await world.backend.connected(client, a_hello())
        held_id, other_id = await world.queue_task(), await world.queue_task()
        (lease,) = await world.backend.grant(client, epoch, [held_id])
        held = HeldAttempt(task_id=lease.task_id, attempt_id=lease.attempt_id, state="queued")
        content = await world.backend.snapshot(client, epoch, [held], 0)
        assert [item.task_id for item in content.available] == [str(other_id)]
        assert [(item.task_id, item.valid) for item in content.held] == [(lease.task_id, True)]

    async def test_a_beat_that_lists_an_attempt_which_the_server_ended_is_told_so(self, world: BackendWorld) -> None:
        client = await identify(world)
        epoch = await world.backend.connected(client, a_hello())
        (former,) = await world.backend.grant(client, epoch, [await world.queue_task()])
        (current,) = (await world.backend.snapshot(client, epoch, [], 0)).available
        held = [HeldAttempt(task_id=frame.task_id, attempt_id=frame.attempt_id) for frame in (former, current)]
        beat = HeartbeatRecord(client.client_id, epoch, Heartbeat(id="b1", queued=held))
        assert await world.backend.heartbeats([beat]) == {client.client_id: {UUID(former.attempt_id)}}

    async def test_an_attempt_that_nobody_granted_is_invalid(self, world: BackendWorld) -> None:
        client = await identify(world)
        epoch = await world.backend.connected(client, a_hello())
        held = HeldAttempt(task_id=str(uuid4()), attempt_id=str(uuid4()))
        content = await world.backend.snapshot(client, epoch, [held], 0)
        assert [item.valid for item in content.held] == [False]

    async def test_reports_may_be_repeated_and_come_late(self, world: BackendWorld) -> None:
        client = await identify(world)
        epoch = await world.backend.connected(client, a_hello())
        task_id = await world.queue_task()
        await world.backend.grant(client, epoch, [task_id])
        await world.backend.pushed([task_id, uuid4()])
        await world.backend.pushed([task_id])
        await world.backend.heartbeats([HeartbeatRecord(client.client_id, epoch, Heartbeat(id="b1"))])
        await world.backend.disconnected(client.client_id, epoch)
        await world.backend.disconnected(client.client_id, epoch)
        await world.backend.heartbeats([HeartbeatRecord(client.client_id, epoch, Heartbeat(id="b2"))])
