"""Who gives way (1-dispatch §1.5 step 7)."""

from collections.abc import Iterable
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


def victim_order(task: Running) -> tuple[int, float]:
    """Earliest phase first, then the newest started: the least work is lost."""
    phase = PHASE_ORDER[task.phase] if task.phase is not None else 0
    return (phase, -task.started_at.timestamp())


def choose_victims(
    running: Iterable[Running], *, policy: PreemptPolicy, needed: int, max_preemptions: int
) -> list[Running]:
    """The tasks to interrupt. `needed`: slots that the high tasks lack (policy `needed` stops there).

    A task preempted `max_preemptions` times is spared while another victim exists: its turn comes when the others
    do not make room enough. Where all were preempted as often, policy `all` takes those needed, and one at least.
    """
    ordered = sorted(running, key=victim_order)
    fresh = [task for task in ordered if task.preemptions < max_preemptions]
    tired = [task for task in ordered if task.preemptions >= max_preemptions]
    match policy:
        case PreemptPolicy.ALL:
            return fresh + tired[: max(needed - len(fresh), 0 if fresh else 1)]
        case PreemptPolicy.NEEDED:
            return (fresh + tired)[: max(needed, 0)]
        case _:
            assert_never(policy)
