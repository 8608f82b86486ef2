"""Connections, heartbeats, silence and expiry: 2-desktop §2.1, §2.2; 1-dispatch §1.5, §1.8."""

import asyncpg
import pytest

from activities.presence import PresenceSweeper
from domain.errors import FencedOut, Unauthorized
from domain.hub_port import ClientIdentity, ConnectionEnd, HeartbeatRecord
from domain.lanes import Lane
from domain.messages import ClientLost, RequestRef
from domain.protocol import Heartbeat, HeldAttempt, Hello
from domain.rounds import plan_round
from store import clients, requests, residents
from store.database import Pool, transaction
from store.dispatch import read_round
from store.dispatch_write import write_round
from store.hub_backend import StoreHubBackend
from tests.support.clicks import finish, rounds, whole
from tests.support.world import Desktop, Lease, World, ago
from workflows.request_state import RequestState

NAME = "presence-sweeper/0"


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


@pytest.fixture
def hub(pool: Pool) -> StoreHubBackend:
    return StoreHubBackend(pool)


def identity(world: World, client: Desktop) -> ClientIdentity:
    return ClientIdentity(client.id, world.tenant_id)


def held(lease: Lease, phase: str | None = "WAITING") -> HeldAttempt:
    return HeldAttempt(task_id=str(lease.task_id), attempt_id=str(lease.attempt_id), phase=phase)


def beat(
    client: Desktop, epoch: int = 1, *running: HeldAttempt, queued: tuple[HeldAttempt, ...] = ()
) -> HeartbeatRecord:
    frame = Heartbeat(id="b", running=list(running), queued=list(queued), platform_sessions={"qwen": "healthy"})
    return HeartbeatRecord(client.id, epoch, frame)


async def sweep(world: World) -> dict[str, int]:
    epoch = await residents.take(world.pool, NAME, "test")
    return await PresenceSweeper(world.pool).sweep(NAME, epoch)


async def silence(world: World, client: Desktop, seconds: float) -> None:
    await world.set("desktop_clients", client.id, last_heartbeat_at=ago(seconds=seconds))


async def expire(world: World, lease: Lease, **columns: object) -> None:
    await world.set("desktop_tasks", lease.task_id, lease_expires_at=ago(seconds=1), **columns)


# --- connections ---------------------------------------------------------------------------------------------


async def test_each_connection_has_a_higher_epoch(world: World, hub: StoreHubBackend) -> None:
    client = await world.client(online=False)
    first = await hub.connected(identity(world, client), Hello(id="1", platform_sessions={"qwen": "login_required"}))
    second = await hub.connected(identity(world, client), Hello(id="2", max_concurrent=3, version="2.0"))
    row = await world.row("desktop_clients", client.id)
    assert second > first > 0
    assert (row["online"], row["max_concurrent"], row["version"]) == (True, 3, "2.0")


async def test_an_older_hubs_close_never_takes_the_client_offline(world: World, hub: StoreHubBackend) -> None:
    client = await world.client()
    epoch = await hub.connected(identity(world, client), Hello(id="1"))
    await hub.disconnected([ConnectionEnd(client.id, epoch - 1)])
    assert (await world.row("desktop_clients", client.id))["online"]
    await hub.disconnected([ConnectionEnd(client.id, epoch)])
    assert not (await world.row("desktop_clients", client.id))["online"]


async def test_a_beat_still_on_its_way_does_not_revive_a_closed_connection(world: World, hub: StoreHubBackend) -> None:
    client = await world.client()
    epoch = await hub.connected(identity(world, client), Hello(id="1"))
    await hub.disconnected([ConnectionEnd(client.id, epoch)])
    await hub.heartbeats([beat(client, epoch)])
    assert not (await world.row("desktop_clients", client.id))["online"]


async def test_a_restored_database_moves_past_what_the_desktop_has_seen(world: World, hub: StoreHubBackend) -> None:
    client = await world.client()
    await hub.connected(identity(world, client), Hello(id="1", highest_generation=41))
    await hub.connected(identity(world, client), Hello(id="2", highest_generation=7))
    await hub.connected(identity(world, client), Hello(id="3", highest_generation=2**70))
    assert (await world.row("tenants", world.tenant_id))["interrupt_generation"] == 41
    assert (await world.row("desktop_clients", client.id))["highest_generation_seen"] == 41


async def test_a_revoked_client_does_not_connect(world: World, hub: StoreHubBackend) -> None:
    client = await world.client()
    await clients.revoke_client(world.pool, world.tenant_id, client.id)
    with pytest.raises(Unauthorized):
        await hub.connected(identity(world, client), Hello(id="1"))


async def test_hello_resolves_unknown_tasks_by_what_the_desktop_holds(world: World, hub: StoreHubBackend) -> None:
    client = await world.client()
    running, lost = await world.leased(client, status="in_progress"), await world.leased(client, status="in_progress")
    for lease in (running, lost):
        await expire(world, lease, status="unknown")
    await hub.connected(identity(world, client), Hello(id="1", held=[held(running)]))
    kept, business = await world.execution(running.task_id), await world.business(lost.business_id)
    assert kept["status"] == "in_progress"
    assert kept["lease_expires_at"] > ago(seconds=0)
    assert (await world.attempt(lost.attempt_id))["outcome"] == "lease_expired"
    assert (business["dispatch_attempts"], business["active_task_id"], business["dispatch_lane"]) == (1, None, "retry")


# --- heartbeats ----------------------------------------------------------------------------------------------


async def test_a_heartbeat_extends_every_lease_it_lists_and_records_phases(world: World, hub: StoreHubBackend) -> None:
    client = await world.client()
    running, queued = await world.leased(client, status="in_progress"), await world.leased(client)
    unlisted = await world.leased(client)
    soon = ago(seconds=-5)
    for lease in (running, queued, unlisted):
        await world.set("desktop_tasks", lease.task_id, lease_expires_at=soon)
    await hub.heartbeats([beat(client, 1, held(running), queued=(held(queued, None),))])
    rows = [await world.execution(lease.task_id) for lease in (running, queued, unlisted)]
    assert [row["lease_expires_at"] > soon for row in rows] == [True, True, False]
    assert [row["phase"] for row in rows] == ["WAITING", None, None]
    assert (await world.row("desktop_clients", client.id))["platform_sessions"] == {"qwen": "healthy"}


async def test_a_heartbeat_of_an_older_epoch_changes_nothing(world: World, hub: StoreHubBackend) -> None:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    before = await world.execution(lease.task_id), await world.row("desktop_clients", client.id)
    await hub.heartbeats([beat(client, 0, held(lease))])
    assert (await world.execution(lease.task_id), await world.row("desktop_clients", client.id)) == before


async def test_a_heartbeat_leaves_a_received_result_alone(world: World, hub: StoreHubBackend) -> None:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    await world.set("desktop_tasks", lease.task_id, result_received_at=ago(seconds=1))
    before = await world.execution(lease.task_id)
    await hub.heartbeats([beat(client, 1, held(lease))])
    assert await world.execution(lease.task_id) == before


async def test_a_heartbeat_extends_no_other_clients_lease(world: World, hub: StoreHubBackend) -> None:
    client, other = await world.client(), await world.client()
    lease = await world.leased(other, status="in_progress")
    before = await world.execution(lease.task_id)
    await hub.heartbeats([beat(client, 1, held(lease))])
    assert await world.execution(lease.task_id) == before


async def test_a_listed_unknown_task_runs_again_but_a_revoked_one_does_not(world: World, hub: StoreHubBackend) -> None:
    client = await world.client()
    unknown, revoked = (
        await world.leased(client, status="in_progress"),
        await world.leased(client, status="in_progress"),
    )
    await expire(world, unknown, status="unknown")
    await expire(world, revoked, status="unknown", lease_token_hash=None)
    await hub.heartbeats([beat(client, 1, held(unknown), held(revoked))])
    assert (await world.execution(unknown.task_id))["status"] == "in_progress"
    assert (await world.execution(revoked.task_id))["status"] == "unknown"
    assert (await sweep(world))["resolved"] == 0


async def test_one_clients_nonsense_does_not_spoil_the_beats_of_others(world: World, hub: StoreHubBackend) -> None:
    sane, broken = await world.client(), await world.client()
    lease = await world.leased(sane, status="in_progress")
    await expire(world, lease)
    odd = HeldAttempt(task_id="l-12", attempt_id="?", phase="\0")
    ours = HeldAttempt(task_id=str(lease.task_id), attempt_id=str(lease.attempt_id), phase="DREAMING")
    frame = Heartbeat(id="b", running=[odd, ours], platform_sessions={"q\0": "\0" * 9, "x" * 999: "y" * 999})
    await hub.heartbeats([HeartbeatRecord(broken.id, 1, frame), beat(sane, 1, held(lease))])
    row = await world.execution(lease.task_id)
    assert (row["phase"], row["lease_expires_at"] > ago(seconds=0)) == ("WAITING", True)


# --- silence -------------------------------------------------------------------------------------------------


async def test_thirty_seconds_of_silence_are_noticed_once(world: World) -> None:
    client, talking = await world.client(), await world.client()
    request = await world.request(client_id=client.id)
    await world.request(client_id=client.id, status="succeeded")
    await silence(world, client, 31)
    await silence(world, talking, 29)
    assert (await sweep(world))["lost"] == 1
    assert (await sweep(world))["lost"] == 0
    [signal] = await world.outbox("client_lost")
    row = await world.row("desktop_clients", client.id)
    assert (signal["key"], signal["payload"]) == (
        f"collect-now/{request}",
        {"client_id": str(client.id), "epoch": 1, "lost_at": row["lost_at"].isoformat()},
    )
    assert not row["online"]
    assert (await world.row("desktop_clients", talking.id))["online"]


async def test_a_closed_connection_is_lost_only_after_its_thirty_seconds(world: World, hub: StoreHubBackend) -> None:
    client = await world.client()
    request = await world.request()
    await world.business_task(lane=Lane.HIGH, request_id=request, client_id=client.id)
    await hub.disconnected([ConnectionEnd(client.id, 1)])
    assert (await sweep(world))["lost"] == 0
    await silence(world, client, 31)
    await sweep(world)
    assert [row["key"] for row in await world.outbox("client_lost")] == [f"collect-now/{request}"]


async def test_scheduled_work_waiting_on_a_lost_client_returns_and_high_work_is_left_to_its_workflow(
    world: World,
) -> None:
    client = await world.client()
    normal = await world.leased(client)
    high = await world.leased(client, lane=Lane.HIGH, request_id=await world.request(client_id=client.id))
    await silence(world, client, 31)
    assert (await sweep(world))["returned"] == 1
    business = await world.business(normal.business_id)
    assert (business["active_task_id"], business["dispatch_attempts"]) == (None, 0)
    assert (await world.execution(high.task_id))["status"] == "queued"


async def test_high_work_that_its_workflow_did_not_take_from_a_lost_client_goes_to_another(world: World) -> None:
    client = await world.client()
    high = await world.leased(client, lane=Lane.HIGH, request_id=await world.request(client_id=client.id))
    await silence(world, client, 31)
    assert (await sweep(world))["returned"] == 0
    await world.set("desktop_clients", client.id, lost_at=ago(seconds=6))
    assert (await sweep(world))["returned"] == 1
    assert (await world.business(high.business_id))["dispatch_lane"] == "high"
    other = await world.client()
    assert await rounds(world.pool) == 1
    row = await world.business(high.business_id)
    assert row["target_client_id"] == other.id
    assert (await world.execution(row["active_task_id"]))["target_client_id"] == other.id
    assert await whole(world)


async def test_a_round_that_is_written_after_the_loss_was_handled_leaves_nothing_on_the_lost_client(
    world: World,
) -> None:
    client = await world.client()
    request = await world.request(client_id=client.id)
    task = await world.business_task(lane=Lane.HIGH, request_id=request, client_id=client.id)
    async with transaction(world.pool) as connection:
        reading = await read_round(connection)
        plan = plan_round(reading.state, reading.candidates)
        assert len(plan.picks) == 1
        await silence(world, client, 31)
        await sweep(world)
        given = RequestRef(request_id=request, tenant_id=world.tenant_id, client_id=client.id)
        await requests.release_client(world.pool, given)
        assert not (await write_round(connection, plan.picks, reading.generations)).dispatched
    other = await world.client()
    assert await rounds(world.pool) == 1
    assert (await world.business(task))["target_client_id"] == other.id


async def test_a_second_silence_of_the_same_connection_is_news_to_the_workflow(
    world: World, hub: StoreHubBackend
) -> None:
    client = await world.client()
    request = await world.request(client_id=client.id)
    await world.business_task(lane=Lane.HIGH, request_id=request, client_id=client.id)
    state, lost = RequestState(), []
    for _ in range(2):
        await silence(world, client, 31)
        await sweep(world)
        row = (await world.outbox("client_lost"))[-1]
        for _delivered_twice in range(2):
            state.lose(ClientLost.model_validate({**row["payload"], "outbox_id": row["id"]}))
        lost.append(len(state.lost_clients))
        await hub.heartbeats([beat(client)])
    assert [row["payload"]["epoch"] for row in await world.outbox("client_lost")] == [1, 1]
    assert lost == [1, 2]


# --- expiry --------------------------------------------------------------------------------------------------


async def test_a_lease_that_runs_out_before_the_start_returns_the_task_uncounted(world: World) -> None:
    client = await world.client()
    lease, live = await world.leased(client), await world.leased(client)
    await expire(world, lease)
    assert (await sweep(world))["expired"] == 1
    business = await world.business(lease.business_id)
    assert (await world.execution(lease.task_id))["status"] == "aborted"
    assert (await world.attempt(lease.attempt_id))["outcome"] == "lease_expired"
    assert (business["active_task_id"], business["dispatch_attempts"], business["dispatch_lane"]) == (None, 0, "normal")
    assert (await world.execution(live.task_id))["status"] == "queued"


async def test_a_lease_that_runs_out_in_progress_is_unknown_until_the_client_is_lost(world: World) -> None:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    await expire(world, lease)
    assert (await sweep(world))["unknown"] == 1
    assert (await world.execution(lease.task_id))["status"] == "unknown"
    assert (await world.business(lease.business_id))["active_task_id"] == lease.task_id
    await silence(world, client, 31)
    assert (await sweep(world))["resolved"] == 1
    business = await world.business(lease.business_id)
    assert (business["dispatch_attempts"], business["dispatch_lane"], business["active_task_id"]) == (1, "retry", None)


async def test_a_client_that_speaks_without_naming_an_unknown_task_has_lost_it(
    world: World, hub: StoreHubBackend
) -> None:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    await expire(world, lease)
    await sweep(world)
    await hub.heartbeats([beat(client)])
    assert (await sweep(world))["resolved"] == 1
    assert (await world.business(lease.business_id))["dispatch_attempts"] == 1


async def test_used_up_attempts_fail_the_task_and_count_in_its_batch(world: World, hub: StoreHubBackend) -> None:
    client, batch = await world.client(), await world.batch()
    lease = await world.leased(client, status="in_progress", batch_id=batch)
    await world.set("monitoring_collect_tasks", lease.business_id, dispatch_attempts=2)
    await expire(world, lease, status="unknown")
    await hub.connected(identity(world, client), Hello(id="1"))
    assert (await world.business(lease.business_id))["status"] == "failed"
    assert (await world.row("scheduled_batches", batch))["failed_count"] == 1


async def test_a_lost_task_of_an_open_request_stays_high(world: World, hub: StoreHubBackend) -> None:
    client = await world.client()
    request = await world.request(client_id=client.id)
    lease = await world.leased(client, status="in_progress", lane=Lane.HIGH, request_id=request)
    await expire(world, lease, status="unknown")
    await hub.connected(identity(world, client), Hello(id="1"))
    business = await world.business(lease.business_id)
    assert (business["dispatch_lane"], business["dispatch_attempts"]) == ("high", 1)


async def test_a_revoked_lease_is_resolved_without_counting_an_attempt(world: World, hub: StoreHubBackend) -> None:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    await expire(world, lease, status="unknown", lease_token_hash=None)
    await world.set("desktop_task_attempts", lease.attempt_id, outcome="revoked", ended_at=ago(seconds=1))
    await hub.connected(identity(world, client), Hello(id="1"))
    business = await world.business(lease.business_id)
    assert (business["dispatch_attempts"], business["preemptions"], business["active_task_id"]) == (0, 1, None)
    assert (await world.attempt(lease.attempt_id))["outcome"] == "revoked"


async def test_a_revoked_lease_is_over_a_lease_later_whatever_the_client_says(
    world: World, hub: StoreHubBackend
) -> None:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    await expire(world, lease, status="unknown", lease_token_hash=None)
    await world.set("desktop_task_attempts", lease.attempt_id, outcome="revoked", ended_at=ago(seconds=121))
    await hub.heartbeats([beat(client, 1, held(lease))])
    assert (await sweep(world))["resolved"] == 1


@pytest.mark.parametrize("status", ["in_progress", "unknown"])
async def test_a_received_result_does_not_expire_with_its_lease(world: World, status: str) -> None:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    await expire(world, lease, status=status, result_received_at=ago(seconds=5))
    await silence(world, client, 500)
    await sweep(world)
    assert (await world.execution(lease.task_id))["status"] == status


async def test_a_result_that_was_received_but_never_ingested_counts_as_lost(world: World) -> None:
    client, batch = await world.client(), await world.batch(expected=1)
    lease, young = await world.leased(client, batch_id=batch), await world.leased(client)
    for each, minutes in ((lease, 16), (young, 14)):
        await world.set("desktop_tasks", each.task_id, status="in_progress", result_received_at=ago(minutes=minutes))
    await world.set("monitoring_collect_tasks", lease.business_id, dispatch_attempts=1)
    assert (await sweep(world))["never_ingested"] == 1
    assert (await sweep(world))["never_ingested"] == 0
    business = await world.business(lease.business_id)
    assert (business["status"], business["dispatch_attempts"], business["active_task_id"]) == ("pending", 2, None)
    assert (await world.attempt(lease.attempt_id))["outcome"] == "lease_expired"
    assert (await world.execution(young.task_id))["status"] == "in_progress"
    await finish(world, lease.attempt_id)
    assert (await world.business(lease.business_id))["status"] == "completed"
    assert (await world.row("scheduled_batches", batch))["completed_count"] == 1
    assert await whole(world)


# --- the loop ------------------------------------------------------------------------------------------------


async def test_a_second_sweep_at_once_changes_nothing(world: World) -> None:
    client = await world.client()
    await expire(world, await world.leased(client))
    await expire(world, await world.leased(client, status="in_progress"))
    await world.execution_task(await world.business_task(), client.id)
    await silence(world, client, 31)
    assert sum((await sweep(world)).values()) > 0
    assert sum((await sweep(world)).values()) == 0


async def test_a_lost_hint_is_repeated(world: World) -> None:
    client = await world.client()
    task = await world.execution_task(await world.business_task(), client.id)
    assert (await sweep(world))["hinted"] == 0
    await world.set("desktop_tasks", task, updated_at=ago(seconds=11))
    assert (await sweep(world))["hinted"] == 1
    assert (await sweep(world))["hinted"] == 0
    [event] = await world.outbox("task_available")
    assert event["payload"] == {"type": "task_available", "task_id": str(task), "client_id": str(client.id)}
    assert event["key"] == f"monitor.normal.{client.id}"


async def test_a_sweep_with_bad_data_does_not_stop_the_later_ones(world: World) -> None:
    client = await world.client()
    lease = await world.leased(client)
    await expire(world, lease)
    await silence(world, client, 31)
    await world.pool.execute("alter table desktop_clients add constraint bad check (lost_at is null)")
    changed = await sweep(world)
    assert "lost" not in changed
    assert changed["expired"] == 1


async def test_a_sweep_that_waits_for_better_times_does_not_stop_the_later_ones(world: World) -> None:
    client = await world.client()
    lease = await world.leased(client)
    await expire(world, lease)
    await silence(world, client, 31)
    await world.pool.execute(
        "create function stop() returns trigger language plpgsql as"
        " $$ begin raise exception 'too slow' using errcode = 'query_canceled'; end $$"
    )
    await world.pool.execute("create trigger stop before update of lost_at on desktop_clients execute function stop()")
    with pytest.raises(asyncpg.QueryCanceledError):
        await sweep(world)
    assert (await world.execution(lease.task_id))["status"] == "aborted"


async def test_a_fenced_sweeper_writes_nothing(world: World) -> None:
    client = await world.client()
    lease = await world.leased(client)
    await expire(world, lease)
    old = await residents.take(world.pool, NAME, "frozen")
    await residents.take(world.pool, NAME, "successor")
    with pytest.raises(FencedOut):
        await PresenceSweeper(world.pool, interval=0.01).run(NAME, old)
    assert (await world.execution(lease.task_id))["status"] == "queued"
