"""The loop applies what arrived together before it begins anything (dispatch §14.4)."""

import asyncio
from typing import Any

from desktop.board import Board
from desktop.config import Timings
from desktop.effects import Ending, EndKind
from desktop.events import EventKind, Reporter
from desktop.scheduler import Scheduler
from domain.lanes import Lane
from domain.protocol import TaskAvailable
from tests.desktop.frames import available, interrupt
from tests.desktop.waiting import Record


def scheduler(record: Record | None = None) -> Scheduler:
    no_rest: Any = None
    return Scheduler(Board(1, Timings()), no_rest, Reporter("desk", record))


async def test_of_frames_that_arrived_together_the_most_urgent_begins_first() -> None:
    loop, begun = scheduler(), asyncio.Queue[str]()

    async def execute(task: TaskAvailable) -> Ending:
        begun.put_nowait(task.task_id)
        return Ending(EndKind.FINISHED)

    retry, normal, high = available(Lane.RETRY), available(), available(Lane.HIGH)
    for frame in (retry, normal, high):
        loop.offered([frame], 0.0)
    running = asyncio.create_task(loop.run(execute))
    order = [await asyncio.wait_for(begun.get(), 30) for _ in range(3)]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert order == [high.task_id, normal.task_id, retry.task_id]


async def test_an_execution_that_breaks_is_dropped_and_frees_its_slot() -> None:
    record = Record()
    loop, second = scheduler(record), available()

    async def execute(task: TaskAvailable) -> Ending:
        if task.task_id == second.task_id:
            return Ending(EndKind.DROPPED, "enough")
        raise RuntimeError("a fault of ours")

    loop.offered([available(Lane.HIGH), second], 0.0)
    running = asyncio.create_task(loop.run(execute))
    await record.seen(EventKind.DROPPED, count=2)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert [event.detail for event in record.of(EventKind.DROPPED)] == ["internal_error", "enough"]


async def test_a_control_frame_changes_nothing_before_the_loop_gets_to_it() -> None:
    loop, task = scheduler(), available()
    loop.board.offer(task, 0.0)
    loop.board.due(0.0)
    loop.ordered(interrupt(task.task_id, 5))
    assert not loop.board.ordered_away(task.attempt_id)
