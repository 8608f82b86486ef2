"""CollectNow from click to end, against virtual time, with its real effects (1-dispatch §1.5)."""

import pytest
from temporalio.client import WorkflowExecutionStatus, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from domain.ids import new_uuid
from domain.messages import AcceptOutcome, ClientLost, TasksTerminal
from store.accept import accept_collect_now
from tests.support.world import ago
from tests.workflows.clock import Clock
from tests.workflows.desk import Desk
from tests.workflows.stage import Stage, details, shows, until
from workflows.collect_now import CollectNow


async def test_an_accepted_request_is_followed_to_its_last_task(stage: Stage) -> None:
    desk = Desk(stage.pool, stage.world, await stage.world.client())
    command = stage.command()
    result, handle = await stage.accept(command)
    assert result.outcome is AcceptOutcome.ACCEPTED
    running = await desk.start(await desk.dispatch(await stage.task_ids(command.request_id)))
    await stage.deliver()
    assert "dispatched: 2" in await details(handle)
    await desk.finish(running[:1], succeeded=False)
    await stage.world.set("monitoring_collect_tasks", running[0].business_id, max_attempts=2)
    [again] = await desk.start(await desk.dispatch([running[0].business_id]))
    await desk.finish([again], succeeded=False)
    await desk.finish(running[1:])
    await stage.deliver()
    ended = await handle.result()
    assert (ended.status, ended.requested, ended.completed, ended.failed) == ("partial", 2, 1, 1)
    assert stage.recorder.names() == ["accept_request", "read_request"]


async def test_a_run_without_an_accept_is_abandoned_after_ten_seconds(stage: Stage, clock: Clock) -> None:
    handle = await stage.start_without_accept(stage.command())
    await clock.forward(handle, 9)
    assert (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
    await clock.forward(handle, 2)
    assert (await handle.result()).status == "abandoned"


async def test_an_accept_whose_answer_was_lost_is_found_in_the_row(stage: Stage, clock: Clock) -> None:
    command = stage.command()
    handle = await stage.start_without_accept(command)
    await accept_collect_now(stage.pool, command)
    await clock.forward(handle, 11)
    assert "**accepted**: 0 completed, 0 failed of 2 tasks" in await details(handle)
    await clock.forward(handle, 300)
    assert (await handle.result()).status == "timed_out"


async def test_a_request_without_a_workflow_is_followed_at_once_when_resumed(stage: Stage) -> None:
    desk = Desk(stage.pool, stage.world, await stage.world.client())
    command = stage.command()
    await accept_collect_now(stage.pool, command)
    await desk.run_all(await stage.task_ids(command.request_id))
    handle = await stage.start_without_accept(command, resume=True)
    assert (await handle.result()).status == "succeeded"
    assert stage.recorder.names() == ["find_accepted", "read_request"]


async def test_an_accept_that_commits_and_still_fails_takes_effect_once(stage: Stage) -> None:
    failures = [OSError("the connection broke after the commit")]

    async def fail_once() -> None:
        if failures:
            raise failures.pop()

    stage.recorder.after["accept_request"] = fail_once
    result, handle = await stage.accept(stage.command())
    assert stage.recorder.names() == ["accept_request", "accept_request"]
    assert (result.outcome, await stage.pool.fetchval("select interrupt_generation from tenants")) == ("accepted", 1)
    assert (await stage.counts())["monitoring_collect_requests"] == 1
    await handle.cancel()


async def test_a_second_click_on_the_same_scope_ends_as_duplicate(stage: Stage) -> None:
    first, open_handle = await stage.accept(stage.command())
    second, handle = await stage.accept(stage.command())
    assert (second.outcome, second.answer) == (AcceptOutcome.REPLAYED, first.answer)
    assert (await handle.result()).status == "duplicate"
    await open_handle.cancel()


async def test_a_refusal_is_a_result_and_ends_the_run(stage: Stage) -> None:
    result, handle = await stage.accept(stage.command(target_client_id=new_uuid()))
    assert (result.outcome, result.error_status) == (AcceptOutcome.REFUSED, 404)
    assert (await handle.result()).status == "refused"
    assert (await stage.counts())["monitoring_collect_requests"] == 0


async def test_an_accept_past_its_deadline_is_refused_and_writes_nothing(stage: Stage, clock: Clock) -> None:
    command = stage.command(seconds=5)
    handle = await stage.start_without_accept(command)
    await clock.forward(handle, 6)
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await handle.execute_update(CollectNow.accept, command)
    assert isinstance(refused.value.cause, ApplicationError)
    assert refused.value.cause.type == "deadline_passed"
    await clock.forward(handle, 10)
    assert (await handle.result()).status == "abandoned"
    assert stage.recorder.names() == ["find_accepted"]


async def test_an_accept_is_judged_by_the_servers_clock_alone(stage: Stage) -> None:
    command = stage.command(seconds=30, deadline=ago(hours=1))
    result, handle = await stage.accept(command)
    assert result.outcome is AcceptOutcome.ACCEPTED
    await handle.cancel()


async def test_a_repeated_accept_gets_its_answer_also_past_the_allowance(stage: Stage, clock: Clock) -> None:
    command = stage.command(seconds=5)
    first, handle = await stage.accept(command)
    await clock.forward(handle, 8)
    assert await handle.execute_update(CollectNow.accept, command) == first
    await handle.cancel()


async def test_a_request_that_is_over_lets_its_victims_go_on(stage: Stage) -> None:
    desktop = await stage.world.client()
    victim = await stage.world.leased(desktop, status="in_progress")
    command = stage.command()
    _, handle = await stage.accept(command)
    assert (await stage.world.execution(victim.task_id))["control_flags"]["interrupt_requested"] is True
    await Desk(stage.pool, stage.world, desktop).run_all(await stage.task_ids(command.request_id))
    await stage.deliver()
    assert (await handle.result()).status == "succeeded"
    assert (await stage.world.execution(victim.task_id))["control_flags"] == {}


async def test_nothing_dispatched_for_30_s_shows_a_hint_that_ends_with_the_dispatch(stage: Stage, clock: Clock) -> None:
    command = stage.command()
    _, handle = await stage.accept(command)
    await clock.forward(handle, 29)
    assert (await stage.request(command.request_id))["hint"] is None
    await clock.forward(handle, 2)
    assert (await stage.request(command.request_id))["hint"] == "waiting_for_client"
    desk = Desk(stage.pool, stage.world, await stage.world.client())
    await desk.dispatch(await stage.task_ids(command.request_id))
    assert (await stage.request(command.request_id))["hint"] is None
    await handle.cancel()


async def test_the_ttl_ends_a_request_of_which_nothing_was_dispatched(stage: Stage, clock: Clock) -> None:
    command = stage.command()
    _, handle = await stage.accept(command)
    await clock.forward(handle, 301)
    assert (await handle.result()).status == "timed_out"
    tasks = await stage.tasks()
    assert {(task["dispatch_lane"], task["collect_request_id"], task["status"]) for task in tasks} == {
        ("normal", None, "pending")
    }
    assert (await stage.request(command.request_id))["status_reason"] == "ttl"


async def test_a_dispatch_whose_signal_was_lost_survives_the_ttl(stage: Stage, clock: Clock) -> None:
    desk = Desk(stage.pool, stage.world, await stage.world.client())
    command = stage.command()
    _, handle = await stage.accept(command)
    running = await desk.start(await desk.dispatch(await stage.task_ids(command.request_id)))
    await clock.forward(handle, 400)
    assert "**running**" in await details(handle)
    await desk.finish(running)
    await stage.deliver()
    assert (await handle.result()).status == "succeeded"


async def test_the_hard_end_returns_what_is_left(stage: Stage, clock: Clock) -> None:
    desk = Desk(stage.pool, stage.world, await stage.world.client())
    command = stage.command()
    _, handle = await stage.accept(command)
    done, left = await stage.task_ids(command.request_id)
    await desk.run_all([done])
    await stage.deliver()
    await clock.forward(handle, 1801)
    ended = await handle.result()
    assert (ended.status, ended.completed) == ("partial", 1)
    assert (await stage.world.business(left))["dispatch_lane"] == "normal"
    assert (await stage.request(command.request_id))["status_reason"] == "hard_end"


async def test_a_request_deleted_with_its_brand_ends(stage: Stage, clock: Clock) -> None:
    _, handle = await stage.accept(stage.command())
    await stage.pool.execute("delete from brands")
    await clock.forward(handle, 301)
    assert (await handle.result()).status == "failed"


async def test_a_lost_client_gives_back_the_waiting_tasks_once_an_epoch(stage: Stage) -> None:
    desktop = await stage.world.client()
    desk = Desk(stage.pool, stage.world, desktop)
    command = stage.command()
    _, handle = await stage.accept(command)
    waiting, pushed = await stage.task_ids(command.request_id)
    await desk.dispatch([pushed])
    await handle.signal(CollectNow.client_lost, ClientLost(outbox_id=101, client_id=desktop.id, epoch=1))
    await handle.signal(CollectNow.client_lost, ClientLost(outbox_id=102, client_id=desktop.id, epoch=1))
    await until(lambda: shows(handle, "none online"))
    tasks = [await stage.world.business(task) for task in (waiting, pushed)]
    assert [(task["target_client_id"], task["active_task_id"], task["dispatch_lane"]) for task in tasks] == [
        (None, None, "high")
    ] * 2
    assert stage.recorder.names().count("release_client") == 1
    await handle.cancel()


async def test_a_newer_request_for_the_same_tasks_supersedes_the_older(stage: Stage) -> None:
    older = stage.command()
    _, handle = await stage.accept(older)
    newer, newer_handle = await stage.accept(stage.command(user_id=2))
    await stage.deliver()
    assert (await handle.result()).status == "superseded"
    assert newer.answer is not None
    assert f"superseded by `{newer.answer.request_id}`" in await details(handle)
    await newer_handle.cancel()


async def test_a_stale_word_of_the_end_does_not_end_an_open_request(stage: Stage) -> None:
    command = stage.command()
    _, handle = await stage.accept(command)
    await handle.signal(CollectNow.tasks_terminal, TasksTerminal(outbox_id=7, completed=2, failed=0, remaining=0))
    await until(lambda: stage.called("read_request"))
    assert "**accepted**: 0 completed, 0 failed of 2 tasks" in await details(handle)
    await handle.cancel()
