"""Each effect of dispatch and preemption moves its metric, once, and what repeats it moves nothing (dispatch §15.1)."""

from typing import Any

import pytest

from activities.coordinator import Coordinator
from domain.budgets import Refusal
from domain.desktop_calls import CancelCall
from domain.errors import StaleGeneration
from domain.hub_port import ClientIdentity
from domain.messages import AcceptOutcome, RequestRef
from store import leases, requests, residents
from store.database import Pool
from store.listen import Listener
from telemetry import metrics
from telemetry.effects import count_each
from telemetry.families import ExactCounter
from tests.support.clicks import Hands, accepted, click, rounds, scheduled
from tests.support.world import World


@pytest.fixture
async def world(pool: Pool) -> World:
    made = await World.create(pool)
    await made.plan()
    return made


class Moved:
    """How far counters have moved since it was made: they are the process's, and other tests move them too."""

    def __init__(self, *counters: ExactCounter) -> None:
        self._counters = counters
        self._before = [counter.value() for counter in counters]

    @property
    def by(self) -> tuple[float, ...]:
        return tuple(each.value() - was for each, was in zip(self._counters, self._before, strict=True))


def observed(name: str) -> tuple[float, float]:
    """Count and sum of a histogram."""
    values = [metrics.REGISTRY.get_sample_value(f"{name}_{part}") or 0.0 for part in ("count", "sum")]
    return values[0], values[1]


async def test_an_accept_counts_once_and_its_replay_not_at_all(world: World) -> None:
    await world.question()
    moved = Moved(metrics.collect_now_accepts)
    await accepted(world)
    assert (await click(world)).outcome is AcceptOutcome.REPLAYED
    assert moved.by == (1,)


async def test_a_click_that_makes_room_counts_the_orders_the_stops_and_what_has_to_run_again(world: World) -> None:
    client = await world.client()
    question = await world.question()
    victim = await world.leased(client, status="in_progress", platform="doubao")
    moved = Moved(metrics.preempt_requests, metrics.preempt_successes, metrics.preempt_induced_retries)
    answer = await accepted(world, question_ids=[question.id])
    assert moved.by == (1, 0, 0)
    lease = leases.LeaseRef(ClientIdentity(client.id, world.tenant_id), victim.task_id, victim.token)
    call = CancelCall(lease_token=victim.token, reason="r", interrupt_generation=answer.interrupt_generation)
    await leases.cancel(world.pool, lease, call)
    assert moved.by == (1, 1, 1)


async def test_a_stale_callback_counts_although_it_is_refused(world: World) -> None:
    client = await world.client()
    victim = await world.leased(client, status="in_progress")
    await world.interrupt(victim.task_id, await world.request(generation=5), 5)
    moved = Moved(metrics.generation_mismatches, metrics.preempt_successes)
    lease = leases.LeaseRef(ClientIdentity(client.id, world.tenant_id), victim.task_id, victim.token)
    with pytest.raises(StaleGeneration):
        await leases.cancel(world.pool, lease, CancelCall(lease_token=victim.token, reason="r", interrupt_generation=4))
    assert moved.by == (1, 0)


async def test_a_victim_that_does_not_stop_counts_on_its_client(world: World) -> None:
    client = await world.client()
    await world.question()
    await scheduled(world, client, platform="doubao")
    answer = await accepted(world, platforms=["qwen"])
    ref = RequestRef(
        request_id=answer.request_id, tenant_id=world.tenant_id, client_id=client.id,
        generation=answer.interrupt_generation,
    )  # fmt: skip
    for _ in range(2):
        await requests.force_release(world.pool, ref)
    assert metrics.preempt_timeouts.value(str(client.id)) == 1


async def test_a_request_that_nothing_was_dispatched_of_counts_at_its_ttl(world: World) -> None:
    await world.question()
    answer = await accepted(world)
    moved = Moved(metrics.ttl_expired)
    for _ in range(2):
        await requests.expire_request(world.pool, RequestRef(request_id=answer.request_id, tenant_id=world.tenant_id))
    assert moved.by == (1,)


async def test_the_times_to_the_first_dispatch_and_the_first_result_are_measured_once(world: World) -> None:
    hands = Hands(world, await world.client(max_concurrent=2))
    questions = [await world.question(), await world.question()]
    await world.setting("platform_concurrency", 2)
    dispatch, result = (
        observed("collect_now_first_dispatch_latency_ms"),
        observed("collect_now_first_result_latency_ms"),
    )
    moved = Moved(metrics.dispatches)
    answer = await accepted(world, question_ids=[question.id for question in questions])
    await world.pool.execute(
        "update monitoring_collect_requests set created_at = created_at - interval '3 seconds' where id = $1",
        answer.request_id,
    )
    await rounds(world.pool)
    assert moved.by == (2,)
    frames = await hands.take()
    for frame in frames:
        await hands.run(frame)
    assert len(frames) == 2
    for name, before in (("dispatch", dispatch), ("result", result)):
        count, total = observed(f"collect_now_first_{name}_latency_ms")
        assert count - before[0] == 1, name
        assert 3_000 <= total - before[1] < 60_000, name


async def test_refusals_are_counted_by_reason(world: World, pool: Pool) -> None:
    client = await world.client()
    await world.leased(client, status="in_progress")
    await world.business_task()
    before = metrics.dispatch_refusals.value(Refusal.PLATFORM_CONCURRENCY)
    epoch = await residents.take(pool, "coordinator/0", "test")

    def count(refusals: Any) -> None:
        count_each(metrics.dispatch_refusals, refusals)

    await Coordinator(pool, Listener("unused"), count_refusals=count).dispatch_all("coordinator/0", epoch)
    assert metrics.dispatch_refusals.value(Refusal.PLATFORM_CONCURRENCY) > before
