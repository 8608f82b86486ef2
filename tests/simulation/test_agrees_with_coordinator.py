"""The simulated coordinator picks what the real one picks, from the same situation."""

from typing import Any
from uuid import UUID

import pytest

from simulation.day import Day
from simulation.load import PLATFORMS
from simulation.state import State
from store.database import Pool
from store.tenants import ensure_platforms
from tests.simulation.days import quiet
from tests.support.clicks import Hands, accepted, finish, rounds, task_of_today
from tests.support.world import Desktop, World

NAMES = tuple(platform.name for platform in PLATFORMS)
QUESTIONS = 4
# Platforms that the desktops, in the order of their ids, have no login for.
LOGGED_OUT = ((), ("google",), ("openai", "qwen"))

# (question, platform) and the desktop's number, in the order of dispatch.
Picks = list[tuple[int, str, int]]


class Real:
    """A tenant with its desktops and waiting tasks in PostgreSQL."""

    def __init__(self, world: World, desktops: list[Desktop], questions: list[int]) -> None:
        self.world = world
        self.desktops = desktops
        self.questions = questions
        self._seen = 0

    @classmethod
    async def create(cls, pool: Pool) -> "Real":
        await ensure_platforms(pool, list(NAMES))
        world = await World.create(pool)
        await world.plan(platforms=NAMES)
        desktops = sorted([await world.client() for _ in LOGGED_OUT], key=lambda desktop: desktop.id.int)
        for desktop, platforms in zip(desktops, LOGGED_OUT, strict=True):
            await world.set("desktop_clients", desktop.id, platform_sessions=dict.fromkeys(platforms, "blocked"))
        questions = [await world.question() for _ in range(QUESTIONS)]
        for question in questions:
            for name in NAMES:
                await task_of_today(world, question=question, platform=name)
        return cls(world, desktops, [question.id for question in questions])

    async def dispatch(self) -> Picks:
        """Coordinate until nothing more goes; what went."""
        await rounds(self.world.pool)
        rows = await self.world.pool.fetch(
            "select o.id, t.question_id, t.ai_platform_id, d.target_client_id from outbox o"
            " join desktop_tasks d on d.id = (o.payload ->> 'task_id')::uuid"
            " join monitoring_collect_tasks t on t.id = d.monitor_task_id"
            " where o.kind = 'task_available' and o.id > $1 order by o.id",
            self._seen,
        )
        self._seen = max([self._seen, *(row["id"] for row in rows)])
        return [
            (self.questions.index(row["question_id"]), row["ai_platform_id"], self.number(row["target_client_id"]))
            for row in rows
        ]

    async def start_all(self) -> None:
        for desktop in self.desktops:
            hands = Hands(self.world, desktop)
            for frame in await hands.take():
                await hands.start(frame)

    async def finish(self, platforms: tuple[str, ...]) -> None:
        rows = await self.world.pool.fetch(
            "select attempt_id from desktop_tasks where status = 'in_progress' and ai_platform_id = any($1)"
            " order by array_position($1, ai_platform_id)",
            list(platforms),
        )
        for row in rows:
            await finish(self.world, row["attempt_id"])

    async def click(self, question: int) -> tuple[int | None, set[tuple[int, str]]]:
        answer = await accepted(self.world, question_ids=[self.questions[question]])
        rows = await self.world.pool.fetch(
            "select t.question_id, t.ai_platform_id from desktop_tasks d"
            " join monitoring_collect_tasks t on t.id = d.monitor_task_id where d.interrupt_request_id = $1",
            answer.request_id,
        )
        victims = {(self.questions.index(row["question_id"]), row["ai_platform_id"]) for row in rows}
        client: UUID | None = answer.target_client_id
        return (None if client is None else self.number(client)), victims

    def number(self, client_id: UUID) -> int:
        return [desktop.id for desktop in self.desktops].index(client_id)


class Simulated:
    """The same in virtual time."""

    def __init__(self) -> None:
        self.day: Day = quiet(clients=1)
        [self.tenant] = self.day.context.tenants
        for platforms in LOGGED_OUT[1:]:
            self.day.add_client(self.tenant, dict.fromkeys(platforms, "blocked"))
        for question in range(QUESTIONS):
            for platform in PLATFORMS:
                self.day.effects.ask(self.day.task(self.tenant, question, platform))
        self._seen = 0

    def dispatch(self) -> Picks:
        clock = self.day.context.clock
        clock.run(clock.now + 0.2)
        new = sorted((one for one in self.tenant.live if one.id > self._seen), key=lambda one: one.id)
        self._seen = max([self._seen, *(one.id for one in new)])
        return [(one.task.question, one.task.platform.name, self.number(one)) for one in new]

    def finish(self, platforms: tuple[str, ...]) -> None:
        for name in platforms:
            for one in [one for one in self.tenant.live if one.task.platform.name == name]:
                if one.state is State.RUNNING:
                    self.day.effects.complete(one)

    def click(self, question: int) -> tuple[int | None, set[tuple[int, str]]]:
        tasks = [self.day.task(self.tenant, question, platform) for platform in PLATFORMS]
        request = self.day.requests.accept(self.tenant, tasks, self.day.context.clock.now)
        assert request is not None
        victims = {(one.task.question, one.task.platform.name) for one in request.victims}
        client = request.client
        return (None if client is None else self.tenant.clients.index(client)), victims

    def number(self, attempt: Any) -> int:
        return self.tenant.clients.index(attempt.client)


@pytest.fixture
async def real(pool: Pool) -> Real:
    return await Real.create(pool)


async def test_batch_completions_and_a_click_are_dispatched_alike(real: Real) -> None:
    simulated = Simulated()
    assert await real.dispatch() == simulated.dispatch() != []
    await real.start_all()
    for ended in (("google", "openai"), ("qwen",)):
        await real.finish(ended)
        simulated.finish(ended)
        assert await real.dispatch() == simulated.dispatch() != []
        await real.start_all()
    chosen, victims = await real.click(3)
    assert (chosen, victims) == simulated.click(3)
    assert chosen is not None
    assert victims
    assert sorted(await real.dispatch()) == sorted(simulated.dispatch()) != []
