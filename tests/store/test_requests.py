"""What becomes of a request besides success: lost clients, deadlines, cancel (1-dispatch §1.5, table of events).

Every effect repeated does nothing more, and none ever touches another request's tasks.
"""

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from domain.ids import new_uuid
from domain.lanes import Lane
from domain.messages import RequestCounters, RequestRef
from domain.protocol import TaskAvailable
from store import requests
from store.database import Pool, transaction
from store.releases import Release, lock_executions, release
from tests.support.clicks import Hands, accepted, finish, lanes_of, rounds, scheduled, whole
from tests.support.world import Desktop, World, ago

Effect = Callable[[Pool, RequestRef], Awaitable[RequestCounters]]


@pytest.fixture
async def world(pool: Pool) -> World:
    """A tenant with a plan on one platform that takes as many at once as the fuse allows."""
    world = await World.create(pool)
    await world.plan()
    await world.platform_limit("qwen", 2)
    return world


@pytest.fixture
async def client(world: World) -> Desktop:
    """A desktop with two slots."""
    return await world.client()


async def ask(world: World, tasks: int = 2, **more: Any) -> UUID:
    """A click on new questions; returns the request."""
    questions = [(await world.question()).id for _ in range(tasks)]
    return (await accepted(world, question_ids=questions, **more)).request_id


def ref(world: World, request_id: UUID, **more: Any) -> RequestRef:
    return RequestRef(request_id=request_id, tenant_id=world.tenant_id, **more)


async def everything(world: World) -> list[Any]:
    """All rows that an effect could change."""
    tables = ("tenants", "monitoring_collect_requests", "monitoring_collect_tasks", "desktop_tasks", "outbox")
    return [await world.pool.fetch(f"select * from {table} order by 1") for table in tables]


async def twice(world: World, effect: Effect, given: RequestRef) -> RequestCounters:
    """Apply the effect; the second time must change nothing."""
    first = await effect(world.pool, given)
    before = await everything(world)
    again = await effect(world.pool, given)
    assert again.touched == 0
    assert await everything(world) == before
    assert await whole(world)
    return first


async def dispatched(world: World, client: Desktop) -> list[TaskAvailable]:
    """Dispatch and lease what waits."""
    await rounds(world.pool)
    return await Hands(world, client).take()


async def controls(world: World) -> list[tuple[str, int]]:
    rows = await world.outbox("task_control")
    return [(row["payload"]["control"], row["payload"]["interrupt_generation"]) for row in rows]


async def test_a_lost_client_gives_back_what_waits_and_keeps_what_runs(world: World, client: Desktop) -> None:
    request = await ask(world, 3)
    running, waiting = await dispatched(world, client)
    await Hands(world, client).start(running)
    await world.pool.execute("delete from outbox")
    counters = await twice(world, requests.release_client, ref(world, request, client_id=client.id))
    assert (counters.target_client_id, counters.hint, counters.status) == (None, "waiting_for_client", "running")
    rows = await world.pool.fetch(
        "select active_task_id, target_client_id, dispatch_lane from monitoring_collect_tasks order by active_task_id"
    )
    assert [tuple(row) for row in rows] == [
        (UUID(running.task_id), client.id, "high"),
        (None, None, "high"),
        (None, None, "high"),
    ]
    attempt = await world.attempt(UUID(waiting.attempt_id))
    assert (attempt["outcome"], (await world.execution(UUID(waiting.task_id)))["status"]) == ("cancelled", "aborted")
    assert [control for control, _ in await controls(world)] == ["canceled"]


async def test_another_lost_client_is_none_of_the_requests_business(world: World, client: Desktop) -> None:
    request, other = await ask(world), await world.client()
    before = await everything(world)
    counters = await requests.release_client(world.pool, ref(world, request, client_id=other.id))
    assert (counters.touched, await everything(world)) == (0, before)


async def victim_of(world: World, client: Desktop, platform: str = "doubao") -> UUID:
    """A scheduled task that runs, with a lease."""
    lease = await world.leased(client, platform=platform, status="in_progress")
    return lease.task_id


async def test_a_hard_timeout_revokes_the_victim_and_the_waiting_tasks_move(world: World) -> None:
    stuck = await world.client(max_concurrent=1)
    victim = await victim_of(world, stuck)
    request = await ask(world, target_client_id=stuck.id)
    await dispatched(world, stuck)
    other = await world.client()
    counters = await twice(world, requests.force_release, ref(world, request, client_id=stuck.id, generation=1))
    row = await world.execution(victim)
    attempt = await world.attempt(row["attempt_id"])
    assert (row["status"], row["lease_token_hash"], attempt["outcome"]) == ("unknown", None, "revoked")
    assert (row["control_flags"]["interrupt_requested"], row["control_flags"]["force_released"]) == (False, True)
    assert (await world.business(row["monitor_task_id"]))["active_task_id"] == victim
    request_row = await world.row("monitoring_collect_requests", request)
    assert (request_row["interrupt_timed_out_count"], counters.target_client_id) == (1, None)
    await rounds(world.pool)
    targets = await world.pool.fetch(
        "select distinct target_client_id from monitoring_collect_tasks where collect_request_id = $1", request
    )
    assert [row["target_client_id"] for row in targets] == [other.id]


async def test_with_no_other_client_the_slot_is_free_and_the_hint_says_what_it_waits_for(world: World) -> None:
    stuck = await world.client(max_concurrent=1)
    await victim_of(world, stuck)
    request = await ask(world, target_client_id=stuck.id)
    counters = await twice(world, requests.force_release, ref(world, request, client_id=stuck.id, generation=1))
    assert (counters.hint, counters.target_client_id) == ("waiting_for_current_task", stuck.id)
    frame, *_ = await dispatched(world, stuck)
    await Hands(world, stuck).start(frame)


async def test_a_victim_of_a_newer_generation_or_another_client_keeps_its_time(world: World, client: Desktop) -> None:
    victim = await victim_of(world, client)
    request = await ask(world)
    for more in ({"generation": 0, "client_id": client.id}, {"generation": 9, "client_id": new_uuid()}):
        assert (await requests.force_release(world.pool, ref(world, request, **more))).touched == 0
    assert (await world.execution(victim))["status"] == "in_progress"


async def test_a_received_result_is_never_revoked(world: World, client: Desktop) -> None:
    victim = await victim_of(world, client)
    request = await ask(world)
    await world.set("desktop_tasks", victim, result_received_at=ago(seconds=1))
    assert (await requests.force_release(world.pool, ref(world, request, generation=9))).touched == 0


async def test_an_undispatched_request_times_out_and_its_tasks_return_with_their_age(world: World) -> None:
    request = await ask(world)
    task = await world.pool.fetchval("select min(id) from monitoring_collect_tasks")
    await world.set("monitoring_collect_tasks", task, origin_lane="retry", origin_priority=60, enqueued_at=ago(hours=5))
    before = await world.business(task)
    counters = await twice(world, requests.expire_request, ref(world, request))
    assert (counters.status, counters.touched) == ("timed_out", 3)
    row = await world.business(task)
    assert (row["dispatch_lane"], row["dispatch_priority"]) == ("retry", 60)
    assert (row["collect_request_id"], row["target_client_id"], row["origin_lane"]) == (None, None, None)
    assert row["enqueued_at"] == before["enqueued_at"]
    assert await lanes_of(world) == {"normal": 1, "retry": 1}
    stored = await world.row("monitoring_collect_requests", request)
    assert (stored["status_reason"], stored["hint"], stored["requested_task_count"]) == ("ttl", None, 2)


async def test_a_request_of_which_something_was_dispatched_does_not_time_out(world: World, client: Desktop) -> None:
    request = await ask(world)
    await dispatched(world, client)
    counters = await twice(world, requests.expire_request, ref(world, request))
    assert (counters.status, counters.touched) == ("dispatching", 0)


async def test_work_that_only_waits_on_a_desktop_unpushed_is_taken_back_at_the_ttl(
    world: World, client: Desktop
) -> None:
    request = await ask(world)
    await rounds(world.pool)
    counters = await twice(world, requests.expire_request, ref(world, request))
    assert counters.status == "timed_out"
    assert await world.pool.fetchval("select count(*) from desktop_tasks where status = 'aborted'") == 2


async def test_the_hard_end_is_partial_with_results_and_the_rest_returns(world: World, client: Desktop) -> None:
    victim = await victim_of(world, client)
    request = await ask(world, 4)
    done, running, *_ = await dispatched(world, client)
    await world.set("desktop_tasks", victim, status="aborted", control_flags={}, lease_expires_at=None)
    await world.pool.execute(
        "update monitoring_collect_tasks set active_task_id = null where active_task_id = $1", victim
    )
    await world.pool.execute("update desktop_task_attempts set ended_at = now() where task_id = $1", victim)
    await Hands(world, client).run(done)
    await Hands(world, client).start(running)
    counters = await twice(world, requests.end_request, ref(world, request))
    assert (counters.status, counters.completed) == ("partial", 1)
    assert await lanes_of(world) == {"normal": 4}
    assert await lanes_of(world, request) == {}
    waiting = "select distinct target_client_id from monitoring_collect_tasks where status = 'pending'"
    assert [row["target_client_id"] for row in await world.pool.fetch(waiting)] == [None]
    await finish(world, running.attempt_id)
    task = await world.business((await world.execution(UUID(running.task_id)))["monitor_task_id"])
    assert task["status"] == "completed"
    assert (await world.row("monitoring_collect_requests", request))["completed_task_count"] == 1
    assert await whole(world)


async def test_the_hard_end_without_a_result_is_timed_out(world: World, client: Desktop) -> None:
    request = await ask(world)
    await dispatched(world, client)
    assert (await twice(world, requests.end_request, ref(world, request))).status == "timed_out"
    stored = await world.row("monitoring_collect_requests", request)
    assert stored["status_reason"] == "hard_end"


async def test_what_runs_at_the_hard_end_and_comes_back_is_scheduled_work_again(world: World, client: Desktop) -> None:
    request = await ask(world, 1)
    [frame] = await dispatched(world, client)
    await Hands(world, client).start(frame)
    await requests.end_request(world.pool, ref(world, request))
    await give_back(world, frame)
    assert await lanes_of(world) == {"normal": 1}
    assert await whole(world)


async def give_back(world: World, frame: TaskAvailable, why: Release = Release.RETURNED) -> None:
    task = UUID(frame.task_id)
    async with transaction(world.pool) as connection:
        await lock_executions(connection, [task])
        await release(connection, [task], why)


async def test_the_end_withdraws_interrupts_with_a_newer_generation(world: World, client: Desktop) -> None:
    victim = await victim_of(world, client)
    request = await ask(world)
    await twice(world, requests.end_request, ref(world, request))
    row = await world.execution(victim)
    assert (row["control_flags"], row["interrupt_request_id"], row["interrupt_generation"]) == ({}, None, 2)
    assert await world.pool.fetchval("select interrupt_generation from tenants") == 2
    assert await controls(world) == [("interrupt_requested", 1), ("interrupt_withdrawn", 2)]


async def test_an_unknown_victim_is_not_asked_to_stop_for_a_request_that_is_over(world: World, client: Desktop) -> None:
    victim = await victim_of(world, client)
    request = await ask(world)
    await world.set("desktop_tasks", victim, status="unknown")
    await requests.end_request(world.pool, ref(world, request))
    assert (await world.execution(victim))["control_flags"] == {}


async def test_a_request_that_is_over_asks_nobody_to_stop_any_more(world: World, client: Desktop) -> None:
    victim = await victim_of(world, client)
    request = await ask(world, 1)
    before = await everything(world)
    assert (await requests.withdraw_interrupts(world.pool, ref(world, request))).touched == 0
    assert await everything(world) == before
    for frame in await dispatched(world, client):
        await Hands(world, client).run(frame)
    await world.pool.execute("delete from outbox")
    counters = await twice(world, requests.withdraw_interrupts, ref(world, request))
    assert (counters.status, counters.touched) == ("succeeded", 1)
    assert await controls(world) == [("interrupt_withdrawn", 2)]
    assert (await world.execution(victim))["control_flags"] == {}


async def test_a_victim_that_a_newer_request_took_over_is_still_asked_to_stop(world: World, client: Desktop) -> None:
    victim = await victim_of(world, client)
    question = (await world.question()).id
    older = (await accepted(world, question_ids=[question])).request_id
    newer = (await accepted(world, question_ids=[question], user_id=2)).request_id
    assert (await requests.withdraw_interrupts(world.pool, ref(world, older))).status == "superseded"
    row = await world.execution(victim)
    assert (row["interrupt_request_id"], row["control_flags"]["interrupt_requested"]) == (newer, True)


async def test_a_cancel_before_anything_ran_fails_at_once(world: World) -> None:
    request = await ask(world)
    counters = await twice(world, requests.cancel_request, ref(world, request))
    assert (counters.status, counters.requested, counters.returned) == ("failed", 2, 2)
    stored = await world.row("monitoring_collect_requests", request)
    assert (stored["status_reason"], stored["finished_at"] is not None) == ("cancelled", True)
    assert await lanes_of(world) == {"normal": 2}


@pytest.mark.parametrize(("succeeded", "status"), [(True, "partial"), (False, "failed")])
async def test_a_cancel_lets_what_runs_finish_and_count(
    world: World, client: Desktop, succeeded: bool, status: str
) -> None:
    victim = await victim_of(world, client)
    await world.set("desktop_clients", client.id, max_concurrent=4)
    request = await ask(world, 3)
    running, *_ = await dispatched(world, client)
    await Hands(world, client).start(running)
    counters = await twice(world, requests.cancel_request, ref(world, request))
    assert (counters.status, counters.requested, counters.returned) == ("running", 3, 2)
    assert (await world.execution(victim))["control_flags"] == {}
    assert await lanes_of(world) == {"high": 1, "normal": 3}
    business = (await world.execution(UUID(running.task_id)))["monitor_task_id"]
    await world.set("monitoring_collect_tasks", business, max_attempts=1)
    await finish(world, running.attempt_id, succeeded=succeeded)
    stored = await world.row("monitoring_collect_requests", request)
    assert (stored["status"], stored["status_reason"]) == (status, "cancelled")
    assert len(await world.outbox("tasks_terminal")) == 1
    assert await whole(world)


@pytest.mark.parametrize("ending", ["returned", "preempted", "failed with attempts left"])
async def test_a_cancelled_request_does_not_wait_for_a_task_that_came_back_undone(
    world: World, client: Desktop, ending: str
) -> None:
    request = await ask(world, 2)
    running, *_ = await dispatched(world, client)
    await Hands(world, client).start(running)
    await requests.cancel_request(world.pool, ref(world, request))
    if ending == "failed with attempts left":
        await finish(world, running.attempt_id, succeeded=False)
    else:
        await give_back(world, running, Release(ending))
    stored = await world.row("monitoring_collect_requests", request)
    assert (stored["status"], stored["status_reason"]) == ("failed", "cancelled")
    assert (stored["requested_task_count"], stored["returned_task_count"]) == (2, 2)
    assert await lanes_of(world) == {"normal": 2}
    [signal] = await world.outbox("tasks_terminal")
    assert signal["payload"] == {"completed": 0, "failed": 0, "remaining": 0, "returned": 2}
    assert await whole(world)


@pytest.mark.parametrize(
    "effect",
    [
        requests.release_client,
        requests.force_release,
        requests.expire_request,
        requests.end_request,
        requests.cancel_request,
    ],
)
async def test_no_effect_touches_another_request_or_a_request_that_is_over(
    world: World, client: Desktop, effect: Effect
) -> None:
    mine, other = await ask(world, 1), await ask(world, 1)
    await dispatched(world, client)
    kept = (
        "select t.*, d.* from monitoring_collect_tasks t join desktop_tasks d on d.id = t.active_task_id"
        " where collect_request_id = $1"
    )
    before = await world.pool.fetch(kept, other)
    assert len(before) == 1
    given = ref(world, mine, client_id=client.id, generation=9)
    await effect(world.pool, given)
    assert await world.pool.fetch(kept, other) == before
    assert (await world.row("monitoring_collect_requests", other))["status"] == "dispatching"
    await world.set("monitoring_collect_requests", mine, status="succeeded")
    rows = await everything(world)
    assert (await effect(world.pool, given)).touched == 0
    assert await everything(world) == rows


async def test_another_tenants_reference_changes_nothing(world: World, client: Desktop) -> None:
    request = await ask(world)
    other = await World.create(world.pool, "Other")
    before = await everything(world)
    await requests.cancel_request(world.pool, ref(other, request))
    assert await everything(world) == before


async def test_a_failed_attempt_of_a_live_request_stays_high_until_its_attempts_are_used_up(
    world: World, client: Desktop
) -> None:
    request = await ask(world, 1)
    for attempt in range(3):
        assert await lanes_of(world, request) == {"high": 1}, attempt
        [frame] = await dispatched(world, client)
        await Hands(world, client).run(frame, succeeded=False)
    stored = await world.row("monitoring_collect_requests", request)
    assert (stored["status"], stored["failed_task_count"]) == ("failed", 1)
    assert await whole(world)


async def test_the_queue_of_scheduled_work_is_left_alone_by_a_request_that_ends(world: World, client: Desktop) -> None:
    request = await ask(world, preempt=False)
    queued = await scheduled(world, client, platform="doubao", status="queued", lane=Lane.NORMAL)
    await requests.end_request(world.pool, ref(world, request))
    assert (await world.execution(queued))["status"] == "queued"
