"""An interrupt has one preemptor and one end (1-dispatch §1.5).

asked = settled + timed out + withdrawn, for every request at its end, and nobody is left asked to stop for a request
that is over.
"""

from typing import Any
from uuid import UUID

import pytest

from domain.dispatch_settings import PreemptPolicy
from domain.messages import RequestRef
from store import leases, requests
from store.database import Pool
from tests.support.clicks import Hands, accepted, finish, policy_needed, rounds, whole
from tests.support.world import Desktop, Lease, World

OTHERS = ("doubao", "kimi", "ernie", "zhipu")


@pytest.fixture
async def world(pool: Pool) -> World:
    """A tenant with a plan on one platform that takes two tasks at once."""
    world = await World.create(pool)
    await world.plan()
    await world.platform_limit("qwen", 2)
    return world


@pytest.fixture
async def client(world: World) -> Desktop:
    """A desktop with two slots."""
    return await world.client()


async def victims_on(world: World, client: Desktop, count: int = 2) -> list[Lease]:
    return [await world.leased(client, platform=name, status="in_progress") for name in OTHERS[:count]]


async def ask(world: World, tasks: int = 1, **more: Any) -> UUID:
    questions = [(await world.question()).id for _ in range(tasks)]
    return (await accepted(world, question_ids=questions, **more)).request_id


def ref(world: World, request: UUID, **more: Any) -> RequestRef:
    return RequestRef(request_id=request, tenant_id=world.tenant_id, **more)


async def preemptors(world: World) -> dict[UUID, UUID | None]:
    """Who has asked whom, among what runs."""
    rows = await world.pool.fetch(
        "select id, interrupt_request_id from desktop_tasks"
        " where status = 'in_progress' and (control_flags ->> 'interrupt_requested')::boolean"
    )
    return {row["id"]: row["interrupt_request_id"] for row in rows}


async def interrupts(world: World, request: UUID) -> tuple[int, int, int, int]:
    """Asked, settled, timed out, withdrawn."""
    row = await world.row("monitoring_collect_requests", request)
    names = ("requested", "settled", "timed_out", "withdrawn")
    asked, settled, timed_out, withdrawn = (row[f"interrupt_{name}_count"] for name in names)
    return asked, settled, timed_out, withdrawn


async def give_way(world: World, client: Desktop, lease: Lease) -> None:
    generation = (await world.execution(lease.task_id))["interrupt_generation"]
    call = leases.InterruptAckCall(lease_token=lease.token, interrupt_generation=generation)
    await leases.acknowledge_interrupt(world.pool, Hands(world, client).identity, lease.task_id, call)


async def test_a_victim_stays_its_first_preemptors(world: World, client: Desktop) -> None:
    one, two = await victims_on(world, client)
    first, second = await ask(world), await ask(world)
    assert await preemptors(world) == {one.task_id: first, two.task_id: first}
    assert (await interrupts(world, first), await interrupts(world, second)) == ((2, 0, 0, 0), (0, 0, 0, 0))
    for victim in (one, two):
        await give_way(world, client, victim)
    assert (await interrupts(world, first), await interrupts(world, second)) == ((2, 2, 0, 0), (0, 0, 0, 0))
    await rounds(world.pool)
    assert [frame.lane for frame in await Hands(world, client).take()] == ["high", "high"]
    assert await whole(world)


async def test_policy_needed_asks_for_the_second_request_only_whom_the_first_has_left(
    world: World, client: Desktop
) -> None:
    await policy_needed(world)
    await victims_on(world, client)
    first, second = await ask(world), await ask(world)
    assert sorted((await preemptors(world)).values()) == sorted([first, second])
    assert (await interrupts(world, first), await interrupts(world, second)) == ((1, 0, 0, 0), (1, 0, 0, 0))


async def test_asking_again_for_the_same_request_asks_nobody_twice(world: World, client: Desktop) -> None:
    """A task that comes back to its client makes room there again."""
    await victims_on(world, client)
    request = await ask(world, 2)
    await world.pool.execute(
        "update monitoring_collect_tasks set target_client_id = null where collect_request_id = $1", request
    )
    await rounds(world.pool)
    assert (await interrupts(world, request))[0] == 2
    assert set((await preemptors(world)).values()) == {request}


async def finish_all(world: World, client: Desktop, lane: str = "high") -> None:
    await rounds(world.pool)
    for frame in await Hands(world, client).take():
        if frame.lane == lane:
            await Hands(world, client).run(frame)


@pytest.mark.parametrize("end", ["finished", "cancelled", "hard end"])
async def test_a_request_that_ends_leaves_its_victims_to_the_one_that_waits_there(
    world: World, client: Desktop, end: str
) -> None:
    await world.set("desktop_clients", client.id, max_concurrent=3)
    one, two = await victims_on(world, client)
    first, second = await ask(world), await ask(world)
    if end == "finished":
        [task] = await world.pool.fetch("select id from monitoring_collect_tasks where collect_request_id = $1", first)
        await world.pool.execute("update monitoring_collect_tasks set dispatch_after = now() + interval '1 hour'")
        await world.set("monitoring_collect_tasks", task["id"], dispatch_after=None)
        await finish_all(world, client)
        counters = await requests.withdraw_interrupts(world.pool, ref(world, first))
        assert counters.status == "succeeded"
    elif end == "cancelled":
        await requests.cancel_request(world.pool, ref(world, first))
    else:
        await requests.end_request(world.pool, ref(world, first))
    assert await preemptors(world) == {one.task_id: second, two.task_id: second}
    assert (await interrupts(world, first), await interrupts(world, second)) == ((2, 0, 0, 2), (2, 0, 0, 0))
    assert (await world.execution(one.task_id))["interrupt_generation"] == 1
    orders = [row["payload"]["control"] for row in await world.outbox("task_control")]
    assert "interrupt_withdrawn" not in orders, "the desktop is to stop all the same"
    [told] = await world.outbox("interrupts_inherited")
    assert told["key"] == f"collect-now/{second}"
    assert (told["payload"]["interrupts"], told["payload"]["generation"]) == (2, 1)
    for victim in (one, two):
        await give_way(world, client, victim)
    assert await interrupts(world, second) == (2, 2, 0, 0)
    assert await whole(world)


async def test_policy_needed_leaves_the_heir_no_more_victims_than_it_lacks_slots(world: World, client: Desktop) -> None:
    await world.setting("preempt_policy", PreemptPolicy.ALL.value)
    await victims_on(world, client)
    first, second = await ask(world, 2), await ask(world)
    await policy_needed(world)
    await requests.cancel_request(world.pool, ref(world, first))
    assert list((await preemptors(world)).values()) == [second]
    assert (await interrupts(world, first), await interrupts(world, second)) == ((2, 0, 0, 2), (1, 0, 0, 0))
    [withdrawn] = [
        row for row in await world.outbox("task_control") if row["payload"]["control"] == "interrupt_withdrawn"
    ]
    assert withdrawn["payload"]["interrupt_generation"] == 3


@pytest.mark.parametrize("preempt", [False, True])
async def test_nobody_inherits_who_disturbs_nobody_or_waits_elsewhere(
    world: World, client: Desktop, preempt: bool
) -> None:
    await victims_on(world, client)
    first = await ask(world, target_client_id=client.id)
    elsewhere = await world.client()
    target = client if not preempt else elsewhere
    second = await ask(world, preempt=preempt, target_client_id=target.id)
    await requests.cancel_request(world.pool, ref(world, first))
    assert await preemptors(world) == {}
    assert (await interrupts(world, first), await interrupts(world, second)) == ((2, 0, 0, 2), (0, 0, 0, 0))


async def test_adopting_a_victim_withdraws_it_from_the_request_that_asked(world: World, client: Desktop) -> None:
    question = await world.question()
    [victim, other] = await victims_on(world, client)
    await world.pool.execute(
        "update monitoring_collect_tasks set question_id = $2, question_version_id = $3, ai_platform_id = 'qwen',"
        " business_date = (now() at time zone 'Asia/Shanghai')::date where id = $1",
        victim.business_id, question.id, question.version_id,
    )  # fmt: skip
    first = await ask(world)
    await world.pool.execute("delete from outbox")
    second = await accepted(world, question_ids=[question.id], user_id=2)
    assert await preemptors(world) == {other.task_id: first}
    assert (await interrupts(world, first))[3] == 1
    [settled] = await world.outbox("interrupt_settled")
    assert (settled["key"], settled["payload"]["outstanding"]) == (f"collect-now/{first}", 1)
    row = await world.execution(victim.task_id)
    assert (row["control_flags"], row["interrupt_generation"]) == ({}, second.interrupt_generation)
    [order] = [row for row in await world.outbox("task_control") if row["payload"]["task_id"] == str(victim.task_id)]
    assert order["payload"]["control"] == "interrupt_withdrawn"
    assert order["payload"]["interrupt_generation"] == second.interrupt_generation


async def test_a_click_that_supersedes_another_takes_its_victims_over_with_its_own_generation(
    world: World, client: Desktop
) -> None:
    one, two = await victims_on(world, client)
    question = (await world.question()).id
    first = (await accepted(world, question_ids=[question])).request_id
    second = await accepted(world, question_ids=[question], user_id=2)
    assert await preemptors(world) == {one.task_id: second.request_id, two.task_id: second.request_id}
    assert (await world.execution(one.task_id))["interrupt_generation"] == second.interrupt_generation
    assert (await interrupts(world, first), await interrupts(world, second.request_id)) == ((2, 0, 0, 2), (2, 0, 0, 0))


async def test_an_interrupt_that_timed_out_and_is_acknowledged_late_counts_once(world: World, client: Desktop) -> None:
    one, two = await victims_on(world, client)
    request = await ask(world)
    await requests.force_release(world.pool, ref(world, request, generation=9))
    assert await interrupts(world, request) == (2, 0, 2, 0)
    call = leases.InterruptAckCall(lease_token=None, interrupt_generation=1)
    await leases.acknowledge_interrupt(world.pool, Hands(world, client).identity, one.task_id, call)
    await finish(world, two.attempt_id)
    await requests.cancel_request(world.pool, ref(world, request))
    assert await interrupts(world, request) == (2, 0, 2, 0)
    assert await whole(world)


@pytest.mark.parametrize("tasks", [1, 2])
async def test_at_every_end_each_interrupt_has_ended_once(world: World, client: Desktop, tasks: int) -> None:
    """One settles, one is still asked; then the request ends in each of the ways that it may."""
    await world.set("desktop_clients", client.id, max_concurrent=4)
    for end in (requests.cancel_request, requests.end_request, requests.expire_request):
        one, two = await victims_on(world, client)
        request = await ask(world, tasks)
        await give_way(world, client, one)
        await end(world.pool, ref(world, request))
        asked, settled, timed_out, withdrawn = await interrupts(world, request)
        assert asked == settled + timed_out + withdrawn == 2
        assert await preemptors(world) == {}
        await finish(world, two.attempt_id)
        assert await whole(world)


async def test_a_batch_that_gave_way_goes_on_when_the_heir_is_done(world: World, client: Desktop) -> None:
    batch = await world.batch(expected=1)
    victim = await world.leased(client, platform="doubao", status="in_progress", batch_id=batch)
    first, second = await ask(world), await ask(world)
    await requests.cancel_request(world.pool, ref(world, first))
    await give_way(world, client, victim)
    assert await world.outbox("resumed") == []
    await requests.cancel_request(world.pool, ref(world, second))
    assert len(await world.outbox("resumed")) == 1
