"""Starting and extending a lease: 2-desktop §2.2."""

import asyncio
from uuid import uuid4

import pytest

from domain.desktop_calls import CancelCall
from domain.errors import LeaseLost, NoSlot, NotFound
from domain.lanes import Lane
from domain.phases import Phase
from store import leases, results
from store.database import Pool, transaction
from store.leases import LeaseRef
from tests.support.lease_calls import ack, identity, ref, result
from tests.support.world import World, ago


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


async def test_start_puts_a_leased_task_in_progress_with_its_attempt(world: World) -> None:
    client = await world.client()
    lease = await world.leased(client)
    answer = await leases.start(world.pool, ref(world, client, lease), Phase.NAVIGATING)
    row, attempt = await world.execution(lease.task_id), await world.attempt(lease.attempt_id)
    assert (answer.status, row["status"], row["phase"]) == ("in_progress", "in_progress", "NAVIGATING")
    assert row["started_at"] == attempt["started_at"] is not None
    assert answer.lease_expires_at == row["lease_expires_at"]


async def test_start_repeated_with_the_same_token_answers_the_same(world: World) -> None:
    client = await world.client()
    lease = await world.leased(client)
    first = await leases.start(world.pool, ref(world, client, lease))
    started = (await world.execution(lease.task_id))["started_at"]
    again = await leases.start(world.pool, ref(world, client, lease))
    assert (again.status, again.task_id) == (first.status, first.task_id)
    assert (await world.execution(lease.task_id))["started_at"] == started


async def test_start_with_another_token_loses_the_lease(world: World) -> None:
    client = await world.client()
    lease = await world.leased(client)
    with pytest.raises(LeaseLost):
        await leases.start(world.pool, LeaseRef(identity(world, client), lease.task_id, "x" * 43))
    assert (await world.execution(lease.task_id))["status"] == "queued"


async def test_start_past_the_expiry_by_the_database_clock_loses_the_lease(world: World) -> None:
    client = await world.client()
    lease = await world.leased(client)
    await world.set("desktop_tasks", lease.task_id, lease_expires_at=ago(seconds=1))
    with pytest.raises(LeaseLost):
        await leases.start(world.pool, ref(world, client, lease))


async def test_a_lease_that_ran_out_before_the_start_is_extended_no_more(world: World) -> None:
    client = await world.client()
    lease = await world.leased(client)
    await world.set("desktop_tasks", lease.task_id, lease_expires_at=ago(seconds=1))
    with pytest.raises(LeaseLost):
        await leases.extend(world.pool, ref(world, client, lease))
    assert (await world.execution(lease.task_id))["lease_expires_at"] < ago()


async def test_another_clients_or_tenants_task_is_missing(world: World) -> None:
    client, other = await world.client(), await world.client()
    stranger_world = await World.create(world.pool, "Stranger")
    stranger = await stranger_world.client()
    lease = await world.leased(client)
    for who in (identity(world, other), identity(stranger_world, stranger)):
        with pytest.raises(NotFound):
            await leases.start(world.pool, LeaseRef(who, lease.task_id, lease.token))
    with pytest.raises(NotFound):
        await leases.extend(world.pool, LeaseRef(identity(world, client), uuid4(), lease.token))


async def test_no_slot_beyond_the_clients_concurrency_leaves_the_task_queued(world: World) -> None:
    client = await world.client(max_concurrent=1)
    await world.leased(client, status="in_progress", platform="doubao")
    waiting = await world.leased(client)
    with pytest.raises(NoSlot):
        await leases.start(world.pool, ref(world, client, waiting))
    row = await world.execution(waiting.task_id)
    assert row["status"] == "queued"
    assert row["lease_token_hash"] is not None


async def test_racing_starts_never_exceed_the_clients_slots(world: World) -> None:
    client = await world.client(max_concurrent=2)
    platforms = ("qwen", "doubao", "kimi", "ernie", "zhipu")
    waiting = [await world.leased(client, platform=platform) for platform in platforms]
    answers = await asyncio.gather(
        *(leases.start(world.pool, ref(world, client, lease)) for lease in waiting), return_exceptions=True
    )
    assert sum(isinstance(answer, NoSlot) for answer in answers) == 3
    running = await world.pool.fetchval("select count(*) from desktop_tasks where status = 'in_progress'")
    assert running == 2


async def _blocked(world: World, count: int) -> None:
    """Until so many sessions of this database wait for a lock."""
    waiting = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    while await world.pool.fetchval(waiting) < count:
        await asyncio.sleep(0.01)


async def test_a_start_waits_for_an_uncommitted_one_on_the_same_platform(world: World) -> None:
    first, second = await world.client(), await world.client()
    request = await world.request(client_id=first.id)
    one = await world.leased(first, lane=Lane.HIGH, request_id=request)
    two = await world.leased(second)
    async with asyncio.timeout(20), transaction(world.pool) as connection:
        await connection.execute("select from monitoring_collect_requests for update")
        slow = asyncio.create_task(leases.start(world.pool, ref(world, first, one)))
        await _blocked(world, 1)
        quick = asyncio.create_task(leases.start(world.pool, ref(world, second, two)))
        seen = asyncio.create_task(_blocked(world, 2))
        await asyncio.wait({quick, seen}, return_when=asyncio.FIRST_COMPLETED)
        seen.cancel()
    assert (await slow).status == "in_progress"
    with pytest.raises(NoSlot):
        await quick


async def test_a_platforms_own_limit_replaces_the_general_one(world: World) -> None:
    client = await world.client()
    await world.platform_limit("qwen", 2)
    await world.leased(client, status="in_progress")
    lease = await world.leased(client)
    assert (await leases.start(world.pool, ref(world, client, lease))).status == "in_progress"


async def test_another_tenants_work_on_the_platform_takes_no_slot_of_ours(world: World) -> None:
    stranger = await World.create(world.pool, "Stranger")
    await stranger.leased(await stranger.client(), status="in_progress")
    client = await world.client()
    lease = await world.leased(client)
    assert (await leases.start(world.pool, ref(world, client, lease))).status == "in_progress"


async def test_global_platform_scope_counts_every_tenants_work(world: World) -> None:
    await world.setting("platform_concurrency_scope", "global")
    stranger = await World.create(world.pool, "Stranger")
    await stranger.leased(await stranger.client(), status="in_progress")
    client = await world.client()
    lease = await world.leased(client)
    with pytest.raises(NoSlot):
        await leases.start(world.pool, ref(world, client, lease))


async def test_an_unknown_task_holds_its_platform_but_no_slot_of_its_client(world: World) -> None:
    client = await world.client(max_concurrent=1)
    lost = await world.leased(client, status="in_progress")
    await world.set("desktop_tasks", lost.task_id, status="unknown")
    same, other = await world.leased(client), await world.leased(client, platform="kimi")
    with pytest.raises(NoSlot):
        await leases.start(world.pool, ref(world, client, same))
    assert (await leases.start(world.pool, ref(world, client, other))).status == "in_progress"


async def test_the_preemptor_starts_only_once_its_victim_has_stopped(world: World) -> None:
    client = await world.client(max_concurrent=1)
    victim = await world.leased(client, status="in_progress", platform="doubao")
    request = await world.request(client_id=client.id, generation=7)
    await world.interrupt(victim.task_id, request, 7)
    high = await world.leased(client, lane=Lane.HIGH, request_id=request)
    with pytest.raises(NoSlot):
        await leases.start(world.pool, ref(world, client, high))
    await leases.acknowledge_interrupt(world.pool, identity(world, client), victim.task_id, ack(victim, 7))
    assert (await leases.start(world.pool, ref(world, client, high))).status == "in_progress"
    assert (await world.row("monitoring_collect_requests", request))["status"] == "running"


async def test_a_received_result_frees_the_slot_before_ingest(world: World) -> None:
    client = await world.client(max_concurrent=1)
    done = await world.leased(client, status="in_progress")
    target = await results.find_attempt_for_result(world.pool, identity(world, client), done.task_id, result(done))
    await results.mark_result_received(world.pool, target, {})
    lease = await world.leased(client)
    assert (await leases.start(world.pool, ref(world, client, lease))).status == "in_progress"


# --- extend --------------------------------------------------------------------------------------------------


async def test_extend_moves_the_expiry_and_tells_a_pending_interrupt(world: World) -> None:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    await world.set("desktop_tasks", lease.task_id, lease_expires_at=ago(seconds=-5))
    await world.interrupt(lease.task_id, await world.request(client_id=client.id, generation=4), 4)
    answer = await leases.extend(world.pool, ref(world, client, lease), Phase.WAITING)
    assert answer.lease_expires_at > ago(seconds=-60)
    assert (answer.interrupt_requested, answer.interrupt_generation) == (True, 4)
    assert (await world.execution(lease.task_id))["phase"] == "WAITING"


async def test_extend_by_the_holder_makes_an_unknown_task_run_again(world: World) -> None:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    await world.set("desktop_tasks", lease.task_id, status="unknown", lease_expires_at=ago(seconds=1))
    assert (await leases.extend(world.pool, ref(world, client, lease))).status == "in_progress"


async def test_a_revoked_lease_is_lost_for_every_call(world: World) -> None:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    await world.set("desktop_tasks", lease.task_id, status="unknown", lease_token_hash=None)
    who = ref(world, client, lease)
    with pytest.raises(LeaseLost):
        await leases.start(world.pool, who)
    with pytest.raises(LeaseLost):
        await leases.extend(world.pool, who)
    with pytest.raises(LeaseLost):
        await leases.cancel(world.pool, who, CancelCall(lease_token=lease.token, reason="stopped"))


async def test_no_platform_setting_passes_the_fuse_at_the_start(world: World) -> None:
    client = await world.client(max_concurrent=4)
    await world.platform_limit("qwen", 50)
    waiting = [await world.leased(client) for _ in range(3)]
    for lease in waiting[:2]:
        await leases.start(world.pool, ref(world, client, lease))
    with pytest.raises(NoSlot):
        await leases.start(world.pool, ref(world, client, waiting[2]))
