"""Leases as a state machine: whatever desktop, hub, accept and clock do, the invariants of faults.md hold."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar
from uuid import UUID

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from activities.presence import PresenceSweeper
from domain.desktop_calls import CancelCall, InterruptAckCall, ResultCall
from domain.errors import LeaseLost, NoSlot, StaleGeneration
from domain.hub_port import ClientIdentity, HeartbeatRecord
from domain.protocol import Heartbeat, HeldAttempt, Hello, TaskAvailable
from store import leases, residents, results
from store.database import Pool, open_pool, transaction
from store.hub_backend import StoreHubBackend
from store.leases import LeaseRef
from store.settlement import Ending, settle
from tests.support.granting import grant
from tests.support.world import World, ago

T = TypeVar("T")
PLATFORMS = ("qwen", "kimi", "doubao", "qwen")
SLOTS = 2

SETTINGS = settings(
    max_examples=25, stateful_step_count=30, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)

FREE = """
select id from monitoring_collect_tasks where tenant_id = $1 and status = 'pending' and active_task_id is null
"""
RUNNING = """
select id from desktop_tasks where tenant_id = $1 and status = 'in_progress' and result_received_at is null
"""
BROKEN = """
select 'two live rows' as fault from desktop_tasks
    where tenant_id = $1 and status in ('queued', 'in_progress', 'unknown')
    group by monitor_task_id having count(*) > 1
union all select 'two open attempts' from desktop_task_attempts where tenant_id = $1 and ended_at is null
    group by monitor_task_id having count(*) > 1
union all select 'a lease outlives its task' from desktop_tasks where tenant_id = $1
    and status in ('succeeded', 'failed', 'aborted') and lease_expires_at is not null
union all select 'an open attempt of a finished row' from desktop_task_attempts a
    join desktop_tasks d on d.id = a.task_id
    where d.tenant_id = $1 and a.ended_at is null and d.status in ('succeeded', 'failed', 'aborted')
union all select 'a lost task' from monitoring_collect_tasks t left join desktop_tasks d on d.id = t.active_task_id
    where t.tenant_id = $1 and t.active_task_id is not null and d.status not in ('queued', 'in_progress', 'unknown')
union all select 'a task both finished and active' from monitoring_collect_tasks
    where tenant_id = $1 and status <> 'pending' and active_task_id is not null
union all select 'attempts miscounted' from monitoring_collect_tasks t where t.tenant_id = $1
    and t.dispatch_attempts <> (select count(*) from desktop_task_attempts a where a.monitor_task_id = t.id
        and a.started_at is not null and a.outcome in ('failed', 'lease_expired'))
union all select 'preemptions miscounted' from monitoring_collect_tasks t where t.tenant_id = $1
    and t.preemptions <> (select count(*) from desktop_task_attempts a where a.monitor_task_id = t.id
        and a.outcome = 'preempted')
union all select 'settled miscounted' from monitoring_collect_requests r where r.tenant_id = $1
    and r.interrupt_settled_count < (select count(*) from desktop_tasks d where d.interrupt_request_id = r.id
        and d.status in ('succeeded', 'failed', 'aborted'))
"""


class LeaseMachine(RuleBasedStateMachine):
    """One desktop with a few tasks; `known` is every lease the desktop was ever given, the current ones and the old."""

    def __init__(self, runner: asyncio.Runner, pool: Pool) -> None:
        super().__init__()
        self._runner, self._pool = runner, pool
        self._hub = StoreHubBackend(pool)
        self._generation = 0
        self.known: list[TaskAvailable] = []
        self.do(self._create())

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    async def _create(self) -> None:
        self.world = await World.create(self._pool)
        self.client = await self.world.client(max_concurrent=SLOTS)
        self.me = ClientIdentity(self.client.id, self.world.tenant_id)
        for platform in PLATFORMS:
            task = await self.world.business_task(platform=platform)
            await self.world.set("monitoring_collect_tasks", task, max_attempts=20)
        self.epoch = await self._hub.connected(self.me, Hello(id="h"))

    def lease(self, index: int) -> tuple[TaskAvailable, LeaseRef]:
        frame = self.known[index % len(self.known)]
        return frame, LeaseRef(self.me, UUID(frame.task_id), frame.lease_token)

    @rule()
    def dispatch(self) -> None:
        """The coordinator's round and the hub's push."""

        async def run() -> None:
            rows = await self._pool.fetch(FREE, self.world.tenant_id)
            tasks = [await self.world.execution_task(row["id"], self.client.id) for row in rows]
            self.known += await grant(self._hub, self.me, self.epoch, tasks)

        self.do(run())

    @precondition(lambda self: self.known)
    @rule(index=st.integers(0, 30))
    def start(self, index: int) -> None:
        _, lease = self.lease(index)
        with suppress(LeaseLost, NoSlot):
            self.do(leases.start(self._pool, lease))

    @precondition(lambda self: self.known)
    @rule(index=st.integers(0, 30))
    def extend(self, index: int) -> None:
        with suppress(LeaseLost):
            self.do(leases.extend(self._pool, self.lease(index)[1]))

    @precondition(lambda self: self.known)
    @rule(index=st.integers(0, 30), behind=st.integers(0, 2))
    def cancel(self, index: int, behind: int) -> None:
        frame, lease = self.lease(index)
        call = CancelCall(
            lease_token=frame.lease_token, reason="stop", interrupt_generation=max(self._generation - behind, 0)
        )
        with suppress(LeaseLost, StaleGeneration):
            self.do(leases.cancel(self._pool, lease, call))

    @precondition(lambda self: self.known)
    @rule(index=st.integers(0, 30))
    def acknowledge_without_lease(self, index: int) -> None:
        call = InterruptAckCall(interrupt_generation=self._generation)
        with suppress(StaleGeneration):
            self.do(leases.acknowledge_interrupt(self._pool, self.me, self.lease(index)[1].task_id, call))

    @rule()
    def interrupt(self) -> None:
        """An accept interrupts what runs."""

        async def run() -> None:
            self._generation += 1
            request = await self.world.request(generation=self._generation, status="succeeded")
            for row in await self._pool.fetch(RUNNING, self.world.tenant_id):
                await self.world.interrupt(row["id"], request, self._generation)

        self.do(run())

    @precondition(lambda self: self.known)
    @rule(index=st.integers(0, 30), outcome=st.sampled_from(["succeeded", "failed"]), ingested=st.booleans())
    def send_result(self, index: int, outcome: str, ingested: bool) -> None:
        frame, lease = self.lease(index)
        body = {"lease_token": frame.lease_token, "attempt_id": frame.attempt_id, "outcome": outcome, "raw": "{}"}

        async def run() -> None:
            target = await results.find_attempt_for_result(
                self._pool, self.me, lease.task_id, ResultCall.model_validate(body)
            )
            if ingested and not target.duplicate:
                async with transaction(self._pool) as connection:
                    await settle(
                        connection, [Ending(target.attempt_id, outcome == "succeeded", None, target.received_at)]
                    )
            await results.mark_result_received(self._pool, target, {})

        with suppress(LeaseLost):
            self.do(run())

    @rule(listed=st.lists(st.integers(0, 30), max_size=3))
    def heartbeat(self, listed: list[int]) -> None:
        frame = Heartbeat(id="b", running=self.held(listed))
        self.do(self._hub.heartbeats([HeartbeatRecord(self.client.id, self.epoch, frame)]))

    @rule(listed=st.lists(st.integers(0, 30), max_size=3))
    def reconnect(self, listed: list[int]) -> None:
        async def run() -> None:
            held = self.held(listed)
            self.epoch = await self._hub.connected(self.me, Hello(id="h", held=held))
            content = await self._hub.snapshot(self.me, self.epoch, held, self._generation)
            self.known += content.available

        self.do(run())

    def held(self, listed: list[int]) -> list[HeldAttempt]:
        frames = [self.known[index % len(self.known)] for index in listed] if self.known else []
        return [HeldAttempt(task_id=frame.task_id, attempt_id=frame.attempt_id) for frame in frames]

    @rule()
    def time_passes(self) -> None:
        """Every lease runs out."""
        over = "update desktop_tasks set lease_expires_at = $2 where tenant_id = $1 and lease_expires_at is not null"
        self.do(self._pool.execute(over, self.world.tenant_id, ago(seconds=1)))

    @rule()
    def sweep(self) -> None:
        async def run() -> None:
            epoch = await residents.take(self._pool, "presence-sweeper/0", "test")
            await PresenceSweeper(self._pool).sweep("presence-sweeper/0", epoch)

        self.do(run())

    @invariant()
    def nothing_is_broken(self) -> None:
        faults = self.do(self._pool.fetch(BROKEN, self.world.tenant_id))
        assert [row["fault"] for row in faults] == []


def test_leases_keep_their_invariants(database_url: str) -> None:
    with asyncio.Runner() as runner:
        pool = runner.run(open_pool(database_url, size=4, name="giveway-test"))

        class Machine(LeaseMachine):
            def __init__(self) -> None:
                super().__init__(runner, pool)

        try:
            run_state_machine_as_test(Machine, settings=SETTINGS)
        finally:
            pool.terminate()
