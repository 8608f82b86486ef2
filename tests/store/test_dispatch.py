"""A round's reading and its one write (1-dispatch §1.3, §1.4)."""

import asyncio
from uuid import UUID

import asyncpg
import pytest

from domain.ids import new_uuid
from domain.lanes import Lane
from domain.messages import RequestRef
from domain.rounds import Pick, plan_round
from store import requests
from store.database import Pool, transaction
from store.dispatch import HEADS, Owner, Reading, add_scheduled, read_round, read_urgent
from store.dispatch_write import write_round
from store.windows import frees_in, prune
from tests.support.clicks import Hands, accepted, rounds, scheduled, whole
from tests.support.world import Desktop, World, ago

MANY = ("qwen", "doubao", "kimi", "deepseek", "ernie", "zhipu", "google", "groq")


@pytest.fixture
async def world(pool: Pool) -> World:
    """A tenant without anything to do."""
    return await World.create(pool)


@pytest.fixture
async def client(world: World) -> Desktop:
    """Its only desktop."""
    return await world.client()


async def reading(pool: Pool) -> Reading:
    async with transaction(pool) as connection:
        return await read_round(connection)


async def write(pool: Pool, read: Reading, picks: tuple[Pick, ...] | None = None) -> int:
    chosen = plan_round(read.state, read.candidates).picks if picks is None else picks
    async with transaction(pool) as connection:
        return len((await write_round(connection, chosen, read.generations)).dispatched)


async def dispatched(world: World) -> list[int]:
    """Business tasks in the order in which they were dispatched."""
    rows = await world.pool.fetch(
        "select d.monitor_task_id from outbox o join desktop_tasks d on d.id = (o.payload ->> 'task_id')::uuid"
        " where o.kind = 'task_available' order by o.id"
    )
    return [row["monitor_task_id"] for row in rows]


async def past_dispatches(world: World, number: int, seconds: float, *, high: int = 0) -> None:
    """Dispatches of the recent past that hold nothing any more."""
    await world.pool.execute(
        "insert into dispatch_ledger (tenant_id, scheduled, high, at)"
        " values ($1, $2, $3, now() - make_interval(secs => $4))",
        world.tenant_id, number, high, seconds,
    )  # fmt: skip


async def frees(read: Reading, pool: Pool) -> float | None:
    """When the first full window of the reading's plan opens."""
    async with transaction(pool) as connection:
        return await frees_in(connection, plan_round(read.state, read.candidates).full_minutes)


async def test_a_dispatch_is_an_execution_task_a_hold_and_a_hint(world: World, client: Desktop) -> None:
    business = await world.business_task(lane=Lane.RETRY)
    await world.set(
        "monitoring_collect_tasks", business, dispatch_priority=70, enqueued_at=ago(hours=1), dispatch_attempts=1
    )
    assert await rounds(world.pool) == 1
    row = await world.business(business)
    execution = await world.execution(row["active_task_id"])
    assert (row["status"], row["dispatch_attempts"]) == ("pending", 1)
    assert (execution["status"], execution["lane"], execution["priority"]) == ("queued", "retry", 70)
    assert (execution["source"], execution["enqueued_at"]) == ("retry_recovery", row["enqueued_at"])
    assert execution["scheduler_group_key"] == f"qid:{row['question_id']}"
    assert (execution["lease_token_hash"], execution["attempt"], execution["target_client_id"]) == (None, 0, client.id)
    [hint] = await world.outbox("task_available")
    assert (hint["channel"], hint["key"], hint["client_id"]) == ("amqp", f"monitor.retry.{client.id}", client.id)
    assert hint["payload"] == {
        "type": "task_available",
        "task_id": str(row["active_task_id"]),
        "client_id": str(client.id),
    }
    assert await whole(world)


async def test_a_write_that_breaks_leaves_nothing(world: World, client: Desktop) -> None:
    business = await world.business_task()
    read = await reading(world.pool)
    await world.pool.execute("alter table outbox add constraint broken check (kind <> 'task_available')")
    with pytest.raises(asyncpg.CheckViolationError):
        await write(world.pool, read)
    assert (await world.business(business))["active_task_id"] is None
    assert await world.pool.fetchval("select count(*) from desktop_tasks") == 0


async def test_lanes_go_in_order_and_inside_a_lane_priority_then_age(world: World, client: Desktop) -> None:
    order = [
        (Lane.NORMAL_BOOSTED, 1500, 1),
        (Lane.NORMAL_BOOSTED, 1000, 9),
        (Lane.NORMAL, 200, 1),
        (Lane.NORMAL, 100, 9),
        (Lane.NORMAL, 100, 5),
        (Lane.RETRY, 50, 30),
    ]
    tasks = []
    for platform, (lane, priority, hours) in zip(MANY, order, strict=False):
        task = await world.business_task(platform=platform, lane=lane)
        await world.set("monitoring_collect_tasks", task, dispatch_priority=priority, enqueued_at=ago(hours=hours))
        tasks.append(task)
    await rounds(world.pool)
    assert await dispatched(world) == tasks


async def test_high_goes_first_and_no_new_normal_to_its_client(world: World, client: Desktop) -> None:
    normal = await world.business_task(platform="doubao")
    high = await world.business_task(lane=Lane.HIGH, request_id=await world.request(), client_id=client.id)
    await rounds(world.pool)
    assert await dispatched(world) == [high]
    hands = Hands(world, client)
    [frame] = await hands.take()
    await hands.start(frame)
    await rounds(world.pool)
    assert await dispatched(world) == [high]
    elsewhere = await world.client()
    await rounds(world.pool)
    assert await dispatched(world) == [high, normal]
    assert (await world.execution((await world.business(normal))["active_task_id"]))["target_client_id"] == elsewhere.id


@pytest.mark.parametrize("budget", ["cluster", "tenant", "concurrency", "depth", "platform"])
async def test_each_budget_stops_scheduled_work(world: World, client: Desktop, budget: str) -> None:
    if budget == "cluster":
        await world.setting("cluster_per_minute", 10)
        await past_dispatches(world, 8, 5)
    elif budget == "tenant":
        await world.setting("tenant_per_minute", 8)
        await past_dispatches(world, 8, 5)
    elif budget == "concurrency":
        for platform in ("kimi", "ernie"):
            await scheduled(world, client, platform=platform)
    elif budget == "depth":
        await world.setting("client_queue_depth", 1)
        await scheduled(world, client, platform="kimi", status="queued")
    else:
        await scheduled(world, await world.client(), status="queued")
    waiting = await world.business_task()
    await rounds(world.pool)
    assert await dispatched(world) == []
    await world.pool.execute(
        "delete from desktop_tasks where id <> coalesce((select active_task_id from"
        " monitoring_collect_tasks where id = $1), $2)",
        waiting,
        new_uuid(),
    )
    await world.pool.execute("delete from dispatch_ledger")
    await rounds(world.pool)
    assert waiting in await dispatched(world)


@pytest.mark.parametrize("budget", ["cluster", "tenant", "depth"])
async def test_high_passes_the_tenants_minute_the_queue_depth_and_the_share_of_scheduled_work(
    world: World, client: Desktop, budget: str
) -> None:
    if budget == "depth":
        await world.setting("client_queue_depth", 1)
        await scheduled(world, client, platform="kimi", status="queued")
    else:
        await world.setting(f"{budget}_per_minute", 5)
        await past_dispatches(world, 20, 5)
    high = await world.business_task(lane=Lane.HIGH, request_id=await world.request(), client_id=client.id)
    await rounds(world.pool)
    assert await dispatched(world) == [high]


@pytest.mark.parametrize("budget", ["fuse", "concurrency", "platform"])
async def test_high_waits_for_the_fuse_a_slot_and_the_platform(world: World, client: Desktop, budget: str) -> None:
    if budget == "fuse":
        await past_dispatches(world, 500, 5)
    elif budget == "concurrency":
        for platform in ("kimi", "ernie"):
            await scheduled(world, client, platform=platform)
    else:
        await scheduled(world, await world.client())
    await world.business_task(lane=Lane.HIGH, request_id=await world.request(), client_id=client.id)
    await rounds(world.pool)
    assert await dispatched(world) == []


async def test_a_sliding_minute_gives_back_only_what_has_left_it(world: World, client: Desktop) -> None:
    await world.setting("tenant_per_minute", 6)
    await past_dispatches(world, 4, 62)
    await past_dispatches(world, 3, 58)
    for platform in ("qwen", "doubao", "kimi", "openai"):
        await world.platform_limit(platform, 2)
        for _ in range(2):
            await world.business_task(platform=platform)
    await rounds(world.pool)
    assert len(await dispatched(world)) == 3
    read = await reading(world.pool)
    opens = await frees(read, world.pool)
    assert opens is not None
    assert opens <= 2


async def test_a_tenant_with_an_accept_since_the_reading_is_skipped_and_others_go_on(
    world: World, client: Desktop
) -> None:
    await world.plan()
    stale = await world.business_task(platform="doubao")
    other = await World.create(world.pool, "Other")
    await other.client()
    theirs = await other.business_task()
    read = await reading(world.pool)
    await accepted(world, question_ids=[(await world.question()).id])
    assert await write(world.pool, read) == 1
    assert await dispatched(world) == [theirs]
    assert (await world.business(stale))["active_task_id"] is None


async def test_a_tenant_whose_accept_is_in_its_transaction_is_not_waited_for(world: World, client: Desktop) -> None:
    await world.business_task()
    read = await reading(world.pool)
    async with transaction(world.pool) as accepting:
        await accepting.execute("update tenants set interrupt_generation = interrupt_generation + 1")
        assert await asyncio.wait_for(write(world.pool, read), 5) == 0


async def test_two_writers_of_one_reading_dispatch_each_task_once(world: World, client: Desktop) -> None:
    tasks = [await world.business_task(platform=platform) for platform in MANY]
    read = await reading(world.pool)
    written = await asyncio.gather(*(write(world.pool, read) for _ in range(4)))
    assert sum(written) == len(tasks)
    assert sorted(await dispatched(world)) == tasks
    assert await whole(world)


@pytest.mark.parametrize(
    "change",
    ["status = 'skipped'", "dispatch_lane = 'retry', dispatch_priority = 50", "target_client_id = $2"],
)
async def test_a_task_that_changed_since_the_reading_is_left_alone(world: World, client: Desktop, change: str) -> None:
    task, elsewhere = await world.business_task(), await world.client(online=False)
    read = await reading(world.pool)
    arguments = (elsewhere.id,) if "$2" in change else ()
    await world.pool.execute(f"update monitoring_collect_tasks set {change} where id = $1", task, *arguments)
    assert await write(world.pool, read) == 0
    assert await world.pool.fetchval("select count(*) from desktop_tasks") == 0


async def test_a_live_execution_task_bars_a_second_one(world: World, client: Desktop) -> None:
    task = await world.business_task()
    read = await reading(world.pool)
    await world.execution_task(task, client.id)
    await world.set("monitoring_collect_tasks", task, active_task_id=None)
    assert await write(world.pool, read) == 0


async def test_a_slot_under_interrupt_is_free_for_its_preemptor_alone(world: World) -> None:
    await world.plan()
    client = await world.client(max_concurrent=1)
    await scheduled(world, client, platform="doubao")
    rival = await world.request(client_id=client.id)
    theirs = await world.business_task(platform="kimi", lane=Lane.HIGH, request_id=rival, client_id=client.id)
    answer = await accepted(world, question_ids=[(await world.question()).id])
    await rounds(world.pool)
    mine = await world.pool.fetchval(
        "select id from monitoring_collect_tasks where collect_request_id = $1", answer.request_id
    )
    assert await dispatched(world) == [mine]
    assert (await world.business(theirs))["active_task_id"] is None


async def test_a_platform_under_interrupt_on_the_same_client_is_free_for_its_preemptor(world: World) -> None:
    await world.plan()
    client = await world.client(max_concurrent=1)
    await scheduled(world, client, platform="qwen")
    await accepted(world, question_ids=[(await world.question()).id])
    assert await rounds(world.pool) == 1


async def test_one_requests_refused_tasks_do_not_hide_anothers_promised_slot(world: World) -> None:
    client = await world.client(max_concurrent=1)
    victim = await world.leased(client, status="in_progress")
    first, second = [await world.request(client_id=client.id, generation=n) for n in (1, 2)]
    for _ in range(HEADS):
        await world.business_task(lane=Lane.HIGH, request_id=first, client_id=client.id)
    promised = await world.business_task(lane=Lane.HIGH, request_id=second, client_id=client.id)
    await world.interrupt(victim.task_id, second, 2)
    assert await rounds(world.pool) == 1
    assert await dispatched(world) == [promised]


async def test_a_slot_is_promised_only_while_the_order_to_stop_stands(world: World) -> None:
    await world.plan()
    client = await world.client(max_concurrent=1)
    task = await scheduled(world, client, platform="qwen")
    await accepted(world, question_ids=[(await world.question()).id])
    await world.set("desktop_tasks", task, control_flags={"interrupt_requested": False})
    assert await rounds(world.pool) == 0
    await world.set("desktop_tasks", task, control_flags={"interrupt_requested": True})
    assert await rounds(world.pool) == 1


async def test_tasks_bound_to_a_busy_client_do_not_hide_those_of_others(world: World) -> None:
    busy, idle = await world.client(max_concurrent=1), await world.client()
    await scheduled(world, busy, platform="doubao")
    one, two = await world.request(client_id=busy.id), await world.request(client_id=idle.id)
    for _ in range(HEADS + 5):
        await world.business_task(lane=Lane.HIGH, request_id=one, client_id=busy.id)
    task = await world.business_task(lane=Lane.HIGH, request_id=two, client_id=idle.id)
    await rounds(world.pool)
    assert await dispatched(world) == [task]


async def test_a_workspace_without_a_client_does_not_hide_the_others_work(world: World, client: Desktop) -> None:
    lonely = await world.pool.fetchval(
        "insert into workspaces (tenant_id, name) values ($1, 'lonely') returning id", world.tenant_id
    )
    for _ in range(HEADS + 5):
        await world.set("monitoring_collect_tasks", await world.business_task(), workspace_id=lonely)
    task = await world.business_task()
    await rounds(world.pool)
    assert await dispatched(world) == [task]


async def test_retry_waits_while_much_normal_work_waits_even_on_one_platform(world: World, client: Desktop) -> None:
    for _ in range(60):
        await world.business_task()
    retry = await world.business_task(platform="doubao", lane=Lane.RETRY)
    await rounds(world.pool)
    assert retry not in await dispatched(world)
    await world.pool.execute(
        "update monitoring_collect_tasks set status = 'skipped' where id in (select id from monitoring_collect_tasks"
        " where active_task_id is null and dispatch_lane = 'normal' limit 20)"
    )
    await rounds(world.pool)
    assert retry in await dispatched(world)


async def test_platform_concurrency_is_the_tenants_or_everybodys(world: World, client: Desktop) -> None:
    other = await World.create(world.pool, "Other")
    await scheduled(other, await other.client())
    await world.setting("platform_concurrency_scope", "global")
    task = await world.business_task()
    await rounds(world.pool)
    assert await dispatched(world) == []
    await world.setting("platform_concurrency_scope", "tenant")
    await rounds(world.pool)
    assert await dispatched(world) == [task]


async def test_an_unknown_task_holds_its_platform_but_no_place_in_the_queue(world: World, client: Desktop) -> None:
    await world.setting("client_queue_depth", 1)
    unknown = await scheduled(world, client)
    await world.set("desktop_tasks", unknown, status="unknown")
    same, another = await world.business_task(), await world.business_task(platform="doubao")
    await rounds(world.pool)
    assert await dispatched(world) == [another]
    assert (await world.business(same))["active_task_id"] is None


async def test_a_task_waits_until_its_time_has_come(world: World, client: Desktop) -> None:
    task = await world.business_task()
    await world.set("monitoring_collect_tasks", task, dispatch_after=ago(seconds=-60))
    await rounds(world.pool)
    assert await dispatched(world) == []


@pytest.mark.parametrize("change", ["paused = true", "healthy = false", "online = false", "revoked_at = now()"])
async def test_a_client_that_may_not_work_gets_nothing(world: World, client: Desktop, change: str) -> None:
    await world.pool.execute(f"update desktop_clients set {change}")
    await world.business_task()
    assert await rounds(world.pool) == 0


async def holds_of(world: World, client_id: UUID) -> int:
    found: int = await world.pool.fetchval("select count(*) from desktop_tasks where target_client_id = $1", client_id)
    return found


async def test_unbound_work_goes_to_the_client_with_most_room_and_the_fewest_aborts(world: World) -> None:
    shaky, steady = await world.client(), await world.client()
    lease = await world.leased(shaky, platform="xai")
    await world.set("desktop_task_attempts", lease.attempt_id, ended_at=ago(seconds=5), outcome="returned")
    await world.set("desktop_tasks", lease.task_id, status="aborted", lease_expires_at=None)
    await world.set("monitoring_collect_tasks", lease.business_id, status="skipped", active_task_id=None)
    for platform in ("qwen", "doubao", "kimi"):
        await world.business_task(platform=platform)
    await rounds(world.pool)
    assert (await holds_of(world, steady.id), await holds_of(world, shaky.id)) == (2, 2)


async def test_the_window_that_refused_is_waited_for_until_it_is_below_its_limit(world: World, client: Desktop) -> None:
    other = await World.create(world.pool, "Other")
    await past_dispatches(other, 1, 59)
    await world.setting("tenant_per_minute", 2)
    for seconds in (50, 20, 10):
        await past_dispatches(world, 1, seconds)
    await world.business_task()
    read = await reading(world.pool)
    # Three in a window of two: the second oldest must have left it, too.
    assert await frees(read, world.pool) == pytest.approx(40, abs=9)


async def test_a_window_that_never_opens_is_not_waited_for(world: World, client: Desktop) -> None:
    await world.setting("tenant_per_minute", 0)
    await past_dispatches(world, 1, 5)
    await world.business_task()
    read = await reading(world.pool)
    assert await frees(read, world.pool) is None


async def test_while_the_scheduled_share_is_used_up_only_high_work_is_read(world: World, client: Desktop) -> None:
    await world.setting("cluster_per_minute", 10)
    await past_dispatches(world, 8, 5)
    await world.business_task()
    high = await world.business_task(lane=Lane.HIGH, request_id=await world.request(), client_id=client.id)
    read = await reading(world.pool)
    assert [task.task_id for task in read.candidates] == [high]
    assert await frees(read, world.pool) == pytest.approx(55, abs=9)


async def test_high_work_of_an_open_request_never_goes_unbound(world: World, client: Desktop) -> None:
    request = await world.request()
    task = await world.business_task(lane=Lane.HIGH, request_id=request)
    read = await reading(world.pool)
    assert read.awaits_binding
    assert await write(world.pool, read) == 0
    await world.set("monitoring_collect_requests", request, status="failed")
    read = await reading(world.pool)
    assert not read.awaits_binding
    assert await write(world.pool, read) == 1
    assert await dispatched(world) == [task]


@pytest.mark.parametrize("change", ["lost_at = now(), online = false", "online = false", "revoked_at = now()"])
async def test_a_client_that_was_lost_since_the_reading_gets_nothing(
    world: World, client: Desktop, change: str
) -> None:
    await world.business_task()
    read = await reading(world.pool)
    await world.pool.execute(f"update desktop_clients set {change}")
    assert await write(world.pool, read) == 0


async def test_a_task_released_from_its_client_since_the_reading_is_left_to_the_binding(
    world: World, client: Desktop
) -> None:
    request = await world.request(client_id=client.id)
    await world.business_task(lane=Lane.HIGH, request_id=request, client_id=client.id)
    read = await reading(world.pool)
    given = RequestRef(request_id=request, tenant_id=world.tenant_id, client_id=client.id)
    await requests.release_client(world.pool, given)
    assert await write(world.pool, read) == 0


async def read_where_there_is_room(pool: Pool, owner: Owner | None = None) -> list[int]:
    """Business tasks of a reading that looks only where something could go."""
    async with transaction(pool) as connection:
        read = await add_scheduled(connection, await read_urgent(connection, owner), look_everywhere=False)
    return sorted(task.task_id for task in read.candidates)


async def test_as_many_heads_are_read_as_the_platform_has_room(world: World, client: Desktop) -> None:
    await scheduled(world, client, platform="kimi", status="queued")
    await world.platform_limit("doubao", 2)
    first = [await world.business_task(platform=platform) for platform in ("qwen", "kimi", "doubao", "doubao")]
    for platform in ("qwen", "kimi", "doubao"):
        await world.business_task(platform=platform)
    assert await read_where_there_is_room(world.pool) == [first[0], first[2], first[3]]
    assert len((await reading(world.pool)).candidates) == 4


@pytest.mark.parametrize("change", ["paused = true", "max_concurrent = 1", "max_queue_depth = 1"])
async def test_nothing_is_read_for_a_workspace_whose_clients_have_no_room(
    world: World, client: Desktop, change: str
) -> None:
    await world.business_task()
    await scheduled(world, client, platform="kimi")
    await scheduled(world, client, platform="ernie", status="queued")
    assert len(await read_where_there_is_room(world.pool)) == 1
    await world.pool.execute(f"update desktop_clients set {change}")
    assert await read_where_there_is_room(world.pool) == []


async def test_a_retry_is_read_only_while_it_may_go(world: World, client: Desktop) -> None:
    retry = await world.business_task(platform="doubao", lane=Lane.RETRY)
    assert await read_where_there_is_room(world.pool) == [retry]
    await world.setting("retry_low_water", 2)
    normal = [await world.business_task() for _ in range(2)]
    assert await read_where_there_is_room(world.pool) == [normal[0]]
    await world.set("monitoring_collect_tasks", normal[1], status="skipped")
    assert await read_where_there_is_room(world.pool) == [retry, normal[0]]
    high = await world.business_task(lane=Lane.HIGH, request_id=await world.request(), client_id=client.id)
    await world.client()
    assert await read_where_there_is_room(world.pool) == [normal[0], high]


async def test_an_owner_reads_its_own_tenants_and_the_window_of_all(world: World, client: Desktop) -> None:
    other = await World.create(world.pool, "Other")
    await other.client()
    mine, theirs = await world.business_task(), await other.business_task()
    await past_dispatches(other, 3, 5)
    await world.setting("coordinator_shards", 2)
    for one, task in ((world, mine), (other, theirs)):
        owner = Owner(one.tenant_id % 2, 1)
        assert await read_where_there_is_room(world.pool, owner) == [task]
        async with transaction(world.pool) as connection:
            read = await read_urgent(connection, owner)
        assert set(read.generations) == {one.tenant_id}
        assert read.state.cluster_minute == 3


@pytest.mark.parametrize("change", ["desktop_clients set paused = true", "tenants set paused = true"])
async def test_what_was_paused_since_the_reading_gets_nothing(world: World, client: Desktop, change: str) -> None:
    await world.business_task()
    read = await reading(world.pool)
    await world.pool.execute(f"update {change}")
    assert await write(world.pool, read) == 0


async def test_the_ledger_counts_each_dispatch_in_its_transaction(world: World, client: Desktop) -> None:
    other = await World.create(world.pool, "Other")
    elsewhere = await other.client()
    for platform in ("qwen", "doubao"):
        await world.business_task(platform=platform)
    await other.business_task(lane=Lane.HIGH, request_id=await other.request(), client_id=elsewhere.id)
    await rounds(world.pool)
    rows = await world.pool.fetch(
        "select tenant_id, sum(scheduled), sum(high) from dispatch_ledger group by 1 order by 1"
    )
    assert [tuple(row) for row in rows] == [(world.tenant_id, 2, 0), (other.tenant_id, 0, 1)]
    state = (await reading(world.pool)).state
    assert (state.cluster_minute, state.scheduled_minute) == (3, 2)
    assert state.tenant_minute == {world.tenant_id: 2, other.tenant_id: 1}
    assert state.tenant_scheduled_minute == {world.tenant_id: 2, other.tenant_id: 0}


async def test_the_ledger_forgets_what_no_window_sees_and_nothing_else(world: World) -> None:
    for seconds in (300, 121, 61, 5):
        await past_dispatches(world, 1, seconds)
    async with transaction(world.pool) as connection:
        await prune(connection)
    assert await world.pool.fetchval("select count(*) from dispatch_ledger") == 2


async def test_a_picked_task_with_a_live_execution_task_is_barred_and_its_round_goes_on(
    world: World, client: Desktop
) -> None:
    bad, good = await world.business_task(), await world.business_task(platform="doubao")
    read = await reading(world.pool)
    await world.execution_task(bad, client.id)
    await world.set("monitoring_collect_tasks", bad, active_task_id=None)
    async with transaction(world.pool) as connection:
        written = await write_round(connection, plan_round(read.state, read.candidates).picks, read.generations)
    assert (written.dispatched, written.barred) == ({good}, {bad})


async def test_barred_tasks_hide_nobody_behind_them(world: World, client: Desktop) -> None:
    barred, behind = await world.business_task(), await world.business_task()
    async with transaction(world.pool) as connection:
        read = await add_scheduled(connection, await read_urgent(connection, barred=[barred]))
    assert [task.task_id for task in read.candidates] == [behind]


async def test_a_tenants_weight_pause_and_windows_reach_the_rules(world: World, client: Desktop) -> None:
    await world.pool.execute("update tenants set fair_weight = 7, paused = true, dispatch_per_minute = 9")
    await world.setting("normal_floor", 0.3)
    state = (await reading(world.pool)).state
    assert state.weights == {world.tenant_id: 7}
    assert state.paused_tenants == {world.tenant_id}
    assert state.normal_floor == 0.3
    assert state.limits[client.id].tenant_per_minute == 9


async def test_scheduled_work_is_read_beyond_its_share_for_the_floor_beside_high(world: World, client: Desktop) -> None:
    await world.setting("cluster_per_minute", 10)
    await past_dispatches(world, 1, 5, high=9)
    normal = await world.business_task(platform="doubao")
    # Also after high was drained: what filled the window is what counts.
    assert await read_where_there_is_room(world.pool) == [normal]
    high = await world.business_task(lane=Lane.HIGH, request_id=await world.request(), client_id=client.id)
    await world.client()
    assert await read_where_there_is_room(world.pool) == [normal, high]
    await past_dispatches(world, 1, 5)
    assert await read_where_there_is_room(world.pool) == [high]
