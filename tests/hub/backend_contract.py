"""What every `HubBackend` does, as the hub relies on it. Subclass it and give the fixture `world`."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID, uuid4

from domain.hub_port import ClientIdentity, ConnectionEnd, GrantRequest, HeartbeatRecord, HubBackend
from domain.protocol import Heartbeat, HeldAttempt, Hello
from domain.proxying import AnswerOutcome, ProxyAnswer
from tests.support.granting import grant


@dataclass(frozen=True, slots=True)
class BackendWorld:
    """A backend with two registered clients; `queue_task` and `queue_other` make a task that waits for one's lease."""

    backend: HubBackend
    token: str
    queue_task: Callable[[], Awaitable[UUID]]
    other_token: str
    queue_other: Callable[[], Awaitable[UUID]]
    # An HTTP call for a page of the first client.
    open_call: Callable[[], Awaitable[UUID]]


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
        (lease,) = await grant(world.backend, client, epoch, [task_id])
        assert (lease.task_id, lease.target_client_id) == (str(task_id), str(client.client_id))
        assert lease.lease_token
        assert await grant(world.backend, client, epoch, [task_id]) == []

    async def test_an_unknown_task_is_left_out(self, world: BackendWorld) -> None:
        client = await identify(world)
        epoch = await world.backend.connected(client, a_hello())
        assert await grant(world.backend, client, epoch, [uuid4()]) == []

    async def test_a_connection_that_was_replaced_is_granted_nothing(self, world: BackendWorld) -> None:
        client = await identify(world)
        older = await world.backend.connected(client, a_hello())
        await world.backend.connected(client, a_hello())
        assert await grant(world.backend, client, older, [await world.queue_task()]) == []

    async def test_many_clients_are_granted_together_each_its_own(self, world: BackendWorld) -> None:
        mine, others = await identify(world), await world.backend.authenticate(world.other_token)
        assert others is not None
        epochs = [await world.backend.connected(client, a_hello()) for client in (mine, others)]
        first, second, third = await world.queue_task(), await world.queue_other(), await world.queue_task()
        # The third is announced to a client that is not its own.
        answers = await world.backend.grant(
            [GrantRequest(mine, epochs[0], (first,)), GrantRequest(others, epochs[1], (second, third))]
        )
        assert [[frame.task_id for frame in answer.frames] for answer in answers] == [[str(first)], [str(second)]]
        assert [answer.busy for answer in answers] == [(), ()]

    async def test_a_replaced_client_among_many_is_granted_nothing_and_costs_the_others_nothing(
        self, world: BackendWorld
    ) -> None:
        mine, others = await identify(world), await world.backend.authenticate(world.other_token)
        assert others is not None
        older = await world.backend.connected(mine, a_hello())
        newer, epoch = [await world.backend.connected(client, a_hello()) for client in (mine, others)]
        first, second = await world.queue_task(), await world.queue_other()
        requests = [GrantRequest(mine, older, (first,)), GrantRequest(others, epoch, (second,))]
        [nothing, answer] = await world.backend.grant(requests)
        assert (nothing.frames, nothing.busy) == ([], ())
        assert [frame.task_id for frame in answer.frames] == [str(second)]
        # Both connections of one client in one call: the newer one gets it.
        both = [GrantRequest(mine, older, (first,)), GrantRequest(mine, newer, (first,))]
        assert [len(each.frames) for each in await world.backend.grant(both)] == [0, 1]

    async def test_a_snapshot_leases_what_the_client_does_not_hold_and_keeps_what_it_holds(
        self, world: BackendWorld
    ) -> None:
        client = await identify(world)
        epoch = await world.backend.connected(client, a_hello())
        held_id, other_id = await world.queue_task(), await world.queue_task()
        (lease,) = await grant(world.backend, client, epoch, [held_id])
        held = HeldAttempt(task_id=lease.task_id, attempt_id=lease.attempt_id, state="queued")
        content = await world.backend.snapshot(client, epoch, [held], 0)
        assert [item.task_id for item in content.available] == [str(other_id)]
        assert [(item.task_id, item.valid) for item in content.held] == [(lease.task_id, True)]

    async def test_a_beat_that_lists_an_attempt_which_the_server_ended_is_told_so(self, world: BackendWorld) -> None:
        client = await identify(world)
        epoch = await world.backend.connected(client, a_hello())
        (former,) = await grant(world.backend, client, epoch, [await world.queue_task()])
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
        await grant(world.backend, client, epoch, [task_id])
        await world.backend.pushed([task_id, uuid4()])
        await world.backend.pushed([task_id])
        await world.backend.heartbeats([HeartbeatRecord(client.client_id, epoch, Heartbeat(id="b1"))])
        end = ConnectionEnd(client.client_id, epoch, 1000)
        await world.backend.disconnected([end, end, ConnectionEnd(uuid4(), 1)])
        await world.backend.disconnected([end])
        await world.backend.disconnected([])
        await world.backend.heartbeats([HeartbeatRecord(client.client_id, epoch, Heartbeat(id="b2"))])

    async def test_a_call_waits_for_its_client_alone_and_in_snapshots_until_it_is_answered(
        self, world: BackendWorld
    ) -> None:
        client, other = await identify(world), await world.backend.authenticate(world.other_token)
        assert other is not None
        epoch, others = [await world.backend.connected(each, a_hello()) for each in (client, other)]
        call_id = await world.open_call()
        [request] = await world.backend.proxy_requests(client, epoch, [call_id, uuid4()])
        assert (request.id, request.method, request.timeout_ms > 0) == (str(call_id), "POST", True)
        assert [each.id for each in (await world.backend.snapshot(client, epoch, [], 0)).proxies] == [str(call_id)]
        assert list(await world.backend.proxy_requests(other, others, [call_id])) == []
        assert await world.backend.answer_proxy(other, call_id, ProxyAnswer(status=200)) is AnswerOutcome.UNKNOWN
        assert await world.backend.answer_proxy(client, call_id, ProxyAnswer(status=404)) is AnswerOutcome.TAKEN
        assert await world.backend.answer_proxy(client, call_id, ProxyAnswer(status=200)) is AnswerOutcome.REPEATED
        assert list(await world.backend.proxy_requests(client, epoch, [call_id])) == []
        assert (await world.backend.snapshot(client, epoch, [], 0)).proxies == []

    async def test_a_connection_that_was_replaced_is_asked_nothing_and_refuses_nothing(
        self, world: BackendWorld
    ) -> None:
        client = await identify(world)
        older, newer = [await world.backend.connected(client, a_hello()) for _ in range(2)]
        call_id = await world.open_call()
        assert list(await world.backend.proxy_requests(client, older, [call_id])) == []
        await world.backend.refuse_proxies(client, older, [call_id])
        assert len(await world.backend.proxy_requests(client, newer, [call_id])) == 1
        await world.backend.refuse_proxies(client, newer, [call_id])
        assert list(await world.backend.proxy_requests(client, newer, [call_id])) == []
        assert await world.backend.answer_proxy(client, call_id, ProxyAnswer(status=200)) is AnswerOutcome.REPEATED
