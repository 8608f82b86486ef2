"""Resident keeps one loop alive, at a handful of history events however often it moves (1-dispatch §1.9)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError
from temporalio.exceptions import ApplicationError, CancelledError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import Worker

from activities import resident as resident_activities
from activities.resident import ResidentActivities
from domain.errors import FencedOut
from domain.ids import new_uuid
from domain.messages import RESIDENT_QUEUE, ResidentStart, resident_workflow_id
from store import residents
from store.database import Pool, transaction
from tests.workflows.clock import Clock
from tests.workflows.stage import history_length, until
from workflows.resident import Resident


class Loops:
    """A role whose loop does what the test says; writes down every epoch at which it ran."""

    def __init__(self, behave: Callable[[str, int], Coroutine[Any, Any, None]]) -> None:
        self.epochs: list[int] = []
        self.stopped = 0
        self._behave = behave

    async def run(self, name: str, epoch: int, _shard: int) -> None:
        self.epochs.append(epoch)
        try:
            await self._behave(name, epoch)
        finally:
            self.stopped += 1


async def for_ever(_name: str, _epoch: int) -> None:
    await asyncio.Event().wait()


@asynccontextmanager
async def resident(clock: Clock, pool: Pool, loops: Loops, *, rotate_after: float = 600) -> AsyncIterator[Any]:
    role = f"role-{new_uuid()}"
    queue = f"test-{role}"
    activities = [ResidentActivities(pool, {role: loops.run}).run_resident]
    process = Worker(clock.client, task_queue=queue, workflows=[Resident])
    # The fixed queue of the residents: this server is the session's own, and the tests run one after the other.
    serving = Worker(
        clock.client,
        task_queue=RESIDENT_QUEUE,
        activities=activities,
        max_heartbeat_throttle_interval=timedelta(milliseconds=100),
        graceful_shutdown_timeout=timedelta(seconds=1),
    )
    async with process, serving:
        start = ResidentStart(role=role, rotate_after_seconds=rotate_after)
        handle = await clock.client.start_workflow(
            Resident.run, start, id=resident_workflow_id(role, 0), task_queue=queue
        )
        try:
            yield handle
        finally:
            if (await handle.describe()).status is WorkflowExecutionStatus.RUNNING:
                await handle.terminate()


async def test_rotations_take_a_new_epoch_and_write_no_history(clock: Clock, pool: Pool) -> None:
    loops = Loops(for_ever)
    async with resident(clock, pool, loops, rotate_after=0.05) as handle:
        await until(lambda: _ran(loops, 8))
        assert loops.epochs == sorted(set(loops.epochs))
        assert await history_length(handle) <= 8


async def test_a_loop_that_was_fenced_out_starts_again_at_a_newer_epoch(clock: Clock, pool: Pool) -> None:
    async def lose_the_lease(name: str, epoch: int) -> None:
        if epoch == 1:
            await residents.take(pool, name, "another process")
        async with transaction(pool) as connection:
            await residents.hold(connection, name, epoch)
        await asyncio.Event().wait()

    loops = Loops(lose_the_lease)
    async with resident(clock, pool, loops):
        await until(lambda: _ran(loops, 2))
        assert loops.epochs == [1, 3]


async def test_a_loop_that_breaks_or_ends_runs_again(clock: Clock, pool: Pool) -> None:
    async def break_twice(_name: str, epoch: int) -> None:
        if epoch == 1:
            raise OSError("the broker is gone")
        if epoch > 2:
            await asyncio.Event().wait()

    loops = Loops(break_twice)
    async with resident(clock, pool, loops) as handle:
        await until(lambda: _ran(loops, 3))
        assert await history_length(handle) <= 30


async def test_a_cancel_ends_the_loop_and_the_resident(clock: Clock, pool: Pool) -> None:
    loops = Loops(for_ever)
    async with resident(clock, pool, loops) as handle:
        await until(lambda: _ran(loops, 1))
        await handle.cancel()
        with pytest.raises(WorkflowFailureError) as failed:
            await handle.result()
        assert isinstance(failed.value.cause.__cause__ or failed.value.cause, CancelledError)
        assert (await handle.describe()).status is WorkflowExecutionStatus.CANCELED
        await until(lambda: _stopped(loops))


async def test_a_frozen_holder_writes_nothing_after_the_take_over(pool: Pool) -> None:
    frozen = await residents.take(pool, "coordinator/0", "frozen")
    await residents.take(pool, "coordinator/0", "new")
    with pytest.raises(FencedOut):
        async with transaction(pool) as connection:
            await residents.hold(connection, "coordinator/0", frozen)


IS_GONE = "select not exists (select from pg_stat_activity where pid = $1)"


async def test_a_holder_frozen_inside_a_transaction_does_not_keep_its_successor_waiting(
    pool: Pool, database_url: str
) -> None:
    epoch = await residents.take(pool, "coordinator/0", "frozen")
    # A connection that sets no timeout of its own.
    frozen = await asyncpg.connect(database_url)
    pid = frozen.get_server_pid()
    try:
        transaction_of_frozen = frozen.transaction()
        await transaction_of_frozen.start()
        await residents.hold(frozen, "coordinator/0", epoch)
        async with asyncio.timeout(20):
            assert await residents.take(pool, "coordinator/0", "new") == epoch + 1
        await until(lambda: pool.fetchval(IS_GONE, pid))
    finally:
        frozen.terminate()


async def test_a_resident_that_waits_for_its_lease_heartbeats_before_and_meanwhile(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident_activities, "HEARTBEAT_SECONDS", 0.01)
    await residents.take(pool, "role/0", "former")
    loops, beats = Loops(for_ever), asyncio.Semaphore(0)
    environment = ActivityEnvironment()
    environment.on_heartbeat = lambda *_details: beats.release()
    async with pool.acquire() as former, former.transaction():
        await former.execute("select from resident_leases where name = 'role/0' for share")
        start = ResidentStart(role="role", rotate_after_seconds=600)
        running = asyncio.ensure_future(
            environment.run(ResidentActivities(pool, {"role": loops.run}).run_resident, start)
        )
        for _ in range(3):
            await beats.acquire()
        assert loops.epochs == []
    await until(lambda: _ran(loops, 1))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert (loops.epochs, loops.stopped) == ([2], 1)


async def test_a_lease_that_cannot_be_taken_in_time_is_left_to_another_worker(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident_activities, "TAKE_SECONDS", 0.05)
    await residents.take(pool, "role/0", "former")
    loops = Loops(for_ever)
    async with pool.acquire() as former, former.transaction():
        await former.execute("select from resident_leases where name = 'role/0' for share")
        start = ResidentStart(role="role", rotate_after_seconds=600)
        with pytest.raises(ApplicationError) as failed:
            await ActivityEnvironment().run(ResidentActivities(pool, {"role": loops.run}).run_resident, start)
    assert not failed.value.non_retryable
    assert loops.epochs == []


async def _ran(loops: Loops, times: int) -> bool:
    return len(loops.epochs) >= times


async def _stopped(loops: Loops) -> bool:
    return loops.stopped == len(loops.epochs)
