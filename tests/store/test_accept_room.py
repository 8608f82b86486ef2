"""Who gives way to an accept, and who does not (1-dispatch §1.5 steps 6 and 7)."""

from uuid import UUID

import pytest

from domain.ids import new_uuid
from domain.lanes import Lane
from store.database import Pool
from tests.support.clicks import Hands, accepted, click, policy_needed, scheduled, task_of_today, whole
from tests.support.world import Desktop, World, ago

OTHERS = ("doubao", "kimi", "deepseek", "ernie", "zhipu")


@pytest.fixture
async def world(pool: Pool) -> World:
    """A tenant whose clicks ask one question on qwen; its scheduled work runs on other platforms."""
    world = await World.create(pool)
    await world.plan()
    return world


@pytest.fixture
async def client(world: World) -> Desktop:
    """The only desktop, with three slots."""
    return await world.client(max_concurrent=3)


async def scope(world: World, tasks: int = 1) -> list[int]:
    """Questions that nothing scheduled asks."""
    return [(await world.question()).id for _ in range(tasks)]


async def interrupted(world: World) -> set[UUID]:
    """Execution tasks that are asked to stop."""
    rows = await world.pool.fetch(
        "select id from desktop_tasks where (control_flags ->> 'interrupt_requested')::boolean"
    )
    return {row["id"] for row in rows}


@pytest.mark.parametrize("lane", [Lane.NORMAL, Lane.NORMAL_BOOSTED, Lane.RETRY])
async def test_queued_work_goes_back_with_its_lane_age_and_attempts(world: World, client: Desktop, lane: Lane) -> None:
    task = await scheduled(world, client, status="queued", platform="doubao", lane=lane)
    business = (await world.execution(task))["monitor_task_id"]
    await world.set("monitoring_collect_tasks", business, enqueued_at=ago(hours=3), dispatch_attempts=1)
    [frame] = await Hands(world, client).take()
    before = await world.business(business)
    answer = await accepted(world, question_ids=await scope(world))
    row, execution = await world.business(business), await world.execution(task)
    assert answer.aborted_queued_count == 1
    for kept in ("enqueued_at", "dispatch_lane", "dispatch_priority", "dispatch_attempts", "preemptions"):
        assert row[kept] == before[kept]
    assert (row["active_task_id"], row["status"]) == (None, "pending")
    assert (execution["status"], execution["lease_expires_at"]) == ("aborted", None)
    assert (await world.attempt(UUID(frame.attempt_id)))["outcome"] == "cancelled"
    route = "normal" if lane is Lane.NORMAL_BOOSTED else lane.value
    [control] = await world.outbox("task_control")
    assert control["key"] == f"monitor.{route}.{client.id}"
    assert control["payload"] == {
        "type": "task_control",
        "client_id": str(client.id),
        "task_id": str(task),
        "control": "canceled",
        "reason": "collect_now_preempt",
        "interrupt_generation": answer.interrupt_generation,
    }
    assert await whole(world)


async def test_policy_all_interrupts_every_scheduled_task_that_runs_there(world: World, client: Desktop) -> None:
    victims = {await scheduled(world, client, platform=name) for name in OTHERS[:2]}
    answer = await accepted(world, question_ids=await scope(world))
    assert (await interrupted(world), answer.interrupt_requested_count) == (victims, 2)
    for victim in victims:
        row = await world.execution(victim)
        assert (row["interrupt_request_id"], row["interrupt_reason"]) == (answer.request_id, "collect_now_preempt")
        assert row["control_flags"] == {"interrupt_requested": True, "interrupt_generation": 1}
        assert row["interrupted_at"] is not None
    rows = await world.outbox("task_control")
    assert {row["payload"]["task_id"] for row in rows} == {str(victim) for victim in victims}
    assert {row["payload"]["control"] for row in rows} == {"interrupt_requested"}
    assert {row["payload"]["interrupt_generation"] for row in rows} == {1}


@pytest.mark.parametrize(("tasks", "running", "expected"), [(1, 2, 0), (1, 3, 1), (2, 3, 2), (9, 3, 3), (2, 1, 0)])
async def test_policy_needed_interrupts_no_more_than_the_high_tasks_lack(
    world: World, client: Desktop, tasks: int, running: int, expected: int
) -> None:
    await policy_needed(world)
    for name in OTHERS[:running]:
        await scheduled(world, client, platform=name)
    answer = await accepted(world, question_ids=await scope(world, tasks))
    assert answer.interrupt_requested_count == len(await interrupted(world)) == expected


async def test_policy_needed_takes_whoever_holds_the_platform_of_the_click(world: World, client: Desktop) -> None:
    await policy_needed(world)
    holder = await scheduled(world, client, platform="qwen")
    await scheduled(world, client, platform="doubao")
    await accepted(world, question_ids=await scope(world))
    assert await interrupted(world) == {holder}


async def test_policy_needed_disturbs_nobody_on_a_platform_with_room(world: World, client: Desktop) -> None:
    await policy_needed(world)
    await world.platform_limit("qwen", 2)
    await scheduled(world, client, platform="qwen")
    await accepted(world, question_ids=await scope(world))
    assert await interrupted(world) == set()


async def test_policy_needed_counts_a_clients_slots_no_further_than_the_fuse(world: World) -> None:
    await policy_needed(world)
    wide = await world.client(max_concurrent=64)
    for name in OTHERS[:4]:
        await scheduled(world, wide, platform=name)
    answer = await accepted(world, question_ids=await scope(world), target_client_id=wide.id)
    assert answer.interrupt_requested_count == 1


async def test_policy_needed_takes_the_earliest_phase_then_the_newest(world: World, client: Desktop) -> None:
    await policy_needed(world)
    late, old, new = [await scheduled(world, client, platform=name) for name in OTHERS[:3]]
    await world.set("desktop_tasks", late, phase="WAITING")
    await world.set("desktop_tasks", old, started_at=ago(minutes=5))
    await accepted(world, question_ids=await scope(world))
    assert await interrupted(world) == {new}
    await accepted(world, question_ids=await scope(world))
    assert await interrupted(world) == {new, old}


async def test_a_task_preempted_often_enough_is_spared_while_another_victim_exists(
    world: World, client: Desktop
) -> None:
    tired, fresh = [await scheduled(world, client, platform=name) for name in OTHERS[:2]]
    business = (await world.execution(tired))["monitor_task_id"]
    await world.set("monitoring_collect_tasks", business, preemptions=3)
    await accepted(world, question_ids=await scope(world))
    assert await interrupted(world) == {fresh}
    await world.pool.execute("update desktop_tasks set status = 'succeeded' where id = $1", fresh)
    await accepted(world, question_ids=await scope(world))
    assert tired in await interrupted(world)


async def test_recovery_publishing_other_clients_and_received_results_are_left_alone(
    world: World, client: Desktop
) -> None:
    recovery = await scheduled(world, client, platform="doubao")
    await world.set("desktop_tasks", recovery, source="retry_recovery")
    received = await scheduled(world, client, platform="kimi")
    await world.set("desktop_tasks", received, result_received_at=ago(seconds=1))
    elsewhere = await scheduled(world, await world.client(max_concurrent=1), platform="ernie")
    unknown = await scheduled(world, client, platform="zhipu")
    await world.set("desktop_tasks", unknown, status="unknown")
    for status in ("queued", "in_progress"):
        await world.pool.execute(
            "insert into desktop_tasks (id, tenant_id, kind, target_client_id, priority, lane, source, status)"
            " values ($1, $2, 'publish', $3, 12000, 'normal', 'daily_schedule', $4)",
            new_uuid(), world.tenant_id, client.id, status,
        )  # fmt: skip
    answer = await accepted(world, question_ids=await scope(world), target_client_id=client.id)
    assert (answer.interrupt_requested_count, answer.aborted_queued_count) == (0, 0)
    assert await interrupted(world) == set()
    assert await world.outbox("task_control") == []
    for task in (recovery, received, elsewhere):
        assert (await world.execution(task))["status"] == "in_progress"
    assert await world.pool.fetchval("select count(*) from desktop_tasks where kind = 'publish' and status = 'queued'")


async def test_another_requests_high_work_is_left_alone(world: World, client: Desktop) -> None:
    older = await world.request(client_id=client.id, tasks=2)
    running, waiting = [
        await world.leased(client, platform=name, lane=Lane.HIGH, request_id=older, status=status)
        for name, status in (("doubao", "in_progress"), ("kimi", "queued"))
    ]
    answer = await accepted(world, question_ids=await scope(world))
    assert (answer.interrupt_requested_count, answer.aborted_queued_count) == (0, 0)
    assert (await world.execution(running.task_id))["status"] == "in_progress"
    assert (await world.execution(waiting.task_id))["status"] == "queued"


async def test_preempt_false_promotes_and_disturbs_nobody(world: World, client: Desktop) -> None:
    running = await scheduled(world, client, platform="doubao")
    queued = await scheduled(world, client, platform="kimi", status="queued")
    answer = await accepted(world, question_ids=await scope(world), preempt=False)
    assert (answer.promoted_task_count, answer.aborted_queued_count, answer.interrupt_requested_count) == (1, 0, 0)
    assert await interrupted(world) == set()
    assert (await world.execution(running))["status"] == "in_progress"
    assert (await world.execution(queued))["status"] == "queued"
    assert await world.outbox("task_control") == []


async def test_each_batch_learns_how_many_of_its_tasks_gave_way(world: World, client: Desktop) -> None:
    one, two = await world.batch(expected=2), await world.batch(expected=1)
    await scheduled(world, client, platform="doubao", batch_id=one)
    await scheduled(world, client, platform="kimi", batch_id=one, status="queued")
    await scheduled(world, client, platform="ernie", batch_id=two)
    answer = await accepted(world, question_ids=await scope(world))
    signals = {row["key"]: row["payload"] for row in await world.outbox("preempted")}
    expected = {"client_id": str(client.id), "generation": 1, "request_id": str(answer.request_id)}
    for batch, count in ((one, 2), (two, 1)):
        workflow = (await world.row("scheduled_batches", batch))["workflow_id"]
        assert signals[workflow] == {**expected, "count": count}
    yields = await world.pool.fetch("select batch_id, task_count, resumed_at from batch_yields order by batch_id")
    assert [tuple(row) for row in yields] == [(one, 2, None), (two, 1, None)]
    assert await whole(world)


async def test_the_timeouts_are_those_of_the_victims_platforms(world: World, client: Desktop) -> None:
    quiet = await click(world, question_ids=await scope(world))
    assert (quiet.soft_timeout_ms, quiet.hard_timeout_ms) == (15_000, 45_000)
    await scheduled(world, client, platform="perplexity")
    result = await click(world, question_ids=await scope(world))
    assert (result.soft_timeout_ms, result.hard_timeout_ms) == (45_000, 120_000)


async def test_the_desktop_that_holds_the_platform_is_chosen_and_its_task_gives_way(world: World) -> None:
    await world.client(max_concurrent=4)
    holder = await world.client(max_concurrent=1)
    victim = await scheduled(world, holder, platform="qwen")
    answer = await accepted(world, question_ids=await scope(world))
    assert answer.target_client_id == holder.id
    assert await interrupted(world) == {victim}


async def test_a_platform_held_by_work_that_cannot_give_way_chooses_nobody(world: World) -> None:
    idle, holder = await world.client(max_concurrent=4), await world.client(max_concurrent=2)
    older = await world.request(client_id=holder.id)
    await world.leased(holder, platform="qwen", lane=Lane.HIGH, request_id=older, status="in_progress")
    answer = await accepted(world, question_ids=await scope(world))
    assert answer.target_client_id == idle.id


async def test_a_task_on_a_platform_the_desktop_is_logged_out_of_waits_for_another(world: World) -> None:
    await world.plan(platforms=("qwen", "doubao"))
    half = await world.client()
    await world.set("desktop_clients", half.id, platform_sessions={"doubao": "login_required"})
    answer = await accepted(world, question_ids=await scope(world))
    assert (answer.target_client_id, answer.promoted_task_count) == (half.id, 2)
    rows = await world.pool.fetch("select ai_platform_id, target_client_id from monitoring_collect_tasks")
    assert {row["ai_platform_id"]: row["target_client_id"] for row in rows} == {"qwen": half.id, "doubao": None}


async def test_a_preempted_task_of_the_scope_is_no_victim(world: World, client: Desktop) -> None:
    question = await world.question()
    mine = await scheduled(world, client, question=question)
    await task_of_today(world, platform="doubao")
    await accepted(world, question_ids=[question.id, *await scope(world)])
    assert mine not in await interrupted(world)
