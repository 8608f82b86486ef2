"""Lease calls, results and expiry of the legacy path: 2-desktop §2.2, dispatch §7.1, §16.1."""

from uuid import UUID

import asyncpg
import pytest

from domain.desktop_calls import PulledTask, ResultCall
from domain.errors import LeaseLost, NotFound, StaleGeneration
from domain.lanes import Lane
from store import legacy_ends, legacy_leases, results
from store.database import Connection, Pool, transaction
from store.legacy_leases import LegacyLease
from tests.support.clicks import finish, whole
from tests.support.legacy import LegacyHands, legacy_task, number_of, offered
from tests.support.world import World, ago


@pytest.fixture
async def world(pool: Pool) -> World:
    made = await World.create(pool)
    await made.setting("platform_concurrency", 2)
    return made


@pytest.fixture
async def hands(world: World) -> LegacyHands:
    return LegacyHands(world, await world.client())


async def swept(world: World, *, begun: bool) -> int:
    sweep = legacy_ends.fail_expired if begun else legacy_ends.return_expired
    async with transaction(world.pool) as connection:
        return await sweep(connection)


async def test_a_start_is_noted_on_the_attempt_and_repeats(world: World, hands: LegacyHands) -> None:
    task = await hands.pull_one()
    first, again = await hands.start(task), await hands.start(task)
    assert (first.task_id, first.status, again.status) == (task.task_id, "leased", "leased")
    assert (await world.attempt(UUID(task.attempt_id)))["started_at"] is not None
    assert again.lease_expires_at >= first.lease_expires_at > task.lease_expires_at


async def test_an_extension_moves_the_lease(world: World, hands: LegacyHands) -> None:
    task = await hands.pull_one()
    answer = await legacy_leases.extend(world.pool, hands.lease(task))
    assert answer.lease_expires_at > task.lease_expires_at


@pytest.mark.parametrize("call", [legacy_leases.start, legacy_leases.extend])
async def test_a_token_that_is_not_current_changes_nothing(world: World, hands: LegacyHands, call: object) -> None:
    task = await hands.pull_one()
    before = await world.business(number_of(task))
    with pytest.raises(LeaseLost):
        await call(world.pool, hands.lease(task, token="another-token-of-some-length"))  # type: ignore[operator]
    assert await world.business(number_of(task)) == before


async def test_a_returned_token_used_again_is_lost(hands: LegacyHands) -> None:
    task = await hands.pull_one()
    await hands.cancel(task)
    with pytest.raises(LeaseLost):
        await hands.start(task)


async def test_a_task_never_leased_here_is_not_found(world: World, hands: LegacyHands) -> None:
    task = await hands.pull_one()
    stranger, tenant = await world.client(), await World.create(world.pool, "Other")
    foreign = LegacyHands(tenant, await tenant.client())
    for other in (LegacyHands(world, stranger), foreign):
        with pytest.raises(NotFound):
            await legacy_leases.extend(world.pool, LegacyLease(other.identity, number_of(task), task.lease_token))


async def test_a_lease_that_ran_out_before_the_start_is_over(world: World, hands: LegacyHands) -> None:
    task = await hands.pull_one()
    await world.set("monitoring_collect_tasks", number_of(task), lease_expires_at=ago(seconds=1))
    with pytest.raises(LeaseLost):
        await hands.start(task)


async def test_a_task_given_back_may_be_offered_to_anybody_and_counts_no_attempt(
    world: World, hands: LegacyHands
) -> None:
    task = await hands.pull_one()
    assert (await hands.cancel(task)).result == "requeued"
    row, attempt = await world.business(number_of(task)), await world.attempt(UUID(task.attempt_id))
    assert (row["status"], row["target_client_id"], row["dispatch_attempts"], row["lease_token_hash"]) == (
        "pending", None, 0, None,
    )  # fmt: skip
    assert (attempt["outcome"], attempt["error"]) == ("returned", "busy")
    assert await offered(world, await world.client(), number_of(task)) == 1
    assert await whole(world)


async def test_a_task_given_back_to_a_cancelled_batch_is_skipped_there(world: World, hands: LegacyHands) -> None:
    batch = await world.batch(expected=1)
    task = await hands.pull_one(batch_id=batch)
    await world.set("scheduled_batches", batch, status="cancelling")
    await hands.cancel(task)
    assert (await world.business(number_of(task)))["status"] == "skipped"
    assert (await world.row("scheduled_batches", batch))["skipped_count"] == 1


async def test_a_result_waits_as_received_and_frees_the_slot(world: World, hands: LegacyHands) -> None:
    await world.setting("platform_concurrency", 1)
    task = await hands.pull_one()
    await hands.start(task)
    await hands.result(task)
    row = await world.business(number_of(task))
    assert (row["status"], row["lease_token_hash"], row["lease_expires_at"]) == ("received", None, None)
    assert await hands.pull_one(), "the platform is free"
    assert (await hands.result(task)).duplicate


async def test_a_success_completes_the_task_and_its_batch(world: World, hands: LegacyHands) -> None:
    batch = await world.batch(expected=1)
    task = await hands.pull_one(batch_id=batch)
    await hands.run(task)
    row = await world.business(number_of(task))
    assert (row["status"], row["leased_to_executor"], row["legacy_offer_expires_at"]) == ("completed", None, None)
    assert (await world.row("scheduled_batches", batch))["completed_count"] == 1
    assert await whole(world)


async def test_failures_retry_in_their_lane_until_the_attempts_are_used_up(world: World, hands: LegacyHands) -> None:
    task = await hands.pull_one()
    number = number_of(task)
    await hands.run(task, succeeded=False)
    row = await world.business(number)
    assert (row["status"], row["dispatch_lane"], row["dispatch_attempts"]) == ("pending", "retry", 1)
    assert row["target_client_id"] is None
    for _ in range(2):
        await offered(world, hands.desktop, number)
        [task] = await hands.pull()
        await hands.run(task, succeeded=False)
    row = await world.business(number)
    assert (row["status"], row["dispatch_attempts"]) == ("failed", 3)
    assert await whole(world)


async def test_a_failure_of_an_open_request_stays_high_and_bound(world: World, hands: LegacyHands) -> None:
    request = await world.request(client_id=hands.desktop.id)
    task = await hands.pull_one(lane=Lane.HIGH, request_id=request, client_id=hands.desktop.id)
    assert task.source == "collect_now"
    await hands.run(task, succeeded=False)
    row = await world.business(number_of(task))
    assert (row["dispatch_lane"], row["target_client_id"]) == ("high", hands.desktop.id)
    assert (await world.row("monitoring_collect_requests", request))["status"] == "running"


async def test_a_request_is_dispatched_with_the_lease_and_not_with_the_offer(world: World, hands: LegacyHands) -> None:
    request = await world.request(client_id=hands.desktop.id, tasks=2)
    tasks = [
        await legacy_task(world, lane=Lane.HIGH, request_id=request, client_id=hands.desktop.id, platform=platform)
        for platform in ("qwen", "doubao")
    ]
    await offered(world, hands.desktop, *tasks)
    await hands.pull(1)
    row = await world.row("monitoring_collect_requests", request)
    assert (row["dispatched_task_count"], row["status"]) == (1, "running")


async def test_an_expired_lease_counts_only_after_the_start(world: World, hands: LegacyHands) -> None:
    waiting, begun = await hands.pull_one(), await hands.pull_one(platform="doubao")
    await hands.start(begun)
    for task in (waiting, begun):
        await world.set("monitoring_collect_tasks", number_of(task), lease_expires_at=ago(seconds=1))
    assert (await swept(world, begun=False), await swept(world, begun=True)) == (1, 1)
    assert (await swept(world, begun=False), await swept(world, begun=True)) == (0, 0)
    rows = [await world.business(number_of(task)) for task in (waiting, begun)]
    assert [row["status"] for row in rows] == ["pending", "pending"]
    assert [row["dispatch_attempts"] for row in rows] == [0, 1]
    outcomes = [(await world.attempt(UUID(task.attempt_id)))["outcome"] for task in (waiting, begun)]
    assert outcomes == ["lease_expired", "lease_expired"]
    assert await whole(world)


async def test_a_success_after_the_lease_is_taken_and_the_newer_lease_is_cancelled(world: World) -> None:
    one, two = LegacyHands(world, await world.client()), LegacyHands(world, await world.client())
    late = await one.pull_one()
    await one.start(late)
    await world.set("monitoring_collect_tasks", number_of(late), lease_expires_at=ago(seconds=1))
    await swept(world, begun=True)
    await offered(world, two.desktop, number_of(late))
    [newer] = await two.pull()
    await two.start(newer)
    await one.result(late)
    await finish(world, late.attempt_id)
    assert (await world.business(number_of(late)))["status"] == "completed"
    assert (await world.attempt(UUID(newer.attempt_id)))["outcome"] == "superseded"
    [order] = await world.outbox("task_control")
    assert (order["payload"]["task_id"], order["payload"]["control"]) == (late.task_id, "canceled")
    assert order["client_id"] == two.desktop.id
    assert await whole(world)
    with pytest.raises(LeaseLost):
        await two.result(newer)


async def test_a_failure_after_the_lease_is_not_taken(world: World, hands: LegacyHands) -> None:
    task = await hands.pull_one()
    await hands.start(task)
    await world.set("monitoring_collect_tasks", number_of(task), lease_expires_at=ago(seconds=1))
    await swept(world, begun=True)
    with pytest.raises(LeaseLost):
        await hands.result(task, succeeded=False)


async def test_a_result_with_another_token_or_attempt_is_refused(world: World, hands: LegacyHands) -> None:
    task, other = await hands.pull_one(), await hands.pull_one(platform="doubao")
    call = ResultCall(lease_token=task.lease_token, attempt_id=UUID(other.attempt_id), outcome="failed")
    with pytest.raises(LeaseLost):
        await results.find_attempt_for_result(world.pool, hands.identity, number_of(task), call)
    stranger = LegacyHands(world, await world.client())
    with pytest.raises(NotFound):
        await results.find_attempt_for_result(world.pool, stranger.identity, number_of(task), call)


async def test_a_received_result_that_is_never_ingested_fails_the_attempt(world: World, hands: LegacyHands) -> None:
    task = await hands.pull_one()
    await hands.start(task)
    await hands.result(task)
    await world.set("desktop_task_attempts", UUID(task.attempt_id), result_received_at=ago(minutes=16))
    async with transaction(world.pool) as connection:
        assert await legacy_ends.fail_never_ingested(connection) == 1
        assert await legacy_ends.fail_never_ingested(connection) == 0
    row = await world.business(number_of(task))
    assert (row["status"], row["dispatch_lane"]) == ("pending", "retry")


async def advised(world: World, task: PulledTask, generation: int) -> None:
    """What an accept writes on a leased victim."""
    request = await world.request(generation=generation)
    await world.set(
        "monitoring_collect_tasks",
        number_of(task),
        legacy_interrupt_request_id=request,
        interrupt_generation=generation,
    )


async def test_an_order_to_stop_shows_in_start_and_extend(world: World, hands: LegacyHands) -> None:
    task = await hands.pull_one()
    await advised(world, task, 7)
    answers = [await hands.start(task), await legacy_leases.extend(world.pool, hands.lease(task))]
    assert [(answer.interrupt_requested, answer.interrupt_generation) for answer in answers] == [(True, 7)] * 2


@pytest.mark.parametrize("begun", [False, True])
async def test_who_gives_way_to_an_order_is_preempted(world: World, hands: LegacyHands, begun: bool) -> None:
    task = await hands.pull_one()
    if begun:
        await hands.start(task)
    await advised(world, task, 7)
    answer = await (hands.acknowledge(task, 7) if begun else hands.cancel(task, generation=7))
    assert answer.result == "preempted"
    row, attempt = await world.business(number_of(task)), await world.attempt(UUID(task.attempt_id))
    assert (row["status"], row["preemptions"], row["dispatch_attempts"]) == ("pending", 1, 0)
    assert row["legacy_interrupt_request_id"] is None
    assert attempt["outcome"] == "preempted"


async def test_a_stale_acknowledgement_is_recorded_and_the_current_order_sent_again(
    world: World, hands: LegacyHands
) -> None:
    task = await hands.pull_one()
    await hands.start(task)
    await advised(world, task, 7)
    with pytest.raises(StaleGeneration):
        await hands.acknowledge(task, 6)
    assert (await world.business(number_of(task)))["status"] == "leased"
    [order] = await world.outbox("task_control")
    assert order["payload"]["interrupt_generation"] == 7
    assert order["payload"]["task_id"] == task.task_id
    recorded = await world.pool.fetchval("select subject from audit_events where action = 'stale_callback'")
    assert recorded == task.task_id


async def test_a_desktop_that_does_not_run_it_frees_the_slot_only_under_an_order(
    world: World, hands: LegacyHands
) -> None:
    task, ordered = await hands.pull_one(), await hands.pull_one(platform="doubao")
    await advised(world, ordered, 7)
    for each in (task, ordered):
        assert (await hands.acknowledge(each, 7, held=False)).result == "already_settled"
    assert [(await world.business(number_of(each)))["status"] for each in (task, ordered)] == ["leased", "pending"]


BROKEN = [
    "status = 'leased'",
    "lease_expires_at = now()",
    "leased_to_executor = $2",
    "status = 'received', execution_owner = 'desktop_tasks'",
    "execution_owner = 'desktop_tasks', legacy_offer_expires_at = now()",
    "execution_owner = 'desktop_tasks', legacy_interrupt_request_id = $2",
]


@pytest.mark.parametrize("columns", BROKEN)
async def test_the_status_matrix_is_enforced(world: World, hands: LegacyHands, columns: str) -> None:
    task = await legacy_task(world)
    arguments = [hands.desktop.id] if "$2" in columns else []
    await _refused(world.pool, f"update monitoring_collect_tasks set {columns} where id = $1", task, *arguments)


@pytest.mark.parametrize("columns", ["status = 'completed'", "lease_token_hash = null", "lease_expires_at = null"])
async def test_a_lease_ends_whole_or_not_at_all(world: World, hands: LegacyHands, columns: str) -> None:
    task = await hands.pull_one()
    await _refused(world.pool, f"update monitoring_collect_tasks set {columns} where id = $1", number_of(task))


async def _refused(pool: Pool | Connection, statement: str, *arguments: object) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await pool.execute(statement, *arguments)
