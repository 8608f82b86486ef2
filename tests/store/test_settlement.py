"""One result closes attempt, execution row, business task and counters, once (3-results §3.2, 2-desktop §2.2)."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from domain.ids import new_uuid
from domain.lanes import Lane
from domain.settlement import Ruling
from store.database import Pool, transaction
from store.settlement import Ending, fail_tasks, settle
from tests.support.results import RECEIVED_AT
from tests.support.world import Desktop, Lease, World, ago, digest


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


async def settle_one(pool: Pool, *endings: Ending) -> dict[UUID, Ruling]:
    async with transaction(pool) as connection:
        return await settle(connection, endings)


def success(lease: Lease) -> Ending:
    return Ending(lease.attempt_id, True, None, RECEIVED_AT, {"WAITING": 1200.0})


def failed(lease: Lease, error: str = "page did not load") -> Ending:
    return Ending(lease.attempt_id, False, error, RECEIVED_AT)


async def second_lease(world: World, business_id: int, client: Desktop, **columns: Any) -> Lease:
    """A newer execution task of the same business task, leased and running."""
    task = await world.execution_task(business_id, client.id)
    lease = Lease(task, business_id, new_uuid(), "second-token-000000000000")
    await world.pool.execute(
        "insert into desktop_task_attempts (id, tenant_id, task_id, monitor_task_id, client_id, attempt, token_hash,"
        " started_at) values ($1, $2, $3, $4, $5, 1, $6, now())",
        lease.attempt_id, world.tenant_id, task, business_id, client.id, digest(lease.token),
    )  # fmt: skip
    await world.set("desktop_tasks", task, status="in_progress", attempt_id=lease.attempt_id, attempt=1, **columns)
    return lease


async def revoke(world: World, lease: Lease) -> None:
    await world.set("desktop_tasks", lease.task_id, status="aborted")
    await world.set("desktop_task_attempts", lease.attempt_id, ended_at=ago(seconds=5), outcome="revoked")
    await world.set("monitoring_collect_tasks", lease.business_id, active_task_id=None)


async def picture(pool: Pool) -> Sequence[Any]:
    """Everything a settlement may touch, to compare before and after."""
    tables = ("desktop_task_attempts", "desktop_tasks", "monitoring_collect_tasks", "monitoring_collect_requests",
              "scheduled_batches", "projection_rebuild_queue", "outbox", "batch_yields")  # fmt: skip
    return [await pool.fetch(f"select * from {table} order by 1, 2") for table in tables]


async def test_a_success_closes_attempt_execution_and_business_task(pool: Pool, world: World) -> None:
    lease = await world.leased(await world.client(), status="in_progress")
    await settle_one(pool, success(lease))
    attempt, execution = await world.attempt(lease.attempt_id), await world.execution(lease.task_id)
    business = await world.business(lease.business_id)
    assert (attempt["outcome"], attempt["phase_times"]) == ("succeeded", {"WAITING": 1200.0})
    assert attempt["ended_at"] is not None
    assert (execution["status"], execution["lease_expires_at"]) == ("succeeded", None)
    assert execution["result_received_at"] == RECEIVED_AT
    assert (business["status"], business["active_task_id"], business["dispatch_attempts"]) == ("completed", None, 0)
    assert await pool.fetchval("select count(*) from projection_rebuild_queue") == 1


async def test_a_repeated_result_changes_nothing(pool: Pool, world: World) -> None:
    client, batch = await world.client(), await world.batch()
    done = await world.leased(client, status="in_progress", batch_id=batch)
    lost = await world.leased(client, status="in_progress", batch_id=batch)
    await settle_one(pool, success(done), failed(lost))
    before = await picture(pool)
    await settle_one(pool, success(done), failed(lost))
    await settle_one(pool, failed(done))
    assert await picture(pool) == before


async def test_a_counted_failure_waits_in_the_retry_lane_with_its_age(pool: Pool, world: World) -> None:
    lease = await world.leased(await world.client(), status="in_progress")
    await world.set("monitoring_collect_tasks", lease.business_id, enqueued_at=(enqueued := ago(hours=1)))
    await settle_one(pool, failed(lease))
    business, execution = await world.business(lease.business_id), await world.execution(lease.task_id)
    assert (business["status"], business["dispatch_lane"], business["dispatch_priority"]) == ("pending", "retry", 50)
    assert (business["dispatch_attempts"], business["active_task_id"]) == (1, None)
    assert business["enqueued_at"] == enqueued
    assert business["last_error"] == "page did not load"
    assert execution["status"] == "failed"


async def test_an_open_requests_task_retries_in_high_until_its_attempts_are_used_up(pool: Pool, world: World) -> None:
    client = await world.client()
    request = await world.request(client_id=client.id)
    lease = await world.leased(client, status="in_progress", lane=Lane.HIGH, request_id=request)
    await settle_one(pool, failed(lease))
    business = await world.business(lease.business_id)
    assert (business["status"], business["dispatch_lane"], business["dispatch_priority"]) == ("pending", "high", 5000)
    await world.set("monitoring_collect_tasks", lease.business_id, dispatch_attempts=2)
    again = await second_lease(world, lease.business_id, client, source="collect_now")
    await settle_one(pool, failed(again))
    assert (await world.business(lease.business_id))["status"] == "failed"
    row = await world.row("monitoring_collect_requests", request)
    assert (row["status"], row["failed_task_count"]) == ("failed", 1)


async def test_a_request_is_counted_and_signalled_by_its_results(pool: Pool, world: World) -> None:
    client = await world.client()
    request = await world.request(client_id=client.id, tasks=2)
    first, second = [
        await world.leased(client, status="in_progress", lane=Lane.HIGH, request_id=request) for _ in range(2)
    ]
    await settle_one(pool, success(first))
    await settle_one(pool, success(second))
    row = await world.row("monitoring_collect_requests", request)
    assert (row["status"], row["completed_task_count"]) == ("succeeded", 2)
    last = (await world.outbox("tasks_terminal"))[-1]["payload"]
    assert last == {"completed": 2, "failed": 0, "remaining": 0, "returned": 0}


async def test_a_batch_counts_a_task_when_it_becomes_terminal_and_not_before(pool: Pool, world: World) -> None:
    client, batch = await world.client(), await world.batch()
    done, retried, given_up = [await world.leased(client, status="in_progress", batch_id=batch) for _ in range(3)]
    await world.set("monitoring_collect_tasks", given_up.business_id, dispatch_attempts=2)
    await settle_one(pool, success(done), failed(retried), failed(given_up))
    row = await world.row("scheduled_batches", batch)
    assert (row["completed_count"], row["failed_count"]) == (1, 1)


async def test_a_late_success_is_taken_and_the_newer_attempt_cancelled(pool: Pool, world: World) -> None:
    old, new = await world.client(), await world.client()
    lease = await world.leased(old, status="in_progress")
    await revoke(world, lease)
    newer = await second_lease(world, lease.business_id, new)
    await settle_one(pool, success(lease))
    business, execution = await world.business(lease.business_id), await world.execution(newer.task_id)
    assert (business["status"], business["active_task_id"]) == ("completed", None)
    assert execution["status"] == "aborted"
    assert (await world.attempt(newer.attempt_id))["outcome"] == "superseded"
    [control] = await world.outbox("task_control")
    assert control["client_id"] == new.id
    assert control["payload"]["task_id"] == str(newer.task_id)
    assert control["payload"]["control"] == "canceled"
    assert control["key"] == f"monitor.normal.{new.id}"


async def test_the_cancelled_attempts_own_result_counts_nothing_more(pool: Pool, world: World) -> None:
    client, batch = await world.client(), await world.batch()
    lease = await world.leased(client, status="in_progress", batch_id=batch)
    await revoke(world, lease)
    newer = await second_lease(world, lease.business_id, client)
    await settle_one(pool, success(lease))
    await settle_one(pool, failed(newer))
    await settle_one(pool, success(newer))
    row = await world.row("scheduled_batches", batch)
    assert (row["completed_count"], row["failed_count"]) == (1, 0)
    assert (await world.business(lease.business_id))["dispatch_attempts"] == 0


async def test_an_attempt_from_before_the_accept_leaves_the_task_to_the_request(pool: Pool, world: World) -> None:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    await world.set("desktop_task_attempts", lease.attempt_id, started_at=ago(minutes=1), leased_at=ago(minutes=2))
    await revoke(world, lease)
    request = await world.request(client_id=client.id)
    await world.set(
        "monitoring_collect_tasks", lease.business_id, collect_request_id=request, dispatch_lane="high",
        dispatch_priority=5000,
    )  # fmt: skip
    newer = await second_lease(world, lease.business_id, client, source="collect_now")
    await settle_one(pool, success(lease))
    assert (await world.business(lease.business_id))["status"] == "pending"
    assert (await world.execution(newer.task_id))["status"] == "in_progress"
    await settle_one(pool, success(newer))
    assert (await world.business(lease.business_id))["status"] == "completed"


async def test_a_victim_that_finishes_settles_its_interrupt_and_frees_its_slot(pool: Pool, world: World) -> None:
    client = await world.client()
    request = await world.request(client_id=client.id)
    lease = await world.leased(client, status="in_progress")
    await world.interrupt(lease.task_id, request, 1)
    await settle_one(pool, success(lease))
    assert (await world.row("monitoring_collect_requests", request))["interrupt_settled_count"] == 1
    assert [row["payload"]["outstanding"] for row in await world.outbox("interrupt_settled")] == [0]


async def test_the_last_high_result_gives_the_desktop_back_to_its_batch(pool: Pool, world: World) -> None:
    client, batch = await world.client(), await world.batch()
    request = await world.request(client_id=client.id)
    lease = await world.leased(client, status="in_progress", lane=Lane.HIGH, request_id=request)
    await pool.execute(
        "insert into batch_yields (batch_id, client_id, tenant_id, generation, request_id, task_count)"
        " values ($1, $2, $3, 1, $4, 1)",
        batch, client.id, world.tenant_id, request,
    )  # fmt: skip
    await settle_one(pool, success(lease))
    assert [row["payload"]["client_id"] for row in await world.outbox("resumed")] == [str(client.id)]


async def test_an_unknown_attempt_is_no_ruling(pool: Pool, world: World) -> None:
    assert await settle_one(pool, Ending(new_uuid(), True)) == {}


async def test_a_lost_lease_counts_once_whoever_reports_it(pool: Pool, world: World) -> None:
    lease = await world.leased(await world.client(), status="in_progress")
    await world.set("desktop_tasks", lease.task_id, status="unknown")
    await world.set("desktop_task_attempts", lease.attempt_id, ended_at=ago(seconds=1), outcome="lease_expired")
    for expected in (1, 0):
        async with transaction(pool) as connection:
            assert await fail_tasks(connection, [lease.task_id], "the client is gone") == expected
    await settle_one(pool, failed(lease))
    business = await world.business(lease.business_id)
    assert (business["dispatch_attempts"], business["dispatch_lane"], business["last_error"]) == (
        1, "retry", "the client is gone",
    )  # fmt: skip
    assert (await world.attempt(lease.attempt_id))["outcome"] == "lease_expired"
