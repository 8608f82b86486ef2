"""What a walk knows: two tenants, what their desktops believe, what is on its way to ingest, and what happened."""

import asyncio
import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

from activities.coordinator import Coordinator
from domain.desktop_calls import PulledTask
from domain.protocol import HeldAttempt, TaskAvailable
from store import residents
from store.database import Pool
from store.hub_backend import StoreHubBackend
from store.listen import Listener
from tests.support.clicks import Hands
from tests.support.legacy import LegacyHands
from tests.support.world import World

PLATFORMS = ("qwen", "doubao", "kimi")
OPEN = "status in ('accepted', 'dispatching', 'running')"
LIVE = "status in ('queued', 'in_progress', 'unknown')"
OPEN_BATCH = "status in ('planned', 'running', 'paused', 'cancelling')"

# Small enough to be met all the time; `people.SETTINGS` changes them.
FUSES = {"cluster_per_minute": 14, "tenant_per_minute": 9, "platform_concurrency": 3}
SETTINGS = {"cluster_per_minute": 12, "tenant_per_minute": 8, "platform_concurrency": 3, "aging_wait_seconds": 0}

Item = TypeVar("Item")
# A task as a desktop has it: leased with its frame, or pulled.
Task = TaskAvailable | PulledTask


@dataclass(slots=True)
class Desk:
    """One desktop: what it believes it holds. `epoch` 0: it is not connected."""

    world: World
    hands: Hands
    legacy: LegacyHands
    slots: int
    epoch: int = 1
    waiting: list[Task] = field(default_factory=list)
    running: list[Task] = field(default_factory=list)
    # What it once had: a late or repeated call may name it.
    past: list[Task] = field(default_factory=list)

    @property
    def id(self) -> UUID:
        return self.hands.desktop.id

    def forget(self, task: Task) -> None:
        """It drops the task, and may still speak of it."""
        for held in (self.waiting, self.running):
            if task in held:
                held.remove(task)
        self.past = [*self.past[-9:], task]

    def held(self) -> list[HeldAttempt]:
        """What a truthful hello lists."""
        listed = [(task, None) for task in self.waiting] + [(task, "WAITING") for task in self.running]
        return [
            HeldAttempt(task_id=task.task_id, attempt_id=task.attempt_id or "", phase=phase) for task, phase in listed
        ]


@dataclass(frozen=True, slots=True)
class Message:
    """A result that the broker has: ingest will see it, perhaps twice, perhaps never."""

    world: World
    attempt_id: str
    succeeded: bool


@dataclass(frozen=True, slots=True)
class Order:
    """What was last seen of an execution task that was ever asked to stop."""

    stands: bool
    request: UUID | None
    generation: int


@dataclass(slots=True)
class Model:
    """One walk. Everything random comes from `dice`, so a seed tells it whole, unless others walk beside it."""

    pool: Pool
    dice: random.Random
    worlds: list[World] = field(default_factory=list)
    desks: list[Desk] = field(default_factory=list)
    coordinators: list[Coordinator] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    queue: list[Message] = field(default_factory=list)
    questions: dict[int, list[int]] = field(default_factory=dict)
    history: list[str] = field(default_factory=list)
    # What must only ever grow, by name.
    highest: dict[str, int] = field(default_factory=dict)
    # Whether nobody else walks on this database.
    alone: bool = True
    # What became of orders to stop, by kind; the orders as last seen; acknowledgements sent: task and generation.
    happened: Counter[str] = field(default_factory=Counter)
    orders: dict[UUID, Order] = field(default_factory=dict)
    acknowledged: set[tuple[str, int]] = field(default_factory=set)
    # Moves that come next, with random ones between them.
    script: deque[tuple[str, "Move"]] = field(default_factory=deque)
    # A coordinator does one thing at a time.
    turns: list[asyncio.Lock] = field(default_factory=list)

    @property
    def hub(self) -> StoreHubBackend:
        return StoreHubBackend(self.pool)

    def note(self, text: str) -> None:
        """More about the step under way."""
        self.history[-1] += f" {text}"

    def chance(self, probability: float) -> bool:
        return self.dice.random() < probability

    def one(self, items: Sequence[Item]) -> Item | None:
        """Any of them; None when there is none."""
        return self.dice.choice(items) if items else None

    def world(self) -> World:
        return self.dice.choice(self.worlds)

    def desk(self, *, connected: bool = True) -> Desk | None:
        """Any desktop that is connected, or any at all."""
        return self.one([desk for desk in self.desks if desk.epoch or not connected])

    async def desk_with(self, query: str) -> Desk | None:
        """Any connected desktop whose id the query finds, mostly; else any."""
        ids = {row[0] for row in await self.pool.fetch(query)} if self.chance(0.9) else set()
        return self.one([desk for desk in self.desks if desk.epoch and desk.id in ids]) or self.desk()

    async def row(self, query: str, *arguments: Any) -> Any:
        """Any row that the query finds; it must order them."""
        return self.one(await self.pool.fetch(query, *arguments))

    def world_of(self, tenant_id: int) -> World:
        return next(world for world in self.worlds if world.tenant_id == tenant_id)


# False: there was nothing to do.
Move = Callable[[Model], Awaitable[bool | None]]
# Moves by name, with how often each is taken.
Moves = dict[str, tuple[float, Move]]


async def prepare(pool: Pool, dice: random.Random) -> Model:
    """Two tenants with three and two desktops of different size, and a batch over half of each one's questions."""
    model = Model(pool, dice)
    for name, slots in (("Acme", (1, 2, 3)), ("Globex", (2, 1))):
        world = await World.create(pool, name)
        await world.plan(platforms=PLATFORMS)
        model.questions[world.tenant_id] = [(await world.question()).id for _ in range(8)]
        model.worlds.append(world)
        for number in slots:
            desktop = await world.client(max_concurrent=number)
            model.desks.append(Desk(world, Hands(world, desktop), LegacyHands(world, desktop), number))
    for shard in range(2):
        model.coordinators.append(Coordinator(pool, Listener("unused"), shard))
        model.turns.append(asyncio.Lock())
        model.epochs.append(await residents.take(pool, f"coordinator/{shard}", "walk"))
    for key, value in FUSES.items():
        await pool.execute("insert into dispatch_fuses (key, value) values ($1, $2)", key, value)
    for key, value in SETTINGS.items():
        await pool.execute("insert into dispatch_settings (key, value) values ($1, $2)", key, value)
    return model
