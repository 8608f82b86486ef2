"""The legacy path: who takes it, ids on the wire, when its desktop may yield (1-dispatch §1.7, dispatch §16.1, §16.2).

There the business task itself is leased, after the coordinator has offered it to one desktop; the new path leases an
execution task. A task id on the wire is the uuid of an execution task, or `l-{number}` of a legacy business task.
"""

from enum import StrEnum
from typing import Final
from uuid import UUID

from domain.phases import Phase, SafePoint, safe_point_before

PREFIX: Final = "l-"
HIGHEST_NUMBER: Final = 2**63 - 1
# An offer that no desktop has taken by then may go to another one; the time a lease lasts.
OFFER_SECONDS: Final = 120
# "Not begun yet" in the sense of dispatch §14.2: from AUTHENTICATING on a legacy task runs to its end.
BEFORE_BEGINNING: Final = frozenset({Phase.PREPARING, Phase.NAVIGATING})

TaskId = UUID | int


class ExecutionOwner(StrEnum):
    """Which table is the truth about a business task's execution; set when it is created, and when it is asked anew."""

    LEGACY = "legacy"
    DESKTOP_TASKS = "desktop_tasks"


def execution_owner(tenant_id: int, rollout_percent: int) -> ExecutionOwner:
    """The path of a tenant's new tasks; `rollout_percent` 0 to 100. A tenant that has moved stays moved as it grows."""
    return ExecutionOwner.DESKTOP_TASKS if tenant_id % 100 < rollout_percent else ExecutionOwner.LEGACY


def wire_id(task_id: TaskId) -> str:
    """The id as frames, calls and orders carry it."""
    return f"{PREFIX}{task_id}" if isinstance(task_id, int) else str(task_id)


def parse_task_id(text: str) -> TaskId | None:
    """The id, an int for a legacy task; None for what can be no id of ours."""
    if text.startswith(PREFIX):
        return _number(text.removeprefix(PREFIX))
    try:
        return UUID(text)
    except ValueError:
        return None


def _number(digits: str) -> int | None:
    # The length first: a million digits would take their time to parse.
    if not (digits.isascii() and digits.isdigit() and len(digits) <= len(str(HIGHEST_NUMBER))):
        return None
    number = int(digits)
    return number if number <= HIGHEST_NUMBER else None


def point_before(owner: str, phase: Phase) -> SafePoint | None:
    """The safe point passed when a task of this path enters the phase; None: it does not stop there.

    A legacy task may also stop between NAVIGATING and AUTHENTICATING, where it has still not begun: before the input.
    """
    if owner == ExecutionOwner.LEGACY and phase is Phase.AUTHENTICATING:
        return SafePoint.BEFORE_INPUT
    return safe_point_before(phase)


def may_yield(phase: Phase | None) -> bool:
    """Whether a legacy task in this phase (None: it waits) still gives way to an order."""
    return phase is None or phase in BEFORE_BEGINNING
