"""Every task can say where it is, and each refusal its numbers, as the coordinator itself decides (1-dispatch §1.3)."""

from typing import Any

import pytest

from domain.budgets import Refusal
from domain.errors import NotFound
from domain.explain import MAY_GO
from domain.ids import new_uuid
from domain.lanes import Lane
from domain.round_state import Hold
from domain.task_state import TaskState
from store.catalog import Reach
from store.database import Pool
from store.explain import TaskExplanation, explain_task
from tests.support.world import World, ago


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


async def why(world: World, task: int) -> TaskExplanation:
    """The explanation its tenant gets, which must not contradict itself."""
    found = await explain_task(world.pool, task, Reach(world.tenant_id, (world.workspace_id,)))
    assert found.sentence
    if found.waiting is not None:
        consistent(found)
    return found


def consistent(found: TaskExplanation) -> None:
    """The binding step is the one that fails, and the sentence has its numbers."""
    waiting = found.waiting
    assert waiting is not None
    failed = [step for step in waiting.steps if not step.passed]
    if waiting.reason == MAY_GO:
        assert failed == []
        assert waiting.binding is None
        return
    assert waiting.binding in failed
    assert waiting.binding.name == waiting.reason
    if waiting.binding.limit:
        assert str(waiting.binding.limit) in found.sentence
        assert str(waiting.binding.used) in found.sentence
    for step in waiting.steps:
        if step.limit is not None and step.used is not None and step.name in set(Refusal):
            assert step.passed == (step.used < step.limit), step


async def dispatched(world: World, *, scheduled: int = 0, high: int = 0) -> None:
    """What rounds dispatched for the tenant 30 seconds ago."""
    await world.pool.execute(
        "insert into dispatch_ledger (tenant_id, at, scheduled, high)"
        " values ($1, now() - interval '30 seconds', $2, $3)",
        world.tenant_id,
        scheduled,
        high,
    )


# --- waiting: every rule and every budget --------------------------------------------------------------------------


async def test_a_task_that_nothing_stops_goes_in_its_turn(world: World) -> None:
    client = await world.client()
    first, second = await world.business_task(), await world.business_task()
    found = await why(world, first)
    assert (found.state, found.reason) == (TaskState.WAITING, MAY_GO)
    assert found.waiting is not None
    assert (found.waiting.client_id, found.waiting.position, found.waiting.estimate_seconds) == (client.id, 0, 0.0)
    behind = (await why(world, second)).waiting
    assert behind is not None
    assert behind.position == 1


async def test_a_full_cluster_minute_says_when_it_frees(world: World) -> None:
    await world.client()
    other = await World.create(world.pool, "Other")
    await dispatched(other, scheduled=240)
    found = await why(world, await world.business_task())
    assert found.reason == Refusal.CLUSTER_MINUTE
    assert found.waiting is not None
    assert found.waiting.binding is not None
    assert (found.waiting.binding.used, found.waiting.binding.limit) == (240, 240)
    assert found.waiting.estimate_seconds is not None
    assert 0 < found.waiting.estimate_seconds <= 31


async def test_permits_of_other_coordinators_fill_the_window_too(world: World) -> None:
    await world.client()
    await world.setting("coordinator_shards", 2)
    task = await world.business_task()
    await dispatched(await World.create(world.pool, "Other"), scheduled=200)
    grant = "insert into dispatch_quota (shard, epoch, scheduled_permits, high_permits, expires_at)"
    await world.pool.execute(f"{grant} values ($1, 1, 30, 0, now() + interval '1 hour')", world.tenant_id % 2)
    assert (await why(world, task)).reason == MAY_GO
    await world.pool.execute(f"{grant} values ($1, 1, 40, 0, now() + interval '1 hour')", (world.tenant_id + 1) % 2)
    found = await why(world, task)
    assert found.reason == Refusal.CLUSTER_MINUTE
    assert found.waiting is not None
    assert found.waiting.binding is not None
    assert (found.waiting.binding.used, found.waiting.binding.limit) == (240, 240)


async def test_a_full_tenant_minute_says_when_it_frees(world: World) -> None:
    await world.client()
    await dispatched(world, scheduled=20, high=10)
    found = await why(world, await world.business_task())
    assert (found.state, found.reason) == (TaskState.WAITING, Refusal.TENANT_MINUTE)
    assert found.waiting is not None
    assert found.waiting.estimate_seconds is not None
    assert 0 < found.waiting.estimate_seconds <= 31


async def test_a_busy_desktop_is_named_with_its_slots(world: World) -> None:
    client = await world.client()
    for platform in ("doubao", "openai"):
        await world.leased(client, status="in_progress", platform=platform)
    found = await why(world, await world.business_task())
    assert found.reason == Refusal.CLIENT_CONCURRENCY
    assert found.waiting is not None
    assert found.waiting.binding is not None
    assert (found.waiting.client_id, found.waiting.binding.used, found.waiting.binding.limit) == (client.id, 2, 2)


async def test_a_full_queue_is_named(world: World) -> None:
    client = await world.client()
    await world.set("desktop_clients", client.id, max_queue_depth=2)
    for platform in ("doubao", "openai"):
        await world.leased(client, platform=platform)
    assert (await why(world, await world.business_task())).reason == Refusal.CLIENT_QUEUE_DEPTH


async def test_a_held_platform_is_named(world: World) -> None:
    await world.client()
    await world.leased(await world.client(), status="in_progress")
    found = await why(world, await world.business_task())
    assert found.reason == Refusal.PLATFORM_CONCURRENCY
    assert "qwen" in found.sentence


@pytest.mark.parametrize("kind", ["lane", "tenant", "platform", "client"])
async def test_whatever_is_paused_says_so(world: World, kind: str) -> None:
    client = await world.client()
    task = await world.business_task()
    if kind == "lane":
        await world.setting("paused_lanes", ["normal"])
    elif kind == "tenant":
        await world.set("tenants", world.tenant_id, paused=True)
    elif kind == "platform":
        await world.pool.execute("insert into platform_settings (platform_id, paused) values ('qwen', true)")
    else:
        await world.set("desktop_clients", client.id, paused=True)
    found = await why(world, task)
    assert (found.state, found.reason) == (TaskState.PAUSED, f"{kind}_paused")
    assert found.waiting is not None
    assert found.waiting.estimate_seconds is None


async def test_nobody_online_and_nobody_logged_in_are_told_apart(world: World) -> None:
    task = await world.business_task()
    assert (await why(world, task)).reason == Hold.NO_CLIENT
    client = await world.client()
    await world.set("desktop_clients", client.id, platform_sessions={"qwen": "login_required"})
    assert (await why(world, task)).reason == Hold.LOGIN_BROKEN


async def test_normal_work_waits_for_a_desktops_high_work(world: World) -> None:
    client = await world.client()
    request = await world.request(client_id=client.id)
    await world.leased(client, lane=Lane.HIGH, request_id=request, status="in_progress", platform="doubao")
    assert (await why(world, await world.business_task())).reason == Hold.CLIENT_HAS_HIGH


async def test_high_work_without_a_desktop_waits_to_be_bound(world: World) -> None:
    task = await world.business_task(lane=Lane.HIGH, request_id=await world.request())
    assert (await why(world, task)).reason == Hold.AWAITS_CLIENT


async def test_a_retry_waits_for_high_and_for_normal_under_its_low_water(world: World) -> None:
    client = await world.client()
    task = await world.business_task(lane=Lane.RETRY)
    await world.setting("retry_low_water", 2)
    for _ in range(3):
        await world.business_task()
    found = await why(world, task)
    assert found.reason == Hold.RETRY_AFTER_NORMAL
    assert found.waiting is not None
    assert found.waiting.binding is not None
    assert found.waiting.binding.limit == 2
    assert found.waiting.position == 3
    request = await world.request(client_id=client.id)
    await world.leased(client, lane=Lane.HIGH, request_id=request, platform="doubao")
    assert (await why(world, task)).reason == Hold.RETRY_AFTER_HIGH


async def test_the_numbers_of_a_retry_are_right_also_when_the_minute_is_full(world: World) -> None:
    await world.client()
    task = await world.business_task(lane=Lane.RETRY)
    await world.business_task()
    await dispatched(world, scheduled=300)
    found = await why(world, task)
    assert found.reason == Refusal.CLUSTER_MINUTE
    assert found.waiting is not None
    [low_water] = [step for step in found.waiting.steps if step.name == Hold.RETRY_AFTER_NORMAL]
    assert (low_water.used, low_water.limit) == (1, 50)


async def test_a_slot_promised_to_a_request_is_free_for_it_alone(world: World) -> None:
    client = await world.client(max_concurrent=1)
    victim = await world.leased(client, status="in_progress", platform="doubao")
    request = await world.request(client_id=client.id)
    await world.interrupt(victim.task_id, request, 2)
    mine = await world.business_task(lane=Lane.HIGH, request_id=request, client_id=client.id)
    assert (await why(world, mine)).reason == MAY_GO
    other = await world.request(client_id=client.id)
    theirs = await world.business_task(lane=Lane.HIGH, request_id=other, client_id=client.id, platform="openai")
    assert (await why(world, theirs)).reason == Refusal.CLIENT_CONCURRENCY


# --- position and estimate ---------------------------------------------------------------------------------------


async def test_the_position_counts_what_goes_before_on_the_same_platform(world: World) -> None:
    await world.client()
    task = await world.business_task()
    await world.set("monitoring_collect_tasks", task, enqueued_at=ago(minutes=5))
    before = [await world.business_task(lane=Lane.HIGH), await world.business_task(lane=Lane.NORMAL_BOOSTED)]
    older, urgent = await world.business_task(), await world.business_task()
    await world.set("monitoring_collect_tasks", older, enqueued_at=ago(minutes=9))
    await world.set("monitoring_collect_tasks", urgent, dispatch_priority=101)
    before += [older, urgent]
    await world.business_task()
    await world.business_task(lane=Lane.RETRY)
    await world.business_task(platform="doubao")
    other = await World.create(world.pool, "Other")
    await other.business_task(lane=Lane.HIGH)
    found = await why(world, task)
    assert found.waiting is not None
    assert found.waiting.position == len(before)


async def test_the_estimate_is_its_place_at_the_recent_rate(world: World) -> None:
    client = await world.client()
    for _ in range(10):
        await world.leased(client, status="in_progress")
    await world.pool.execute("update desktop_tasks set status = 'succeeded'")
    await world.pool.execute("update monitoring_collect_tasks set status = 'completed', active_task_id = null")
    began, ended = "now() - interval '1 hour'", "now() - interval '2 minutes'"
    await world.pool.execute(f"update desktop_task_attempts set started_at = {began}, ended_at = {ended}")
    await world.leased(client, status="in_progress")
    behind = [await world.business_task() for _ in range(4)][-1]
    found = await why(world, behind)
    assert found.per_minute == pytest.approx(2.0)
    assert found.waiting is not None
    assert (found.reason, found.waiting.position) == (Refusal.PLATFORM_CONCURRENCY, 3)
    assert found.waiting.estimate_seconds == pytest.approx(4 / 2.0 * 60)
    assert "after 3 others" in found.sentence


async def test_a_rate_of_work_that_has_just_begun_is_not_spread_over_five_minutes(world: World) -> None:
    client = await world.client()
    for _ in range(10):
        await world.leased(client, status="in_progress")
    await world.pool.execute(
        "update desktop_task_attempts set started_at = now() - interval '1 minute', ended_at = now()"
    )
    found = await why(world, await world.business_task())
    assert found.per_minute == pytest.approx(10.0, rel=0.2)


# --- everything else ---------------------------------------------------------------------------------------------


async def test_a_task_that_a_desktop_has_says_which_and_since_when(world: World) -> None:
    client = await world.client()
    queued = await world.leased(client)
    found = await why(world, queued.business_id)
    assert (found.state, found.reason, found.waiting) == (TaskState.QUEUED, "queued", None)
    assert found.held is not None
    assert (found.held.client_id, found.held.execution_id) == (client.id, queued.task_id)
    assert found.held.pushed_at is not None
    assert found.held.lease_expires_at is not None
    running = await world.leased(client, status="in_progress", platform="doubao")
    found = await why(world, running.business_id)
    assert (found.state, found.held and found.held.phase) == (TaskState.RUNNING, "PREPARING")
    request = await world.request()
    await world.interrupt(running.task_id, request, 2)
    found = await why(world, running.business_id)
    assert (found.state, found.held and found.held.giving_way_to) == (TaskState.GIVING_WAY, request)
    await world.set("desktop_tasks", running.task_id, status="unknown", control_flags={})
    assert (await why(world, running.business_id)).state is TaskState.UNKNOWN
    await world.set("desktop_tasks", running.task_id, status="in_progress", result_received_at=ago(seconds=1))
    assert (await why(world, running.business_id)).state is TaskState.RECEIVED
    await world.set("desktop_tasks", running.task_id, status="succeeded")
    assert (await why(world, running.business_id)).state is TaskState.ASTRAY


@pytest.mark.parametrize("status", ["completed", "failed", "skipped", "expired"])
async def test_a_task_that_is_over_says_how_it_ended(world: World, status: str) -> None:
    lease = await world.leased(await world.client())
    await world.set("desktop_tasks", lease.task_id, status="failed")
    await world.set(
        "desktop_task_attempts", lease.attempt_id, ended_at=ago(seconds=1), outcome="failed", error="blocked"
    )
    await world.set(
        "monitoring_collect_tasks", lease.business_id, status=status, active_task_id=None, last_error="blocked",
        finished_at=ago(seconds=1), dispatch_attempts=3,
    )  # fmt: skip
    found = await why(world, lease.business_id)
    assert (found.state, found.last_error, found.attempts_counted, found.held) == (status, "blocked", 3, None)
    assert [(each.outcome, each.error) for each in found.attempts] == [("failed", "blocked")]


async def test_a_paused_batch_a_later_time_and_a_providers_task_are_told_apart(world: World) -> None:
    batch = await world.batch(status="paused")
    task = await world.business_task(batch_id=batch)
    await world.pool.execute(
        "update monitoring_collect_tasks set active_task_id = batch_hold(batch_id) where id = $1", task
    )
    found = await why(world, task)
    assert (found.state, found.reason) == (TaskState.PAUSED, "batch_paused")
    later = await world.business_task()
    await world.set("monitoring_collect_tasks", later, dispatch_after=ago(hours=-1))
    found = await why(world, later)
    assert (found.state, found.waiting) == (TaskState.SCHEDULED_LATER, None)
    assert found.dispatch_after is not None
    provider = await world.business_task()
    await world.set("monitoring_collect_tasks", provider, collector_type="api")
    assert (await why(world, provider)).state is TaskState.ELSEWHERE


async def test_the_legacy_path_is_explained_by_its_own_columns(world: World) -> None:
    client = await world.client()
    offered = await world.business_task(owner="legacy")
    assert (await why(world, offered)).reason == MAY_GO
    await world.set(
        "monitoring_collect_tasks", offered, target_client_id=client.id, legacy_offered_at=ago(seconds=5),
        legacy_offer_expires_at=ago(seconds=-100),
    )  # fmt: skip
    found = await why(world, offered)
    assert (found.state, found.path, found.held and found.held.client_id) == (TaskState.OFFERED, "legacy", client.id)
    await leased_legacy(world, offered, client.id)
    assert (await why(world, offered)).state is TaskState.QUEUED
    await world.pool.execute("update desktop_task_attempts set started_at = now()")
    assert (await why(world, offered)).state is TaskState.RUNNING
    await world.set(
        "monitoring_collect_tasks", offered, status="received", lease_token_hash=None, lease_expires_at=None
    )  # fmt: skip
    assert (await why(world, offered)).state is TaskState.RECEIVED


async def leased_legacy(world: World, task: int, client_id: Any) -> None:
    await world.set(
        "monitoring_collect_tasks", task, status="leased", lease_token_hash=b"x", leased_to_executor=client_id,
        leased_at=ago(seconds=1), lease_expires_at=ago(seconds=-60), legacy_offer_expires_at=None,
    )  # fmt: skip
    await world.pool.execute(
        "insert into desktop_task_attempts (id, tenant_id, monitor_task_id, client_id, attempt, token_hash)"
        " values ($1, $2, $3, $4, 1, 'x')",
        new_uuid(), world.tenant_id, task, client_id,
    )  # fmt: skip


async def test_what_is_out_of_reach_is_missing_and_an_operator_sees_it(world: World) -> None:
    task = await world.business_task()
    other = await World.create(world.pool, "Other")
    for reach in (Reach(other.tenant_id, (other.workspace_id, world.workspace_id)), Reach(world.tenant_id, ())):
        with pytest.raises(NotFound):
            await explain_task(world.pool, task, reach)
    with pytest.raises(NotFound):
        await explain_task(world.pool, 2**40, None)
    assert (await explain_task(world.pool, task, None)).tenant_id == world.tenant_id


async def test_asking_changes_nothing(world: World) -> None:
    await world.client()
    task = await world.business_task()
    before = await world.business(task)
    await why(world, task)
    assert await world.business(task) == before
    assert await world.pool.fetchval("select count(*) from desktop_tasks") == 0
