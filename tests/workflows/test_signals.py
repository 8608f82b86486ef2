"""Signals come at least once, late, early and out of order (1-dispatch §1.5, faults.md)."""

from domain.messages import ClientBound, ClientLost, InterruptSettled, TasksTerminal
from store.accept import accept_collect_now
from tests.workflows.clock import Clock
from tests.workflows.stage import Stage, details, shows, until
from workflows.collect_now import CollectNow


async def test_a_repeated_outbox_id_is_dropped(stage: Stage) -> None:
    first, second = await stage.world.client(), await stage.world.client()
    _, handle = await stage.accept(stage.command())
    await handle.signal(CollectNow.client_lost, ClientLost(outbox_id=5, client_id=first.id, epoch=1))
    await handle.signal(CollectNow.client_lost, ClientLost(outbox_id=5, client_id=second.id, epoch=1))
    await until(lambda: stage.called("release_client"))
    await details(handle)
    assert [ref.client_id for ref in stage.recorder.arguments("release_client")] == [first.id]
    await handle.cancel()


async def test_signals_sent_before_any_worker_saw_the_run_are_not_lost(stage: Stage, clock: Clock) -> None:
    """The worker starts after them: all are in the first workflow task."""
    later = Stage(stage.client, stage.queue + "-later", stage.pool, stage.world)
    desktop = await stage.world.client()
    await stage.world.leased(desktop, status="in_progress")
    command = stage.command()
    accepted = await accept_collect_now(stage.pool, command)
    assert accepted.answer is not None
    generation = accepted.answer.interrupt_generation
    other = (await stage.world.client()).id
    handle = await later.start_without_accept(
        command,
        resume=True,
        start_signal="tasks_terminal",
        start_signal_args=[TasksTerminal(outbox_id=1, completed=0, failed=0, remaining=2)],
    )
    settled = InterruptSettled(outbox_id=2, client_id=desktop.id, generation=generation, settled=1, outstanding=0)
    await handle.signal(CollectNow.interrupt_settled, settled)
    await handle.signal(CollectNow.client_bound, ClientBound(outbox_id=3, client_id=other, generation=generation + 1))
    async with later.worker():
        await until(lambda: shows(handle, f"client: `{other}`, generation {generation + 1}"))
        assert "interrupts not settled: 0" in await details(handle)
        await handle.cancel()


async def test_signals_of_every_kind_may_come_before_the_accept(stage: Stage) -> None:
    desktop = await stage.world.client()
    await stage.world.leased(desktop, status="in_progress")
    command = stage.command()
    handle = await stage.start_without_accept(command)
    early = TasksTerminal(outbox_id=4, completed=1, failed=0, remaining=1)
    await handle.signal(CollectNow.tasks_terminal, early)
    settled = InterruptSettled(outbox_id=5, client_id=desktop.id, generation=1, settled=1, outstanding=0)
    await handle.signal(CollectNow.interrupt_settled, settled)
    await handle.execute_update(CollectNow.accept, command)
    shown = await details(handle)
    assert "**accepted**: 1 completed, 0 failed of 2 tasks" in shown
    assert "interrupts not settled: 0" in shown
    await handle.cancel()


async def test_an_unknown_signal_field_is_ignored(stage: Stage) -> None:
    _, handle = await stage.accept(stage.command())
    await handle.signal("dispatched", {"count": 1, "outbox_id": 8, "of_a_later_version": True})
    assert "dispatched: 1" in await details(handle)
    await handle.cancel()
