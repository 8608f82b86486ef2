"""What runs a question: a driver goes through the phases of one task (2-desktop §2.3, §2.4).

The execution owns order, safe points and leases; a driver only does what a phase says and is never asked to decide
whether to stop. When an execution is stopped at once (its lease is lost), the running phase is cancelled.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from domain.phases import Phase
from domain.protocol import TaskAvailable


@dataclass(frozen=True, slots=True)
class Answer:
    """The provider's body as text, exactly as received."""

    raw: str
    content_type: str | None = None
    model: str | None = None
    request_id: str | None = None


class DriverFailure(Exception):
    """The question cannot be answered. `code` is stable and travels to the server; `detail` is for people."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code
        self.detail = detail


@dataclass(slots=True)
class RunContext:
    """What belongs to one attempt: the answer so far, and whatever the driver keeps between its phases."""

    answer: Answer | None = None
    resources: Any = None
    # Set by the driver after each step: a login or a human check is under way, so that no safe point is one now (§2.3).
    unsafe: bool = False


class Driver(Protocol):
    """Runs the phases PREPARING to PARSING; POSTING is the execution's own. One driver serves many tasks at once."""

    async def run_phase(self, phase: Phase, task: TaskAvailable, context: RunContext) -> bool | None:
        """Do one phase, or a step of it: True asks to be called again for the rest, after a pause at which it may be
        stopped where the phase allows that. At the end of WAITING `context.answer` is set. Raises DriverFailure.
        """
        ...

    async def release(self, task: TaskAvailable, context: RunContext) -> None:
        """Called once per attempt, however it ends: close the page, forget the task."""
        ...

    def sessions(self) -> Mapping[str, str]:
        """Login health by platform: healthy, login_required, human_check or blocked; absent = unknown."""
        ...


@runtime_checkable
class SelfChecking(Protocol):
    """A driver that knows by itself whether it works, beside what its failures show."""

    def healthy(self) -> bool:
        """False: it can run no question now, whatever the platform. Asked at every heartbeat, so it must be quick."""
        ...


def well(driver: Driver) -> bool:
    """What the driver says of itself; one that says nothing is well."""
    return driver.healthy() if isinstance(driver, SelfChecking) else True
