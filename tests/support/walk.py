"""A seeded random walk over everything that changes tasks, with the invariants of the faults checked after each step.

The desktops of the walk remember what they were given and act on it late, twice or not at all; every refusal that the
protocol documents is an outcome, everything else is a failure.
"""

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from domain.desktop_calls import CancelCall, InterruptAckCall, ResultCall
from domain.errors import Conflict, NotFound
from domain.messages import BatchRef, RequestRef
from domain.protocol import HeldAttempt, Hello, TaskAvailable
from store import batches, leases, presence, requests, results
from store.database import transaction
from store.snapshots import take_snapshot
from tests.support.clicks import Hands, click, finish, rounds, task_of_today, whole
from tests.support.world import World, ago

PLATFORMS = ("qwen", "doubao", "kimi")
OPEN = "status in ('accepted', 'dispatching', 'running')"
LIVE = "status in ('queued', 'in_progress', 'unknown')"


@dataclass(slots=True)
class Memory:
    """What one desktop believes it holds."""

    hands: Hands
    waiting: list[TaskAvailable] = field(default_factory=list)
    running: list[TaskAvailable] = field(default_factory=list)


@dataclass(slots=True)
class Walk:
    """One tenant's day at random. `steps` are named for the failure message."""

    world: World
    dice: random.Random
    desktops: list[Memory] = field(default_factory=list)
    batch: int = 0
    questions: list[int] = field(default_factory=list)
    generations: dict[str, int] = field(default_factory=dict)
    tasks: int = 0
    history: list[str] = field(default_factory=list)

    async def prepare(self) -> None:
        """Three desktops, eight questions on three platforms, and a batch over half of them."""
        await self.world.plan(platforms=PLATFORMS)
        for slots in (1, 2, 3):
            self.desktops.append(Memory(Hands(self.world, await self.world.client(max_concurrent=slots))))
        questions = [await self.world.question() for _ in range(8)]
        self.questions = [question.id for question in questions]
        self.batch = await self.world.batch(expected=12)
        for question in questions[:4]:
            for platform in PLATFORMS:
                await task_of_today(self.world, question=question, platform=platform, batch_id=self.batch)

    async def step(self) -> None:
        """One random step, then every invariant."""
        names = list(self.moves())
        name = self.dice.choices(names, [self.moves()[each][0] for each in names])[0]
        self.history.append(name)
        try:
            await self.moves()[name][1]()
        except (Conflict, NotFound) as refusal:
            self.history[-1] += f" ({refusal.code})"
        await self.check()

    def moves(self) -> dict[str, tuple[int, Callable[[], Awaitable[None]]]]:
        """Every step with its weight."""
        return {
            "click": (4, self.click),
            "round": (10, self.round),
            "take": (10, self.take),
            "start": (12, self.start),
            "result": (10, self.result),
            "give way": (6, self.give_way),
            "give back": (2, self.give_back),
            "lease runs out": (4, self.lease_runs_out),
            "sweep": (5, self.sweep),
            "client lost": (2, self.client_lost),
            "client back": (4, self.client_back),
            "cancel": (1, lambda: self.on_request(requests.cancel_request)),
            "ttl": (1, lambda: self.on_request(requests.expire_request)),
            "hard end": (1, lambda: self.on_request(requests.end_request)),
            "hard timeout": (2, lambda: self.on_request(requests.force_release)),
            "rebalance": (1, self.rebalance),
            "cut-off": (1, self.cut_off),
        }

    # --- the tenant and the server ---------------------------------------------------------------------------

    async def click(self) -> None:
        chosen = self.dice.sample(self.questions, self.dice.randint(1, 4))
        platforms = self.dice.choice([None, [self.dice.choice(PLATFORMS)]])
        target = self.dice.choice([None, None, self.dice.choice(self.desktops).hands.desktop.id])
        await self.world.setting("preempt_policy", self.dice.choice(["all", "needed"]))
        await click(
            self.world,
            question_ids=chosen,
            platforms=platforms,
            preempt=self.dice.random() < 0.8,
            target_client_id=target,
            user_id=self.dice.randint(1, 1000),
        )

    async def round(self) -> None:
        # The walk takes no time: without this its minute budgets would never free.
        await self.world.pool.execute("update desktop_tasks set created_at = created_at - interval '61 seconds'")
        await rounds(self.world.pool)

    async def sweep(self) -> None:
        for part in (
            presence.mark_lost,
            presence.return_queued_of_lost,
            presence.return_expired_queued,
            presence.make_expired_unknown,
            presence.resolve_unknown,
            presence.resume_all_batches,
        ):
            async with transaction(self.world.pool) as connection:
                await part(connection)

    async def lease_runs_out(self) -> None:
        rows = await self.world.pool.fetch(
            f"select id from desktop_tasks where {LIVE} and lease_expires_at is not null and result_received_at is null"
            " order by id"
        )
        if rows:
            await self.world.set("desktop_tasks", self.dice.choice(rows)["id"], lease_expires_at=ago(seconds=1))

    async def on_request(self, effect: Callable[[Any, RequestRef], Awaitable[Any]]) -> None:
        rows = await self.world.pool.fetch(
            f"select id, target_client_id from monitoring_collect_requests where {OPEN} order by id"
        )
        if rows:
            row = self.dice.choice(rows)
            given = RequestRef(
                request_id=row["id"],
                tenant_id=self.world.tenant_id,
                client_id=row["target_client_id"],
                generation=2**40,
            )
            await effect(self.world.pool, given)

    async def rebalance(self) -> None:
        client = self.dice.choice(self.desktops).hands.desktop.id
        given = BatchRef(batch_id=self.batch, tenant_id=self.world.tenant_id, client_id=client)
        await batches.rebalance_batch(self.world.pool, given)

    async def cut_off(self) -> None:
        await batches.expire_batch(self.world.pool, BatchRef(batch_id=self.batch, tenant_id=self.world.tenant_id))

    # --- the desktops ----------------------------------------------------------------------------------------

    def someone(self) -> Memory:
        return self.dice.choice(self.desktops)

    def pick(self, held: Sequence[TaskAvailable]) -> TaskAvailable | None:
        return self.dice.choice(held) if held else None

    async def take(self) -> None:
        memory = self.someone()
        memory.waiting += await memory.hands.take()

    async def start(self) -> None:
        memory = self.someone()
        frame = self.pick(memory.waiting)
        if frame is not None:
            await memory.hands.start(frame)
            memory.waiting.remove(frame)
            memory.running.append(frame)

    async def result(self) -> None:
        memory = self.someone()
        frame = self.pick(memory.running)
        if frame is None:
            return
        # Forgotten before or after it was sent: the desktop may send it again.
        if self.dice.random() < 0.9:
            memory.running.remove(frame)
        succeeded = self.dice.random() < 0.7
        call = ResultCall(
            lease_token=frame.lease_token,
            attempt_id=UUID(frame.attempt_id),
            outcome="succeeded" if succeeded else "failed",
        )
        pool, identity = self.world.pool, memory.hands.identity
        target = await results.find_attempt_for_result(pool, identity, UUID(frame.task_id), call)
        if not target.duplicate:
            await results.mark_result_received(pool, target, {})
            await finish(self.world, frame.attempt_id, succeeded=succeeded)

    async def give_way(self) -> None:
        """Acknowledge an interrupt, with a generation that may be stale, or without holding the task any more."""
        memory = self.someone()
        frame = self.pick(memory.running)
        if frame is None:
            return
        row = await self.world.execution(UUID(frame.task_id))
        generation = max(row["interrupt_generation"] - self.dice.choice([0, 0, 0, 1]), 0)
        token = self.dice.choice([frame.lease_token, frame.lease_token, None])
        call = InterruptAckCall(lease_token=token, interrupt_generation=generation)
        await leases.acknowledge_interrupt(self.world.pool, memory.hands.identity, UUID(frame.task_id), call)
        memory.running.remove(frame)

    async def give_back(self) -> None:
        memory = self.someone()
        frame = self.pick(memory.waiting)
        if frame is not None:
            memory.waiting.remove(frame)
            call = CancelCall(
                lease_token=frame.lease_token, reason="busy", interrupt_generation=frame.interrupt_generation
            )
            await leases.cancel(self.world.pool, memory.hands.lease(frame), call)

    async def client_lost(self) -> None:
        memory = self.someone()
        client = memory.hands.desktop.id
        await self.world.pool.execute(
            "update desktop_clients set last_heartbeat_at = now() - interval '60 seconds' where id = $1", client
        )
        await self.sweep()
        rows = await self.world.pool.fetch(
            f"select id from monitoring_collect_requests where {OPEN} and target_client_id = $1", client
        )
        for row in rows:
            given = RequestRef(request_id=row["id"], tenant_id=self.world.tenant_id, client_id=client)
            await requests.release_client(self.world.pool, given)

    async def client_back(self) -> None:
        await self.reconnect(self.someone(), forgetful=self.dice.random() < 0.3)

    async def reconnect(self, memory: Memory, *, forgetful: bool) -> None:
        if forgetful:
            memory.waiting, memory.running = [], []
        held = [
            HeldAttempt(task_id=frame.task_id, attempt_id=frame.attempt_id, phase=phase)
            for frames, phase in ((memory.waiting, None), (memory.running, "WAITING"))
            for frame in frames
        ]
        hello = Hello(id="h", held=held, max_concurrent=None, highest_generation=0)
        pool, identity = self.world.pool, memory.hands.identity
        epoch = await presence.connect(pool, identity, hello)
        snapshot = await take_snapshot(pool, identity, epoch, held, 0)
        valid = {verdict.attempt_id for verdict in snapshot.held if verdict.valid}
        memory.waiting = [frame for frame in memory.waiting if frame.attempt_id in valid] + snapshot.available
        if self.dice.random() < 0.8:
            memory.running = [frame for frame in memory.running if frame.attempt_id in valid]

    # --- what must always hold -------------------------------------------------------------------------------

    async def check(self) -> None:
        """The invariants; each failure names the step."""
        assert await whole(self.world)
        await self._generations_never_go_back()
        await self._no_task_vanishes()
        for statement in FORBIDDEN:
            found = await self.world.pool.fetch(statement)
            assert found == [], (statement, [dict(row) for row in found])

    async def _generations_never_go_back(self) -> None:
        rows = await self.world.pool.fetch(
            "select 't' || id as key, interrupt_generation as g from tenants union all"
            " select 'b' || id, interrupt_generation from monitoring_collect_tasks union all"
            " select 'e' || id, interrupt_generation from desktop_tasks union all"
            " select 'r' || id, interrupt_generation from monitoring_collect_requests"
        )
        now = {row["key"]: row["g"] for row in rows}
        back = {key: (was, now[key]) for key, was in self.generations.items() if now[key] < was}
        assert back == {}
        self.generations = now

    async def _no_task_vanishes(self) -> None:
        tasks = await self.world.pool.fetchval("select count(*) from monitoring_collect_tasks")
        assert tasks >= self.tasks
        self.tasks = tasks

    # --- the end ---------------------------------------------------------------------------------------------

    async def drain(self) -> None:
        """With everybody there and willing, all work ends: nothing was lost or is stuck."""
        left = -1
        # What the desktops have forgotten runs out by its lease.
        await self.world.pool.execute(f"update desktop_tasks set lease_expires_at = now() where {LIVE}")
        for _ in range(60):
            for memory in self.desktops:
                await self.reconnect(memory, forgetful=True)
            await self.sweep()
            await self.round()
            for memory in self.desktops:
                await self._work(memory)
            await self.check()
            left = await self.world.pool.fetchval(
                "select count(*) from monitoring_collect_tasks where status = 'pending'"
            )
            if left == 0:
                break
        assert left == 0, "work is stuck"
        assert await self.world.pool.fetch(f"select id from monitoring_collect_requests where {OPEN}") == []
        assert await self.world.pool.fetch("select 1 from batch_yields where resumed_at is null") == []

    async def _work(self, memory: Memory) -> None:
        for frame in [*memory.waiting, *await memory.hands.take()]:
            try:
                await memory.hands.run(frame)
            except Conflict:
                continue


# Each finds nothing, ever.
FORBIDDEN = (
    f"select r.id from monitoring_collect_requests r where {OPEN} and not exists (select from"
    " monitoring_collect_tasks t where t.collect_request_id = r.id and t.status = 'pending')",
    "select d.id from desktop_tasks d join desktop_clients c on c.id = d.target_client_id"
    " where c.tenant_id <> d.tenant_id",
    "select t.id from monitoring_collect_tasks t join monitoring_collect_requests r on r.id = t.collect_request_id"
    " where r.tenant_id <> t.tenant_id or r.brand_id <> t.brand_id",
    "select id from desktop_tasks where status = 'queued' and (control_flags ->> 'interrupt_requested')::boolean",
    "select a.task_id from desktop_task_attempts a where a.ended_at is null group by 1 having count(*) > 1",
    "select t.id from monitoring_collect_tasks t join monitoring_collect_requests r on r.id = t.collect_request_id"
    f" where r.{OPEN} and r.status_reason is distinct from 'cancelled' and t.status = 'pending'"
    " and t.dispatch_lane <> 'high'",
    "select id from monitoring_collect_requests where completed_task_count + failed_task_count > requested_task_count",
    "select b.batch_id from batch_yields b join desktop_clients c on c.id = b.client_id"
    " where c.tenant_id <> b.tenant_id",
)
