"""A desktop that says hello without naming a task has lost it: its slot is free at once (1-dispatch §1.8, ADR 0026)."""

import pytest

from domain.hub_port import ClientIdentity
from domain.protocol import HeldAttempt, Hello
from store import presence
from store.database import Pool
from tests.support.clicks import Hands, finish, rounds, whole
from tests.support.world import Desktop, Lease, World, ago


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


@pytest.fixture
async def client(world: World) -> Desktop:
    return await world.client()


async def hello(world: World, client: Desktop, *held: Lease, phase: str = "WAITING") -> None:
    attempts = [HeldAttempt(task_id=str(one.task_id), attempt_id=str(one.attempt_id), phase=phase) for one in held]
    await presence.connect(world.pool, ClientIdentity(client.id, world.tenant_id), Hello(id="1", held=attempts))


async def test_what_a_restarted_desktop_ran_is_a_lost_attempt_at_once(world: World, client: Desktop) -> None:
    lost = await world.leased(client, status="in_progress")
    await hello(world, client)
    business, attempt = await world.business(lost.business_id), await world.attempt(lost.attempt_id)
    assert (business["active_task_id"], business["dispatch_attempts"], business["dispatch_lane"]) == (None, 1, "retry")
    assert ((await world.execution(lost.task_id))["status"], attempt["outcome"]) == ("failed", "lease_expired")
    assert await rounds(world.pool) == 1
    [again] = await Hands(world, client).take()
    await Hands(world, client).start(again)
    assert await whole(world)


@pytest.mark.parametrize("phase", ["WAITING", "POSTING"])
async def test_what_it_names_goes_on_a_result_on_its_disk_included(world: World, client: Desktop, phase: str) -> None:
    kept = await world.leased(client, status="in_progress")
    await hello(world, client, kept, phase=phase)
    row = await world.execution(kept.task_id)
    assert (row["status"], row["phase"], row["attempt_id"]) == ("in_progress", phase, kept.attempt_id)


async def test_a_received_result_needs_no_naming(world: World, client: Desktop) -> None:
    posted = await world.leased(client, status="in_progress")
    await world.set("desktop_tasks", posted.task_id, result_received_at=ago(seconds=1))
    await hello(world, client)
    assert (await world.execution(posted.task_id))["status"] == "in_progress"
    await finish(world, posted.attempt_id)
    assert (await world.business(posted.business_id))["status"] == "completed"


async def test_what_was_asked_to_stop_and_runs_no_more_has_given_way(world: World, client: Desktop) -> None:
    """Its acknowledgement was lost with the connection: no attempt is counted, and the interrupt is settled."""
    request = await world.request(client_id=client.id)
    victim = await world.leased(client, status="in_progress")
    await world.interrupt(victim.task_id, request, 1)
    await hello(world, client)
    business, attempt = await world.business(victim.business_id), await world.attempt(victim.attempt_id)
    assert (business["dispatch_attempts"], business["preemptions"], attempt["outcome"]) == (0, 1, "preempted")
    assert (await world.row("monitoring_collect_requests", request))["interrupt_settled_count"] == 1


async def test_another_attempt_of_the_task_is_not_the_one(world: World, client: Desktop) -> None:
    lost, other = await world.leased(client, status="in_progress"), await world.leased(client, status="in_progress")
    await hello(world, client, Lease(lost.task_id, lost.business_id, other.attempt_id, lost.token))
    assert (await world.execution(lost.task_id))["status"] == "failed"
    assert (await world.execution(other.task_id))["status"] == "failed"


async def test_an_answer_that_comes_all_the_same_is_taken(world: World, client: Desktop) -> None:
    lost = await world.leased(client, status="in_progress")
    await hello(world, client)
    await finish(world, lost.attempt_id)
    assert (await world.business(lost.business_id))["status"] == "completed"
    assert await whole(world)


async def test_saying_hello_again_changes_nothing_more(world: World, client: Desktop) -> None:
    lost = await world.leased(client, status="in_progress")
    await hello(world, client)
    await hello(world, client)
    assert (await world.business(lost.business_id))["dispatch_attempts"] == 1


async def test_nobody_elses_work_is_touched(world: World, client: Desktop) -> None:
    other = await world.client()
    running = await world.leased(other, status="in_progress")
    await hello(world, client)
    assert (await world.execution(running.task_id))["status"] == "in_progress"


async def test_one_hello_ends_what_gave_way_and_what_was_lost_together(world: World, client: Desktop) -> None:
    """Both in one transaction, in the batch and the request of each: counted once, whatever the order of their ids."""
    request, batch = await world.request(client_id=client.id), await world.batch()
    victim, lost = await world.leased(client, status="in_progress"), await world.leased(client, status="in_progress")
    for one in (victim, lost):
        await world.set("monitoring_collect_tasks", one.business_id, batch_id=batch)
    await world.interrupt(victim.task_id, request, 1)
    await hello(world, client)
    gave_way, failed = await world.business(victim.business_id), await world.business(lost.business_id)
    assert (gave_way["dispatch_attempts"], gave_way["preemptions"]) == (0, 1)
    assert (failed["dispatch_attempts"], failed["preemptions"]) == (1, 0)
    assert (await world.row("monitoring_collect_requests", request))["interrupt_settled_count"] == 1
