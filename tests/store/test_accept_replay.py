"""The same click again, a newer click, and a repeated activity (1-dispatch §1.5 steps 1 and 2)."""

import asyncio
from uuid import UUID

import pytest

from domain.messages import AcceptOutcome
from store.accept import accept_collect_now
from store.database import Pool
from tests.support.clicks import Hands, accepted, click, command, finish, rounds, scheduled, whole
from tests.support.world import Desktop, World, ago


@pytest.fixture
async def world(pool: Pool) -> World:
    """A tenant with a plan, a desktop and three questions."""
    world = await World.create(pool)
    await world.plan()
    await world.client()
    for _ in range(3):
        await world.question()
    return world


async def questions(world: World) -> list[int]:
    return [row["id"] for row in await world.pool.fetch("select id from questions order by id")]


async def generation(world: World) -> int:
    found: int = await world.pool.fetchval("select interrupt_generation from tenants where id = $1", world.tenant_id)
    return found


async def requests(world: World) -> int:
    found: int = await world.pool.fetchval("select count(*) from monitoring_collect_requests")
    return found


async def test_the_same_click_within_five_minutes_gets_the_same_answer(world: World) -> None:
    first = await accepted(world)
    again = await click(world)
    assert (again.outcome, again.answer) == (AcceptOutcome.REPLAYED, first)
    assert (await generation(world), await requests(world)) == (1, 1)


async def test_a_replay_answers_the_same_after_a_later_binding_has_moved_the_request_on(world: World) -> None:
    desktop = await first_desktop(world)
    await world.set("desktop_clients", desktop.id, online=False)
    first = await accepted(world)
    await world.set("desktop_clients", desktop.id, online=True)
    await scheduled(world, desktop, platform="doubao")
    await rounds(world.pool)
    row = await world.row("monitoring_collect_requests", first.request_id)
    assert (row["interrupt_generation"], row["interrupt_requested_count"]) == (2, 1)
    again = await click(world)
    assert (again.outcome, again.answer) == (AcceptOutcome.REPLAYED, first)


async def test_two_clicks_at_once_are_one_request_and_one_step_of_the_generation(world: World) -> None:
    results = await asyncio.gather(*(click(world) for _ in range(6)))
    outcomes = sorted(result.outcome for result in results)
    assert outcomes == [AcceptOutcome.ACCEPTED] + [AcceptOutcome.REPLAYED] * 5
    assert len({result.answer.request_id for result in results if result.answer}) == 1
    assert (await generation(world), await requests(world)) == (1, 1)
    assert await whole(world)


async def test_the_order_and_repeats_of_a_scope_make_no_other_click(world: World) -> None:
    ids = await questions(world)
    await accepted(world, question_ids=ids)
    assert (await click(world, question_ids=[*ids[::-1], ids[0]])).outcome is AcceptOutcome.REPLAYED


@pytest.mark.parametrize("change", ["age", "failed", "partial", "cancelled", "user", "preempt", "brand"])
async def test_another_click_is_a_request_of_its_own(world: World, change: str) -> None:
    first = await accepted(world)
    more = {}
    if change == "age":
        await world.set("monitoring_collect_requests", first.request_id, created_at=ago(minutes=6))
    elif change in ("failed", "partial"):
        await world.set("monitoring_collect_requests", first.request_id, status=change)
    elif change == "cancelled":
        # Taken back, while something of it still runs.
        await world.set("monitoring_collect_requests", first.request_id, status="running", status_reason="cancelled")
    elif change == "user":
        more = {"user_id": 2}
    elif change == "preempt":
        more = {"preempt": False}
    else:
        other = World(world.pool, world.tenant_id, world.workspace_id, await another_brand(world))
        await other.plan()
        await other.question()
        more = {"brand_id": other.brand_id}
    assert (await click(world, **more)).outcome is AcceptOutcome.ACCEPTED


async def another_brand(world: World) -> int:
    found: int = await world.pool.fetchval(
        "insert into brands (tenant_id, workspace_id, name) values ($1, $2, 'Other') returning id",
        world.tenant_id, world.workspace_id,
    )  # fmt: skip
    return found


async def test_a_succeeded_request_is_still_replayed(world: World) -> None:
    first = await accepted(world)
    await world.set("monitoring_collect_requests", first.request_id, status="succeeded")
    assert (await click(world)).outcome is AcceptOutcome.REPLAYED


async def test_an_idempotency_key_finds_its_request_however_old_and_however_it_ended(world: World) -> None:
    first = await accepted(world, idempotency_key="k")
    await world.set("monitoring_collect_requests", first.request_id, status="failed", created_at=ago(hours=2))
    again = await click(world, idempotency_key="k")
    assert (again.outcome, again.answer) == (AcceptOutcome.REPLAYED, first)


async def test_an_idempotency_key_stands_for_the_call_whatever_day_it_is(world: World) -> None:
    first = await accepted(world, idempotency_key="k")
    # A zone where it is another day than in Shanghai now: fourteen hours ahead, or eleven behind.
    await world.pool.execute(
        "update monitoring_plans set time_zone ="
        " case when extract(hour from now() at time zone 'UTC') between 10 and 15 then 'Pacific/Kiritimati'"
        " else 'Pacific/Pago_Pago' end"
    )
    again = await click(world, idempotency_key="k")
    assert (again.outcome, again.answer) == (AcceptOutcome.REPLAYED, first)


@pytest.mark.parametrize(
    "edit",
    ["update monitoring_plans set run_mode = 'api_search_grounded'", "update monitoring_plans set active = false"],
)
async def test_an_idempotency_key_stands_for_the_call_whatever_became_of_the_plans(world: World, edit: str) -> None:
    first = await accepted(world, idempotency_key="k")
    await world.pool.execute(edit)
    again = await click(world, idempotency_key="k")
    assert (again.outcome, again.answer) == (AcceptOutcome.REPLAYED, first)


async def test_an_idempotency_key_of_a_workspace_out_of_reach_finds_nothing(world: World) -> None:
    await accepted(world, idempotency_key="k")
    refused = await click(world, idempotency_key="k", workspace_ids=(world.workspace_id + 1,))
    assert (refused.outcome, refused.error_status) == (AcceptOutcome.REFUSED, 404)


async def test_an_idempotency_key_with_another_scope_is_a_conflict(world: World) -> None:
    await accepted(world, idempotency_key="k")
    refused = await click(world, idempotency_key="k", preempt=False)
    assert (refused.outcome, refused.error_status, refused.error_code) == (AcceptOutcome.REFUSED, 409, "conflict")
    assert (await generation(world), await requests(world)) == (1, 1)


async def test_an_idempotency_key_with_another_brand_is_a_conflict_although_the_scopes_look_alike(
    world: World,
) -> None:
    other = World(world.pool, world.tenant_id, world.workspace_id, await another_brand(world))
    await other.plan()
    await other.question()
    await accepted(world, idempotency_key="k")
    assert (await click(other, idempotency_key="k")).error_code == "conflict"


async def test_the_activity_run_twice_answers_the_same_and_changes_nothing(world: World) -> None:
    given = command(world)
    first = await accept_collect_now(world.pool, given)
    rows = await world.pool.fetch("select * from outbox order by id")
    second = await accept_collect_now(world.pool, given)
    assert first == second
    assert (await generation(world), await requests(world)) == (1, 1)
    assert await world.pool.fetch("select * from outbox order by id") == rows


async def test_two_runs_of_one_activity_at_once_are_one_request(world: World) -> None:
    given = command(world)
    results = await asyncio.gather(*(accept_collect_now(world.pool, given) for _ in range(4)))
    assert [result.outcome for result in results] == [AcceptOutcome.ACCEPTED] * 4
    assert len({result.model_dump_json() for result in results}) == 1
    assert (await generation(world), await requests(world)) == (1, 1)


async def test_a_newer_click_takes_the_unfinished_tasks_of_its_scope(world: World) -> None:
    ids = await questions(world)
    old = await accepted(world, question_ids=ids)
    new = await accepted(world, question_ids=ids[:2])
    row = await world.row("monitoring_collect_requests", old.request_id)
    assert (row["status"], row["requested_task_count"], row["moved_task_count"]) == ("accepted", 1, 2)
    taken = await world.pool.fetch(
        "select superseded_by_request_id from monitoring_collect_tasks where collect_request_id = $1", new.request_id
    )
    assert [row["superseded_by_request_id"] for row in taken] == [new.request_id] * 2
    assert await world.outbox("superseded") == []
    assert await whole(world)


async def test_a_request_left_with_nothing_is_superseded_and_its_workflow_told(world: World) -> None:
    ids = await questions(world)
    old = await accepted(world, question_ids=ids[:2])
    new = await accepted(world, question_ids=ids)
    row = await world.row("monitoring_collect_requests", old.request_id)
    assert (row["status"], row["requested_task_count"], row["moved_task_count"]) == ("superseded", 0, 2)
    assert (row["superseded_by_request_id"], row["finished_at"] is not None) == (new.request_id, True)
    [signal] = await world.outbox("superseded")
    assert (signal["key"], signal["payload"]) == (f"collect-now/{old.request_id}", {"by": str(new.request_id)})
    assert await whole(world)


async def one_done(world: World, request_id: UUID) -> None:
    """The request's first task is dispatched, run and completed."""
    desktop = Hands(world, await first_desktop(world))
    await rounds(world.pool)
    frame, *_ = await desktop.take()
    await desktop.run(frame)
    assert (await world.row("monitoring_collect_requests", request_id))["completed_task_count"] == 1


async def first_desktop(world: World) -> Desktop:
    return Desktop(await world.pool.fetchval("select id from desktop_clients order by id limit 1"), "")


async def test_a_superseded_request_with_results_is_partial(world: World) -> None:
    ids = await questions(world)
    old = await accepted(world, question_ids=ids[:2])
    await one_done(world, old.request_id)
    await accepted(world, question_ids=ids)
    row = await world.row("monitoring_collect_requests", old.request_id)
    assert (row["status"], row["completed_task_count"], row["requested_task_count"]) == ("partial", 1, 1)
    assert len(await world.outbox("superseded")) == 1
    assert await whole(world)


async def test_a_finished_task_asked_again_leaves_its_open_request_with_true_counters(world: World) -> None:
    ids = await questions(world)
    old = await accepted(world, question_ids=ids)
    await one_done(world, old.request_id)
    done = await world.pool.fetchval("select question_id from monitoring_collect_tasks where status = 'completed'")
    await accepted(world, question_ids=[done])
    row = await world.row("monitoring_collect_requests", old.request_id)
    counters = (row["requested_task_count"], row["completed_task_count"], row["moved_task_count"])
    assert (*counters, row["status"]) == (2, 0, 1, "running")
    assert await whole(world)


async def test_a_running_task_moves_to_the_newer_request_and_goes_on(world: World) -> None:
    ids = await questions(world)
    old = await accepted(world, question_ids=ids[:1])
    await rounds(world.pool)
    desktop = Hands(world, await first_desktop(world))
    [frame] = await desktop.take()
    await desktop.start(frame)
    new = await accepted(world, question_ids=ids)
    await finish(world, frame.attempt_id)
    row = await world.row("monitoring_collect_requests", new.request_id)
    assert (row["completed_task_count"], row["requested_task_count"]) == (1, 3)
    assert (await world.row("monitoring_collect_requests", old.request_id))["status"] == "superseded"
    assert await whole(world)
