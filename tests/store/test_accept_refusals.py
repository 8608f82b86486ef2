"""What an accept refuses, and that a refused or broken one leaves nothing behind (1-dispatch §1.5)."""

import asyncio
from typing import Any

import asyncpg
import pytest

from domain.messages import AcceptOutcome
from store.accept import accept_collect_now
from store.database import Pool
from tests.support.clicks import accepted, click, command, scheduled, whole
from tests.support.world import World, ago

TRACES = ("monitoring_collect_requests", "monitoring_collect_tasks", "outbox", "desktop_tasks", "batch_yields")


@pytest.fixture
async def world(pool: Pool) -> World:
    """A tenant with a plan, a question and a desktop."""
    world = await World.create(pool)
    await world.plan()
    await world.question()
    await world.client()
    return world


async def traces(world: World) -> dict[str, Any]:
    """Everything an accept writes to."""
    found: dict[str, Any] = {"generation": await world.pool.fetchval("select sum(interrupt_generation) from tenants")}
    for table in TRACES:
        found[table] = await world.pool.fetch(f"select * from {table} order by 1")
    return found


async def refused(world: World, **more: Any) -> tuple[int | None, str | None]:
    """Click, which must be refused and leave nothing behind; returns status and code."""
    before = await traces(world)
    result = await click(world, **more)
    assert result.outcome is AcceptOutcome.REFUSED, result
    assert await traces(world) == before
    return result.error_status, result.error_code


async def test_a_third_active_request_is_refused_and_leaves_nothing(world: World) -> None:
    for _ in range(2):
        await accepted(world, question_ids=[(await world.question()).id])
    running = await scheduled(world, await world.client(), platform="doubao")
    assert await refused(world, question_ids=[(await world.question()).id]) == (429, "too_many_requests")
    assert (await world.execution(running))["interrupt_generation"] == 0
    result = await click(world, question_ids=[(await world.question()).id])
    assert result.retry_after is not None
    assert result.retry_after >= 1


async def test_only_survivors_count_a_click_that_supersedes_one_of_two_is_accepted(world: World) -> None:
    first = await world.question()
    await accepted(world, question_ids=[first.id])
    second = await accepted(world, question_ids=[(await world.question()).id])
    await accepted(world, question_ids=[first.id, (await world.question()).id])
    active = await world.pool.fetchval(
        "select count(*) from monitoring_collect_requests where status in ('accepted', 'dispatching', 'running')"
    )
    assert (active, (await world.row("monitoring_collect_requests", second.request_id))["status"]) == (2, "accepted")


async def test_a_request_that_was_taken_back_makes_room_though_something_of_it_still_runs(world: World) -> None:
    first = await accepted(world, question_ids=[(await world.question()).id])
    await accepted(world, question_ids=[(await world.question()).id])
    await world.set("monitoring_collect_requests", first.request_id, status="running", status_reason="cancelled")
    assert (await click(world, question_ids=[(await world.question()).id])).outcome is AcceptOutcome.ACCEPTED


async def test_the_twenty_first_request_of_an_hour_waits_until_the_oldest_leaves_it(world: World) -> None:
    for _ in range(20):
        request = await world.request(status="failed")
        await world.set("monitoring_collect_requests", request, created_at=ago(minutes=20))
    assert await refused(world) == (429, "too_many_requests")
    result = await click(world)
    assert result.retry_after is not None
    assert 2390 <= result.retry_after <= 2401
    assert (await click(world, user_id=2)).outcome is AcceptOutcome.ACCEPTED
    await world.pool.execute("update monitoring_collect_requests set created_at = created_at - interval '41 minutes'")
    assert (await click(world)).outcome is AcceptOutcome.ACCEPTED


async def test_replays_do_not_count_as_requests_of_the_hour(world: World) -> None:
    for _ in range(18):
        await world.request(status="failed")
    for _ in range(4):
        await click(world)
    assert (await click(world, preempt=False)).outcome is AcceptOutcome.ACCEPTED


async def test_another_tenants_client_brand_and_workspace_are_missing(world: World) -> None:
    other = await World.create(world.pool, "Other")
    await other.plan()
    await other.question()
    foreign = await other.client()
    assert await refused(world, target_client_id=foreign.id) == (404, "not_found")
    assert await refused(world, brand_id=other.brand_id) == (404, "not_found")
    assert await refused(world, workspace_ids=(other.workspace_id,)) == (404, "not_found")
    question = await world.pool.fetchval("select id from questions where tenant_id = $1", other.tenant_id)
    assert await refused(world, question_ids=[question]) == (404, "not_found")


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ({"brand_id": 999_999}, (404, "not_found")),
        ({"keyword_id": 999_999}, (404, "not_found")),
        ({"question_ids": [999_999]}, (404, "not_found")),
        ({"platforms": ["nobody"]}, (422, "invalid_input")),
        ({"question_ids": []}, (422, "empty_scope")),
        ({"platforms": []}, (422, "empty_scope")),
    ],
)
async def test_a_scope_that_names_what_is_not_there_is_refused(
    world: World, scope: dict[str, Any], expected: tuple[int, str]
) -> None:
    assert await refused(world, **scope) == expected


async def test_inactive_questions_make_an_empty_scope(world: World) -> None:
    await world.pool.execute("update questions set active = false")
    assert await refused(world) == (422, "empty_scope")


async def test_a_brand_without_an_active_desktop_plan_has_no_run_mode(world: World) -> None:
    await world.pool.execute("update monitoring_plans set collector_type = 'api'")
    assert await refused(world) == (422, "no_desktop_plan")
    await world.pool.execute("update monitoring_plans set collector_type = 'desktop', active = false")
    assert await refused(world) == (422, "no_desktop_plan")


async def test_five_hundred_tasks_are_taken_and_one_more_is_not(world: World) -> None:
    await world.pool.execute("update questions set active = false")
    await world.pool.execute(
        "with made as (insert into questions (tenant_id, brand_id, text) select $1, $2, 'q' || n"
        " from generate_series(1, 501) n returning id, text), versions as (insert into question_versions (tenant_id,"
        " question_id, text, text_hash) select $1, id, text, text from made returning id, question_id)"
        " select count(*) from versions",
        world.tenant_id, world.brand_id,
    )  # fmt: skip
    await world.pool.execute(
        "update questions q set current_version_id = v.id from question_versions v where v.question_id = q.id"
    )
    assert await refused(world) == (422, "scope_too_large")
    await world.pool.execute("update questions set active = false where text = 'q501'")
    answer = await accepted(world)
    assert (answer.affected_task_count, answer.promoted_task_count) == (500, 500)
    assert await whole(world)


async def test_an_offline_fleet_is_accepted_without_a_target(world: World) -> None:
    await world.pool.execute("update desktop_clients set online = false")
    answer = await accepted(world)
    assert answer.target_client_id is None
    row = await world.pool.fetchrow("select target_client_id, dispatch_lane from monitoring_collect_tasks")
    assert row is not None
    assert tuple(row) == (None, "high")


@pytest.mark.parametrize(
    "change", ["online = false", "healthy = false", "paused = true", "last_heartbeat_at = now() - interval '31 s'"]
)
async def test_a_named_client_that_cannot_take_it_falls_back_to_the_best_other(world: World, change: str) -> None:
    named = await world.client(max_concurrent=4)
    await world.pool.execute(f"update desktop_clients set {change} where id = $1", named.id)
    other = await world.pool.fetchval("select id from desktop_clients where id <> $1", named.id)
    assert (await accepted(world, target_client_id=named.id)).target_client_id == other


async def test_a_named_client_is_taken_although_another_has_more_room(world: World) -> None:
    named = await world.client(max_concurrent=1)
    await world.client(max_concurrent=4)
    assert (await accepted(world, target_client_id=named.id)).target_client_id == named.id


async def preempting_click(world: World) -> tuple[Any, Any]:
    """A click that would create, abort and interrupt, with all traces before it."""
    client = await world.client(max_concurrent=4)
    batch = await world.batch(expected=2)
    await scheduled(world, client, platform="doubao", batch_id=batch)
    await scheduled(world, client, platform="kimi", status="queued", batch_id=batch)
    given = command(world, question_ids=[(await world.question()).id], target_client_id=client.id)
    return given, await traces(world)


async def test_a_failure_at_the_last_step_leaves_nothing(world: World) -> None:
    given, before = await preempting_click(world)
    await world.pool.execute(
        "alter table monitoring_collect_requests add constraint broken check (interrupt_requested_count = 0)"
    )
    with pytest.raises(asyncpg.CheckViolationError):
        await accept_collect_now(world.pool, given)
    assert await traces(world) == before
    await world.pool.execute("alter table monitoring_collect_requests drop constraint broken")
    result = await accept_collect_now(world.pool, given)
    assert result.answer is not None
    assert (result.answer.aborted_queued_count, result.answer.interrupt_requested_count) == (1, 1)
    assert result.answer.interrupt_generation == 1
    assert await whole(world)


async def test_a_connection_that_dies_in_mid_transaction_leaves_nothing(world: World) -> None:
    given, before = await preempting_click(world)
    async with world.pool.acquire() as blocker, blocker.transaction():
        await blocker.execute("select id from desktop_tasks for update")
        accepting = asyncio.create_task(accept_collect_now(world.pool, given))
        victim = None
        while victim is None:
            victim = await world.pool.fetchval(
                "select pid from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
                " and query like '%desktop_tasks%'"
            )
        await world.pool.execute("select pg_terminate_backend($1)", victim)
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await accepting
    assert await traces(world) == before
    assert (await accept_collect_now(world.pool, given)).outcome is AcceptOutcome.ACCEPTED
    assert await whole(world)


async def test_a_caller_that_saw_a_timeout_after_the_commit_gets_the_first_answer(world: World) -> None:
    given, _ = await preempting_click(world)
    first = await accept_collect_now(world.pool, given)
    retried = await accept_collect_now(world.pool, given)
    assert (retried, retried.outcome) == (first, AcceptOutcome.ACCEPTED)
    assert first.answer is not None
    again = await accept_collect_now(world.pool, given.model_copy(update={"request_id": first.answer.request_id}))
    assert again.answer == first.answer
    assert await world.pool.fetchval("select count(*) from monitoring_collect_requests") == 1
    assert await world.pool.fetchval("select interrupt_generation from tenants") == 1
