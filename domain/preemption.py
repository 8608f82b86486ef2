"""Who gives way (1-dispatch §1.5 step 7)."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never
from uuid import UUID

from domain.dispatch_settings import PreemptPolicy
from domain.phases import PHASE_ORDER, Phase


@dataclass(frozen=True, slots=True)
class Running:
    """A scheduled task that runs on the client and may be asked to stop."""

    task_id: UUID
    phase: Phase | None
    started_at: datetime
    preemptions: int
    # What it holds beside its slot.
    platform: str | None = None


def victim_order(task: Running) -> tuple[int, float]:
    """Earliest phase first, then the newest started: the least work is lost."""
    phase = PHASE_ORDER[task.phase] if task.phase is not None else 0
    return (phase, -task.started_at.timestamp())


def choose_victims(
    running: Iterable[Running],
    *,
    policy: PreemptPolicy,
    needed: int,
    max_preemptions: int,
    platforms: Collection[str] = (),
) -> list[Running]:
    """The tasks to interrupt. `needed`: slots that the high tasks lack; `platforms`: full ones that they want.

    Policy `needed` stops there: one that holds each such platform first, since no other makes that room. A task
    preempted `max_preemptions` times is spared while another victim exists: its turn comes when the others do not make
    room enough. Where all were preempted as often, policy `all` takes those needed, and one at least.
    """
    ordered = sorted(running, key=lambda task: (task.preemptions >= max_preemptions, victim_order(task)))
    holders = {task.platform: task for task in reversed(ordered) if task.platform in platforms}
    first = [task for task in ordered if holders.get(task.platform) is task]
    by_need = first + [task for task in ordered if task not in first]
    match policy:
        case PreemptPolicy.ALL:
            fresh = [task for task in ordered if task.preemptions < max_preemptions]
            tired = [task for task in by_need if task.preemptions >= max_preemptions]
            holding = sum(task in first for task in tired)
            return fresh + tired[: max(needed - len(fresh), holding, 0 if fresh else 1)]
        case PreemptPolicy.NEEDED:
            return by_need[: max(needed, len(first))]
        case _:
            assert_never(policy)
