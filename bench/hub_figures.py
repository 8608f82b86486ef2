"""The figures of the hub benchmark: both servers in the same terms, and the verdict (2-desktop §2.1)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from bench.figures import percentile, summary

TARGETS: Final = {"memory_ratio": 1.3, "push_p99_ms": 100.0}
KINDS: Final = {"task_control": "orders", "task_available": "tasks"}


@dataclass(frozen=True, slots=True)
class Footprint:
    """A process at a moment: bytes, and processor seconds so far.

    `anonymous` is what it has allocated itself. PSS moves with every other Python process that comes or goes.
    """

    anonymous: int
    rss: int
    processor_seconds: float
    tasks: int

    @classmethod
    def of(cls, told: dict[str, Any]) -> Self:
        """As the process told it."""
        return cls(**told)

    def over(self, earlier: "Footprint") -> int:
        """Bytes of its own that came since."""
        return self.anonymous - earlier.anonymous


@dataclass(slots=True)
class Pushed:
    """What was pushed and what came, milliseconds by kind."""

    published: int = 0
    milliseconds: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    # When tasks came, by id, whose publish the receiver does not know.
    came: dict[str, int] = field(default_factory=dict)
    open: int = 0

    def add(self, seen: dict[str, Any]) -> None:
        """What one load process saw."""
        for kind, values in seen["milliseconds"].items():
            self.milliseconds[kind] += values
        self.came.update(seen["tasks"])
        self.open += seen["open"]

    def join(self, more: "Pushed", sent: dict[str, int]) -> None:
        """What came since, of the tasks that were `sent` then."""
        for kind, values in more.milliseconds.items():
            self.milliseconds[kind] += values
        self.milliseconds["task_available"] += [
            (came - sent[task_id]) / 1e6 for task_id, came in more.came.items() if task_id in sent
        ]
        self.open = more.open

    @property
    def all(self) -> list[float]:
        """Of every kind."""
        return [value for values in self.milliseconds.values() for value in values]

    @property
    def count(self) -> int:
        """How many came."""
        return len(self.all)

    def said(self) -> str:
        """One line for people."""
        kinds = ", ".join(
            f"{name} P50 {percentile(values, 0.5):.1f} ms P99 {percentile(values, 0.99):.1f} ms"
            for kind, name in KINDS.items()
            if (values := self.milliseconds[kind])
        )
        return f"{self.count:,} of {self.published:,} pushes came: {kinds}"


@dataclass(frozen=True, slots=True)
class Measured:
    """One server: before the sockets, with half and all of them, after an idle while, before and after the pushes."""

    base: Footprint
    half: Footprint
    settled: Footprint
    idle: Footprint
    before: Footprint
    after: Footprint
    idle_seconds: float
    greetings_per_second: float
    pushed: Pushed

    def bytes_per_socket(self, sockets: int) -> float:
        """Its own memory for the second half, greeted and at rest.

        The first ones move into what start-up has left free, which differs from process to process.
        """
        return self.settled.over(self.half) / (sockets - sockets // 2)

    def shown(self, sockets: int, seconds: float) -> dict[str, Any]:
        """As JSON."""
        idle = (self.idle.processor_seconds - self.settled.processor_seconds) / self.idle_seconds
        pushing = self.after.processor_seconds - self.before.processor_seconds - idle * seconds
        return {
            "kb_per_socket": round(self.bytes_per_socket(sockets) / 1024, 2),
            "kb_per_socket_over_none": round(self.settled.over(self.base) / sockets / 1024, 2),
            "kb_per_socket_over_none_rss": round((self.settled.rss - self.base.rss) / sockets / 1024, 2),
            "kb_per_socket_over_none_after_pushes": round(self.after.over(self.base) / sockets / 1024, 2),
            "rss_mb_without_sockets": round(self.base.rss / 2**20, 1),
            "greetings_per_second": round(self.greetings_per_second),
            "sockets_open_at_the_end": self.pushed.open,
            "pushed": self.pushed.published,
            "came": self.pushed.count,
            "push_ms": summary(self.pushed.all) if self.pushed.count else None,
            **{
                f"{name}_ms": summary(self.pushed.milliseconds[kind]) if self.pushed.milliseconds[kind] else None
                for kind, name in KINDS.items()
            },
            "processor_ms_per_push": round(max(0.0, pushing) / max(1, self.pushed.published) * 1000, 3),
            "processor_seconds_per_idle_minute": round(idle * 60, 2),
        }


def figures(
    sockets: int,
    rate: float,
    seconds: float,
    sizes: dict[str, int],
    ours: Measured,
    bare: Measured,
    broker: Sequence[float],
) -> dict[str, Any]:
    """Ours beside the bare one, and the verdict: everything must have come, too. `broker`: it alone, milliseconds."""
    shown = {"hub": ours.shown(sockets, seconds), "bare": bare.shown(sockets, seconds)}
    ratio = ours.bytes_per_socket(sockets) / max(1.0, bare.bytes_per_socket(sockets))
    latency = shown["hub"]["push_ms"]
    complete = all(one.pushed.count == one.pushed.published and one.pushed.open == sockets for one in (ours, bare))
    return {
        "bench": "hub",
        "sockets": sockets,
        "pushes_per_second": rate,
        "seconds": seconds,
        "frame_bytes": {KINDS[kind]: size for kind, size in sizes.items()},
        **shown,
        "broker_alone_ms": summary(broker) if broker else None,
        "memory_ratio": round(ratio, 3),
        "targets": TARGETS,
        "met": {
            "memory_ratio": complete and ratio <= TARGETS["memory_ratio"],
            "push_p99_ms": complete and latency is not None and latency["p99"] <= TARGETS["push_p99_ms"],
        },
    }
