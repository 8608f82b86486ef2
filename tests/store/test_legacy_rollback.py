"""The emergency way back to the legacy path: dispatch §16.2.3, 1-dispatch §1.7."""

import asyncio
from uuid import UUID

import pytest

from domain.errors import LeaseLost
from store import results
from store.database import Pool, transaction
from store.legacy_rollback import RolledBack, roll_back
from store.rollout import path_of_new_work
from store.settings import read_dispatch_settings
from store.statements import statements
from tests.support.clicks import finish, whole
from tests.support.lease_calls import identity, result
from tests.support.legacy import LegacyHands, offered
from tests.support.world import Desktop, Lease, World, ago


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


async def everything(world: World, client: Desktop) -> dict[str, Lease]:
    """A lease in every state that a live execution task may be in, all of one batch."""
    batch = await world.batch(expected=5)
    made = {
        was: await world.leased(
            client, status="queued" if was in ("queued", "leased") else "in_progress", batch_id=batch
        )
        for was in ("queued", "leased", "in_progress", "unknown", "received")
    }
    await world.set("desktop_tasks", made["queued"].task_id, lease_token_hash=None, lease_expires_at=None)
    await world.set("desktop_tasks", made["unknown"].task_id, status="unknown", lease_expires_at=ago(minutes=1))
    await world.set("desktop_tasks", made["received"].task_id, result_received_at=ago(seconds=1))
    return made


async def answered(world: World, client: Desktop, lease: Lease) -> results.ResultTarget:
    """The result call about an execution task."""
    found = await results.find_attempt_for_result(world.pool, identity(world, client), lease.task_id, result(lease))
    await results.mark_result_received(world.pool, found, {})
    return found


async def test_everything_live_is_aborted_and_waits_on_the_legacy_path(world: World) -> None:
    client = await world.client()
    leases = await everything(world, client)
    waiting = await world.business_task()
    done = await roll_back(world.pool, actor="test")
    assert done == RolledBack(
        tenants=1,
        tasks=6,
        executions={"in_progress": 1, "leased": 1, "queued": 1, "received": 1, "unknown": 1},
        clients=1,
    )
    for lease in leases.values():
        execution, attempt = await world.execution(lease.task_id), await world.attempt(lease.attempt_id)
        assert (execution["status"], execution["interrupt_reason"]) == ("aborted", "phase2_emergency_rollback")
        assert (attempt["outcome"], attempt["error"]) == ("revoked", "phase2_emergency_rollback")
    for task in [waiting, *(lease.business_id for lease in leases.values())]:
        row = await world.business(task)
        assert (row["status"], row["execution_owner"], row["active_task_id"]) == ("pending", "legacy", None)
    async with world.pool.acquire() as connection:
        assert (await read_dispatch_settings(connection)).rollout_percent == 0
    assert await whole(world)


async def test_the_desktops_are_told_to_drop_what_they_have(world: World) -> None:
    client = await world.client()
    leases = await everything(world, client)
    await world.set("tenants", world.tenant_id, interrupt_generation=41)
    await roll_back(world.pool, actor="test")
    orders = [row["payload"] for row in await world.outbox("task_control")]
    assert {order["task_id"] for order in orders} == {str(lease.task_id) for lease in leases.values()}
    assert {(order["control"], order["reason"], order["interrupt_generation"]) for order in orders} == {
        ("canceled", "phase2_emergency_rollback", 42)
    }


async def test_rolled_back_twice_it_changes_nothing_more(world: World) -> None:
    await everything(world, await world.client())
    await roll_back(world.pool, actor="test")
    orders = len(await world.outbox("task_control"))
    assert await roll_back(world.pool, actor="test") == RolledBack()
    assert len(await world.outbox("task_control")) == orders
    assert await whole(world)


async def test_what_is_finished_or_legacy_already_is_left_alone(world: World) -> None:
    client = await world.client()
    hands = LegacyHands(world, client)
    leased = await hands.pull_one()
    finished = await world.business_task(platform="kimi")
    await world.set("monitoring_collect_tasks", finished, status="completed")
    await world.business_task(platform="doubao")
    await roll_back(world.pool, actor="test")
    assert (await world.business(finished))["execution_owner"] == "desktop_tasks"
    await hands.start(leased)


@pytest.mark.parametrize("was", ["in_progress", "unknown", "received"])
async def test_a_late_answer_of_a_rolled_back_attempt_is_taken(world: World, was: str) -> None:
    client = await world.client()
    lease = (await everything(world, client))[was]
    await roll_back(world.pool, actor="test")
    if was != "received":
        assert not (await answered(world, client, lease)).duplicate
    await finish(world, lease.attempt_id)
    row = await world.business(lease.business_id)
    assert (row["status"], row["execution_owner"]) == ("completed", "legacy")
    assert await whole(world)


async def test_a_late_answer_cancels_the_legacy_lease_that_replaced_it(world: World) -> None:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    await roll_back(world.pool, actor="test")
    hands = LegacyHands(world, await world.client())
    await offered(world, hands.desktop, lease.business_id)
    [newer] = await hands.pull()
    await answered(world, client, lease)
    await finish(world, lease.attempt_id)
    assert (await world.business(lease.business_id))["status"] == "completed"
    assert (await world.attempt(UUID(newer.attempt_id)))["outcome"] == "superseded"
    with pytest.raises(LeaseLost):
        await hands.start(newer)
    assert await whole(world)


async def test_requests_keep_their_tasks_and_their_victims_settle(world: World) -> None:
    client = await world.client()
    request = await world.request(client_id=client.id, generation=5)
    high = await world.leased(client, request_id=request)
    victim = await world.leased(client, status="in_progress", platform="doubao")
    await world.interrupt(victim.task_id, request, 5)
    done = await roll_back(world.pool, actor="test")
    assert done.requests == 1
    row = await world.row("monitoring_collect_requests", request)
    assert (row["interrupt_settled_count"], row["status"]) == (1, "accepted")
    task = await world.business(high.business_id)
    assert (task["collect_request_id"], task["target_client_id"]) == (request, client.id)
    assert await whole(world)


async def test_a_cancelled_batch_gets_nothing_back(world: World) -> None:
    batch = await world.batch(expected=1)
    lease = await world.leased(await world.client(), status="in_progress", batch_id=batch)
    await world.set("scheduled_batches", batch, status="cancelling")
    await roll_back(world.pool, actor="test")
    assert (await world.business(lease.business_id))["status"] == "skipped"
    assert await whole(world)


_WAITING = """
select exists (select from pg_locks l join pg_database d on d.oid = l.database
    where d.datname = current_database() and l.locktype = 'advisory' and not l.granted)
"""


async def waits_for_a_lock(pool: Pool, task: asyncio.Task[RolledBack]) -> bool:
    """Whether the roll-back has come to wait for somebody; False: it was done before."""
    while not task.done():
        if await pool.fetchval(_WAITING):
            return True
        await asyncio.sleep(0.01)
    return False


async def test_whoever_has_decided_on_a_path_is_waited_for_and_moved(world: World) -> None:
    async with transaction(world.pool) as connection:
        await connection.execute(statements("locks")["lock_tenant_requests"], world.tenant_id)
        path = await path_of_new_work(connection, world.tenant_id)
        rolling = asyncio.create_task(roll_back(world.pool, actor="test"))
        assert await waits_for_a_lock(world.pool, rolling), "though this tenant had nothing to roll back"
        creating = World(connection, world.tenant_id, world.workspace_id, world.brand_id)  # type: ignore[arg-type]
        task = await creating.business_task(owner=path)
    assert (await rolling).tasks == 1
    assert (await world.business(task))["execution_owner"] == "legacy"


async def test_it_is_recorded_with_its_numbers(world: World) -> None:
    await everything(world, await world.client())
    await roll_back(world.pool, actor="somebody")
    row = await world.pool.fetchrow("select * from audit_events where action = 'legacy_rollback'")
    assert row is not None
    assert (row["actor"], row["detail"]["tasks"]) == ("somebody", 5)
