"""What a connection gets and reports, through the hub's port: 2-desktop §2.1, §2.2."""

import pytest

from domain.desktop_calls import CancelCall
from domain.hub_port import ClientIdentity, HeartbeatRecord, HubBackend
from domain.ids import new_uuid
from domain.lanes import Lane
from domain.messages import RequestRef
from domain.protocol import Heartbeat, HeldAttempt, Hello
from store import leases, requests
from store.database import Pool
from store.hub_backend import StoreHubBackend
from store.leases import LeaseRef
from tests.support.granting import grant
from tests.support.world import Desktop, Lease, World, ago, digest


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


@pytest.fixture
def hub(pool: Pool) -> HubBackend:
    return StoreHubBackend(pool)


def identity(world: World, client: Desktop) -> ClientIdentity:
    return ClientIdentity(client.id, world.tenant_id)


def held(lease: Lease, state: str = "running") -> HeldAttempt:
    return HeldAttempt(task_id=str(lease.task_id), attempt_id=str(lease.attempt_id), state=state)


async def test_a_grant_leases_the_task_with_everything_the_frame_says(world: World, hub: HubBackend) -> None:
    client, question = await world.client(), await world.question("Is Acme any good?")
    business = await world.business_task(question=question)
    task = await world.execution_task(business, client.id)
    [frame] = await grant(hub, identity(world, client), 1, [task])
    row = await world.execution(task)
    attempt = await world.row("desktop_task_attempts", row["attempt_id"])
    assert row["lease_token_hash"] == attempt["token_hash"] == digest(frame.lease_token)
    assert (frame.task_id, frame.attempt, frame.attempt_id) == (str(task), 1, str(row["attempt_id"]))
    assert (frame.question, frame.platform, frame.owner) == ("Is Acme any good?", "qwen", "desktop_tasks")
    assert (frame.lane, frame.lane_weight, frame.priority, frame.status) == ("normal", 40, 100, "queued")
    assert frame.lease_expires_at == row["lease_expires_at"]


async def test_a_hint_delivered_twice_leases_once(world: World, hub: HubBackend) -> None:
    client = await world.client()
    task = await world.execution_task(await world.business_task(), client.id)
    assert len(await grant(hub, identity(world, client), 1, [task])) == 1
    assert await grant(hub, identity(world, client), 1, [task]) == []
    assert (await world.execution(task))["attempt"] == 1


async def test_a_connection_that_was_replaced_gets_no_lease(world: World, hub: HubBackend) -> None:
    client = await world.client()
    task = await world.execution_task(await world.business_task(), client.id)
    assert await grant(hub, identity(world, client), 0, [task]) == []
    assert (await hub.snapshot(identity(world, client), 0, [], 0)).available == []
    assert (await world.execution(task))["lease_token_hash"] is None


async def test_no_client_is_granted_another_clients_or_tenants_task(world: World, hub: HubBackend) -> None:
    stranger = await World.create(world.pool, "Stranger")
    client, other, foreign = await world.client(), await world.client(), await stranger.client()
    task = await world.execution_task(await world.business_task(), client.id)
    assert await grant(hub, identity(world, other), 1, [task]) == []
    assert await grant(hub, identity(stranger, foreign), 1, [task]) == []


async def test_pushed_starts_the_requests_dispatch_clock_once(world: World, hub: HubBackend) -> None:
    client = await world.client()
    request = await world.request(client_id=client.id)
    business = await world.business_task(lane=Lane.HIGH, request_id=request, client_id=client.id)
    task = await world.execution_task(business, client.id, source="collect_now")
    await grant(hub, identity(world, client), 1, [task])
    await hub.pushed([task])
    first = await world.execution(task)
    await hub.pushed([task])
    row = await world.row("monitoring_collect_requests", request)
    [signal] = await world.outbox("dispatched")
    assert (row["status"], row["dispatched_task_count"]) == ("dispatching", 1)
    assert (await world.execution(task))["pushed_at"] == first["pushed_at"] is not None
    assert signal["payload"]["count"] == 1
    assert (await world.business(business))["last_dispatched_at"] is not None


async def test_a_frame_written_after_the_task_was_taken_back_dispatched_nothing(world: World, hub: HubBackend) -> None:
    client = await world.client()
    request = await world.request(client_id=client.id)
    business = await world.business_task(lane=Lane.HIGH, request_id=request, client_id=client.id)
    task = await world.execution_task(business, client.id, source="collect_now")
    await grant(hub, identity(world, client), 1, [task])
    await world.pool.execute("update desktop_tasks set status = 'aborted' where id = $1", task)
    await hub.pushed([task])
    assert (await world.row("monitoring_collect_requests", request))["dispatched_task_count"] == 0
    assert await world.outbox("dispatched") == []


async def test_a_queued_task_not_held_gets_a_fresh_token_and_the_old_one_is_lost(world: World, hub: HubBackend) -> None:
    client = await world.client()
    lease = await world.leased(client)
    content = await hub.snapshot(identity(world, client), 1, [], 0)
    [frame] = content.available
    assert (frame.task_id, frame.attempt) == (str(lease.task_id), 2)
    assert (await world.attempt(lease.attempt_id))["outcome"] == "replaced"
    who = LeaseRef(identity(world, client), lease.task_id, frame.lease_token)
    assert (await leases.start(world.pool, who)).status == "in_progress"


async def test_a_held_queued_task_keeps_its_token(world: World, hub: HubBackend) -> None:
    client = await world.client()
    lease = await world.leased(client)
    content = await hub.snapshot(identity(world, client), 1, [held(lease, "queued")], 0)
    assert content.available == []
    assert [(item.task_id, item.valid) for item in content.held] == [(str(lease.task_id), True)]
    assert (await world.execution(lease.task_id))["lease_token_hash"] == digest(lease.token)


async def test_a_held_task_whose_lease_is_over_is_invalid(world: World, hub: HubBackend) -> None:
    client = await world.client()
    gone, revoked = await world.leased(client), await world.leased(client, status="in_progress")
    await leases.cancel(
        world.pool,
        LeaseRef(identity(world, client), gone.task_id, gone.token),
        CancelCall(lease_token=gone.token, reason="x"),
    )
    await world.set("desktop_tasks", revoked.task_id, status="unknown", lease_token_hash=None)
    legacy = HeldAttempt(task_id="l-7", attempt_id="nonsense")
    content = await hub.snapshot(identity(world, client), 1, [held(gone), held(revoked), legacy], 0)
    assert [item.valid for item in content.held] == [False, False, False]


@pytest.mark.parametrize("epoch", [1, 2], ids=["snapshot", "hello"])
async def test_no_client_extends_another_clients_or_tenants_lease_whatever_ids_it_knows(
    world: World, hub: HubBackend, epoch: int
) -> None:
    stranger = await World.create(world.pool, "Stranger")
    owner = await world.client()
    lease = await world.leased(owner, status="in_progress")
    await world.set("desktop_tasks", lease.task_id, status="unknown", lease_expires_at=ago(seconds=1))
    before = await world.execution(lease.task_id)
    for home in (world, stranger):
        client = await home.client()
        # Without work of its own nothing of what it lists would be looked at.
        own, other = await home.leased(client, status="in_progress"), identity(home, client)
        listed = [held(lease), held(own)]
        if epoch == 2:
            await hub.connected(other, Hello(id="h", held=listed))
        verdict, mine = (await hub.snapshot(other, epoch, listed, 0)).held
        assert mine.valid
        assert (verdict.valid, verdict.status, verdict.lease_expires_at) == (False, None, None)
    assert await world.execution(lease.task_id) == before


async def test_a_beat_is_told_of_every_attempt_that_the_server_ended(world: World, hub: HubBackend) -> None:
    client, other = await world.client(), await world.client()
    ends = ["cancelled", "lease_expired", "revoked", "replaced", "superseded"]
    over = [await ended(world, client, outcome) for outcome in ends]
    own = [await ended(world, client, outcome) for outcome in ("returned", "preempted", "failed", "succeeded")]
    alive = await world.leased(client, status="in_progress")
    legacy = HeldAttempt(task_id="l-7", attempt_id="nonsense")
    listed = [held(lease) for lease in (*over, *own, alive)]
    beat = HeartbeatRecord(client.id, 1, Heartbeat(id="b", running=[*listed, legacy]))
    theirs = HeartbeatRecord(other.id, 1, Heartbeat(id="b", running=listed))
    assert await hub.heartbeats([beat, theirs]) == {client.id: {lease.attempt_id for lease in over}}


async def test_a_beat_is_not_told_of_an_attempt_whose_result_is_posted(world: World, hub: HubBackend) -> None:
    client = await world.client()
    lease = await ended(world, client, "revoked")
    posting = HeldAttempt(task_id=str(lease.task_id), attempt_id=str(lease.attempt_id), phase="POSTING")
    beat = HeartbeatRecord(client.id, 1, Heartbeat(id="b", running=[posting]))
    assert await hub.heartbeats([beat]) == {}
    await world.set("desktop_task_attempts", lease.attempt_id, result_received_at=ago(seconds=1))
    assert await hub.heartbeats([HeartbeatRecord(client.id, 1, Heartbeat(id="b", running=[held(lease)]))]) == {}


async def ended(world: World, client: Desktop, outcome: str) -> Lease:
    """An attempt that is over."""
    lease = await world.leased(client, status="in_progress")
    await world.set("desktop_task_attempts", lease.attempt_id, outcome=outcome, ended_at=ago(seconds=1))
    await world.set("desktop_tasks", lease.task_id, status="aborted")
    return lease


async def test_a_force_released_victim_that_still_runs_hears_of_it_with_its_next_beat(
    world: World, hub: HubBackend
) -> None:
    client = await world.client()
    victim = await world.leased(client, status="in_progress")
    request = await world.request(client_id=client.id, generation=3)
    await world.interrupt(victim.task_id, request, 3)
    ref = RequestRef(request_id=request, tenant_id=world.tenant_id, client_id=client.id, generation=3)
    await requests.force_release(world.pool, ref)
    beat = HeartbeatRecord(client.id, 1, Heartbeat(id="b", running=[held(victim)]))
    assert await hub.heartbeats([beat]) == {client.id: {victim.attempt_id}}
    content = await hub.snapshot(identity(world, client), 1, [held(victim)], 3)
    assert ([item.valid for item in content.held], content.controls) == ([False], [])


async def test_a_queued_lease_that_ran_out_is_leased_anew_even_if_held(world: World, hub: HubBackend) -> None:
    client = await world.client()
    lease = await world.leased(client)
    await world.set("desktop_tasks", lease.task_id, lease_expires_at=ago(seconds=1))
    content = await hub.snapshot(identity(world, client), 1, [held(lease, "queued")], 0)
    assert [frame.task_id for frame in content.available] == [str(lease.task_id)]
    assert [item.valid for item in content.held] == [False]


async def test_a_snapshot_repeats_pending_interrupts_and_tells_the_generation(world: World, hub: HubBackend) -> None:
    client = await world.client()
    victim = await world.leased(client, status="in_progress")
    await world.interrupt(victim.task_id, await world.request(client_id=client.id, generation=6), 6)
    content = await hub.snapshot(identity(world, client), 1, [held(victim)], 4)
    [control] = content.controls
    assert content.generation == 6
    assert (control.control, control.interrupt_generation, control.task_id) == (
        "interrupt_requested",
        6,
        str(victim.task_id),
    )
    assert (await world.row("desktop_clients", client.id))["highest_generation_seen"] == 4


async def test_frames_come_most_urgent_first(world: World, hub: HubBackend) -> None:
    client = await world.client()
    request = await world.request(client_id=client.id)
    low = await world.execution_task(await world.business_task(lane=Lane.RETRY), client.id)
    high = await world.execution_task(await world.business_task(lane=Lane.HIGH, request_id=request), client.id)
    frames = await grant(hub, identity(world, client), 1, [low, high, new_uuid()])
    assert [frame.task_id for frame in frames] == [str(high), str(low)]
