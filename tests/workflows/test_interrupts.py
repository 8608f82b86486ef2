"""How CollectNow chases the victims it asked to stop (1-dispatch §1.5, soft and hard timeouts)."""

from dataclasses import dataclass
from uuid import UUID

import pytest
from temporalio.client import WorkflowHandle

from domain.messages import ClientBound, InterruptSettled
from tests.support.world import Desktop, Lease
from tests.workflows.clock import Clock
from tests.workflows.desk import Desk, Running
from tests.workflows.stage import Stage, details, until
from workflows.collect_now import CollectNow

SOFT, HARD = 15, 45


@dataclass
class Scene:
    """A click on a desktop that was busy with one scheduled task."""

    stage: Stage
    desktop: Desktop
    victim: Lease
    request_id: UUID
    handle: WorkflowHandle[CollectNow, object]

    async def hint(self) -> str | None:
        hint: str | None = (await self.stage.request(self.request_id))["hint"]
        return hint

    async def victim_status(self) -> str:
        return str((await self.stage.world.execution(self.victim.task_id))["status"])


@pytest.fixture
async def scene(stage: Stage) -> Scene:
    await stage.pool.execute(
        "insert into platform_settings (platform_id, interrupt_soft_timeout_ms, interrupt_hard_timeout_ms)"
        " values ('qwen', $1, $2)",
        SOFT * 1000,
        HARD * 1000,
    )
    desktop = await stage.world.client()
    victim = await stage.world.leased(desktop, status="in_progress", batch_id=await stage.world.batch())
    command = stage.command()
    result, handle = await stage.accept(command)
    assert result.answer is not None
    assert result.answer.interrupt_requested_count == 1
    await Desk(stage.pool, stage.world, desktop).dispatch(await stage.task_ids(command.request_id))
    return Scene(stage, desktop, victim, command.request_id, handle)


async def test_a_victim_that_stops_in_time_is_left_alone(scene: Scene, clock: Clock) -> None:
    desk = Desk(scene.stage.pool, scene.stage.world, scene.desktop)
    await desk.give_way(Running(scene.victim.task_id, scene.victim.business_id, scene.victim.attempt_id))
    await scene.stage.deliver()
    await clock.forward(scene.handle, HARD + 1)
    assert (await scene.hint(), await scene.victim_status()) == (None, "aborted")
    assert "interrupts not settled: 0" in await details(scene.handle)
    assert not {"set_request_hint", "force_release"} & set(scene.stage.recorder.names())
    await scene.handle.cancel()


async def test_the_soft_timeout_shows_a_hint_until_the_victim_stops(scene: Scene, clock: Clock) -> None:
    await clock.forward(scene.handle, SOFT + 1)
    assert await scene.hint() == "waiting_for_safe_point"
    desk = Desk(scene.stage.pool, scene.stage.world, scene.desktop)
    await desk.give_way(Running(scene.victim.task_id, scene.victim.business_id, scene.victim.attempt_id))
    await scene.stage.deliver()
    await until(lambda: _no_hint(scene))
    await clock.forward(scene.handle, HARD)
    assert "force_release" not in scene.stage.recorder.names()
    await scene.handle.cancel()


async def test_the_hard_timeout_revokes_the_victim_and_says_what_is_waited_for(scene: Scene, clock: Clock) -> None:
    await clock.forward(scene.handle, HARD - 1)
    assert await scene.victim_status() == "in_progress"
    await clock.forward(scene.handle, 2)
    victim = await scene.stage.world.execution(scene.victim.task_id)
    assert (victim["status"], victim["lease_token_hash"]) == ("unknown", None)
    assert (await scene.stage.world.attempt(scene.victim.attempt_id))["outcome"] == "revoked"
    row = await scene.stage.request(scene.request_id)
    assert (row["hint"], row["interrupt_timed_out_count"]) == ("waiting_for_current_task", 1)
    await clock.forward(scene.handle, 4 * HARD)
    assert scene.stage.recorder.names().count("force_release") == 1
    await scene.handle.cancel()


async def test_the_hard_timeout_moves_waiting_tasks_when_another_client_is_online(scene: Scene, clock: Clock) -> None:
    await scene.stage.world.client()
    await clock.forward(scene.handle, HARD + 1)
    tasks = await scene.stage.tasks(collect_request_id=scene.request_id)
    assert {(task["target_client_id"], task["active_task_id"]) for task in tasks} == {(None, None)}
    await scene.handle.cancel()


async def test_a_settlement_whose_signal_was_lost_gets_no_hint_and_no_revocation(scene: Scene, clock: Clock) -> None:
    desk = Desk(scene.stage.pool, scene.stage.world, scene.desktop)
    await desk.give_way(Running(scene.victim.task_id, scene.victim.business_id, scene.victim.attempt_id))
    await clock.forward(scene.handle, HARD + 1)
    row = await scene.stage.request(scene.request_id)
    assert (row["hint"], row["interrupt_timed_out_count"], await scene.victim_status()) == (None, 0, "aborted")
    await scene.handle.cancel()


async def test_a_binding_or_a_settlement_of_an_older_generation_changes_nothing(scene: Scene, clock: Clock) -> None:
    other = (await scene.stage.world.client()).id
    before = await details(scene.handle)
    older = ClientBound(outbox_id=1, client_id=other, generation=1, interrupts=3)
    await scene.handle.signal(CollectNow.client_bound, older)
    stale = InterruptSettled(outbox_id=2, client_id=scene.desktop.id, generation=0, settled=1, outstanding=0)
    await scene.handle.signal(CollectNow.interrupt_settled, stale)
    assert await details(scene.handle) == before
    await clock.forward(scene.handle, SOFT + 1)
    assert await scene.hint() == "waiting_for_safe_point"
    await scene.handle.cancel()


async def test_a_newer_binding_is_followed_with_its_own_interrupts(scene: Scene, clock: Clock) -> None:
    other = (await scene.stage.world.client()).id
    bound = ClientBound(outbox_id=1, client_id=other, generation=9, interrupts=2)
    await scene.handle.signal(CollectNow.client_bound, bound)
    shown = await details(scene.handle)
    assert f"client: `{other}`, generation 9" in shown
    assert "interrupts not settled: 3" in shown
    await scene.handle.cancel()


async def timeouts(scene: Scene, *, soft: float, hard: float, platform: str = "qwen") -> None:
    """As an operator, or the weekly retuning, sets them."""
    await scene.stage.pool.execute(
        "insert into platform_settings as s (platform_id, interrupt_soft_timeout_ms, interrupt_hard_timeout_ms)"
        " values ($1, $2, $3) on conflict (platform_id) do update set interrupt_soft_timeout_ms = $2,"
        " interrupt_hard_timeout_ms = $3, version = s.version + 1",
        platform,
        int(soft * 1000),
        int(hard * 1000),
    )


async def test_timeouts_that_are_raised_hold_for_an_interrupt_that_is_under_way(scene: Scene, clock: Clock) -> None:
    await timeouts(scene, soft=2 * SOFT, hard=2 * HARD)
    await clock.forward(scene.handle, SOFT + 1)
    assert await scene.hint() is None
    await clock.forward(scene.handle, SOFT + 1)
    assert await scene.hint() == "waiting_for_safe_point"
    await clock.forward(scene.handle, HARD)
    assert await scene.victim_status() == "in_progress"
    await clock.forward(scene.handle, HARD - 2 * SOFT)
    await until(lambda: _is_unknown(scene))
    assert (await scene.stage.request(scene.request_id))["interrupt_timed_out_count"] == 1
    await scene.handle.cancel()


async def test_a_hard_timeout_that_is_lowered_holds_from_the_next_look_on(scene: Scene, clock: Clock) -> None:
    await timeouts(scene, soft=SOFT, hard=SOFT + 5)
    await clock.forward(scene.handle, SOFT + 1)
    assert await scene.victim_status() == "in_progress"
    await clock.forward(scene.handle, 5)
    await until(lambda: _is_unknown(scene))
    await scene.handle.cancel()


async def test_each_victim_has_its_own_platforms_time(stage: Stage, clock: Clock) -> None:
    desktop = await stage.world.client()
    quick, slow = [
        await stage.world.leased(desktop, status="in_progress", platform=name) for name in ("qwen", "google")
    ]
    command = stage.command()
    result, handle = await stage.accept(command)
    assert (result.soft_timeout_ms, result.hard_timeout_ms) == (15_000, 45_000)

    async def seen() -> tuple[str, str, int]:
        rows = [await stage.world.execution(victim.task_id) for victim in (quick, slow)]
        timed_out = (await stage.request(command.request_id))["interrupt_timed_out_count"]
        return rows[0]["status"], rows[1]["status"], timed_out

    async def after(first: str, second: str, timed_out: int) -> bool:
        return await seen() == (first, second, timed_out)

    await clock.forward(handle, 46)
    await until(lambda: after("unknown", "in_progress", 1))
    await clock.forward(handle, 40)
    assert await seen() == ("unknown", "in_progress", 1)
    await clock.forward(handle, 6)
    await until(lambda: after("unknown", "unknown", 2))
    assert stage.recorder.names().count("force_release") == 2
    await handle.cancel()


async def test_victims_that_another_request_left_are_chased_from_the_moment_they_were_asked(
    scene: Scene, clock: Clock
) -> None:
    question = (await scene.stage.world.question()).id
    command = scene.stage.command(question_ids=(question,), user_id=2)
    result, heir = await scene.stage.accept(command)
    assert result.answer is not None
    assert result.answer.interrupt_requested_count == 0
    await scene.handle.cancel()
    await until(lambda: scene.stage.called("cancel_request"))
    await scene.stage.deliver()
    assert "interrupts not settled: 1" in await details(heir)
    await clock.forward(heir, HARD + 1)
    await until(lambda: _is_unknown(scene))
    row = await scene.stage.request(command.request_id)
    assert (row["interrupt_requested_count"], row["interrupt_timed_out_count"]) == (1, 1)
    await heir.cancel()


async def _is_unknown(scene: Scene) -> bool:
    return await scene.victim_status() == "unknown"


async def _no_hint(scene: Scene) -> bool:
    return await scene.hint() is None
