"""Waiting work of one tenant in the dispatch order, and the heads of it that a round looks at.

What the index on `monitoring_collect_tasks` does for the real coordinator. A boosted task's priority grows with its
age, the same for all of one base: so within a base they are ordered by age alone, and the priority is worked out when
a head is read.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING
from uuid import UUID

from domain.lanes import Lane

if TYPE_CHECKING:
    from simulation.state import Task

Order = tuple[int, float, int]
Queue = list[tuple[Order, "Task"]]
# Lane, base priority (boosted ones apart), platform, bound client.
Place = tuple[Lane, int, str, UUID | None]

SCHEDULED = (Lane.NORMAL_BOOSTED, Lane.NORMAL)


class Waiting:
    """Queues by place, each ordered. A place without tasks is not kept."""

    __slots__ = ("_queues", "bound", "by_lane")

    def __init__(self) -> None:
        self._queues: dict[Place, Queue] = {}
        self.by_lane: dict[Lane, int] = dict.fromkeys((Lane.HIGH, *SCHEDULED, Lane.RETRY), 0)
        # High tasks by the client they are bound to.
        self.bound: dict[UUID, int] = {}

    def __len__(self) -> int:
        return sum(self.by_lane.values())

    @property
    def normal(self) -> int:
        """Normal and boosted tasks that wait."""
        return self.by_lane[Lane.NORMAL] + self.by_lane[Lane.NORMAL_BOOSTED]

    def add(self, task: "Task") -> None:
        """Let it wait in its place."""
        insort(self._queues.setdefault(_place(task), []), (_order(task), task))
        self._count(task, 1)

    def remove(self, task: "Task") -> None:
        """Take it out; it must be as it was when it was added."""
        place = _place(task)
        queue = self._queues[place]
        del queue[bisect_left(queue, (_order(task),))]
        if not queue:
            del self._queues[place]
        self._count(task, -1)

    def heads(self, lanes: tuple[Lane, ...], unbound: int, bound: int, open_to: Collection[str]) -> Iterator["Task"]:
        """The first tasks of every place of these lanes: so many unbound ones, so many bound to each client.

        `open_to`: platforms that take scheduled work now. High work is given in any case: a slot may be promised to it.
        """
        for (lane, _, platform, client), queue in self._queues.items():
            if lane in lanes and (lane is Lane.HIGH or platform in open_to):
                for _, task in queue[: unbound if client is None else bound]:
                    yield task

    @property
    def unbound_high(self) -> bool:
        """Whether a high task waits for a client."""
        return self.by_lane[Lane.HIGH] > sum(self.bound.values())

    def eldest(self, lanes: tuple[Lane, ...]) -> tuple[Lane, float]:
        """The first of these lanes that has work, and when its oldest head was enqueued; KeyError without any."""
        for lane in lanes:
            if self.by_lane[lane]:
                heads = (queue[0][0][1] for (found, *_), queue in self._queues.items() if found is lane)
                return lane, min(heads)
        raise KeyError(lanes)

    def ready(self, lane: Lane, before: float) -> list[Queue]:
        """The oldest tasks of a lane, a queue a place: those enqueued by then."""
        return [
            queue[:count]
            for (found, _, _, client), queue in self._queues.items()
            if found is lane and client is None and (count := _aged(queue, before))
        ]

    def _count(self, task: "Task", by: int) -> None:
        self.by_lane[task.lane] += by
        if task.lane is Lane.HIGH and task.bound is not None:
            left = self.bound.get(task.bound.id, 0) + by
            if left:
                self.bound[task.bound.id] = left
            else:
                del self.bound[task.bound.id]


def _place(task: "Task") -> Place:
    base = task.base if task.lane is Lane.NORMAL_BOOSTED else 0
    return (task.lane, base, task.platform.name, task.bound.id if task.bound else None)


def _order(task: "Task") -> Order:
    return (0 if task.lane is Lane.NORMAL_BOOSTED else -task.priority, task.enqueued, task.id)


def _aged(queue: Queue, before: float) -> int:
    """How many of a queue of equal priorities are that old."""
    return bisect_left(queue, before, key=lambda item: item[0][1])
