"""What the scripted hub has heard: connections, frames and calls with their moments, and what was against the rules."""

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel

from domain.protocol import AnyClientFrame, Hello

F = TypeVar("F")


@dataclass(slots=True)
class Visit:
    """One connection. Moments are monotonic seconds; `token_by`: header, frame, or None so far."""

    number: int
    path: str
    offered: tuple[str, ...]
    opened_at: float = field(default_factory=time.monotonic)
    token_by: str | None = None
    trusted_at: float | None = None
    greeted_at: float | None = None
    closed_at: float | None = None
    ids: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class HeardFrame:
    """A frame of the client."""

    frame: AnyClientFrame
    visit: int
    at: float = field(default_factory=time.monotonic)


@dataclass(slots=True)
class HeardCall:
    """A REST call about a task. `answered_at` is set once the answer is on its way; `status` is what it said."""

    task_id: str
    action: str
    call: Any
    at: float = field(default_factory=time.monotonic)
    answered_at: float | None = None
    status: int | None = None
    code: str | None = None
    answer: BaseModel | None = None

    @property
    def done(self) -> bool:
        """Answered with success."""
        return self.answer is not None and self.answered_at is not None


@dataclass(slots=True)
class Record:
    """Everything, in order. `breaches`: sentences about what no client may do at any time."""

    visits: list[Visit] = field(default_factory=list)
    frames: list[HeardFrame] = field(default_factory=list)
    calls: list[HeardCall] = field(default_factory=list)
    breaches: list[str] = field(default_factory=list)

    def of(self, kind: type[F]) -> list[F]:
        """The frames of a kind."""
        return [heard.frame for heard in self.frames if isinstance(heard.frame, kind)]

    def hello_of(self, visit: int) -> Hello | None:
        """The hello of one connection."""
        hellos = (one.frame for one in self.frames if one.visit == visit and isinstance(one.frame, Hello))
        return next(hellos, None)

    def called(self, task_id: str, *actions: str) -> list[HeardCall]:
        """The calls about a task, of these kinds."""
        return [call for call in self.calls if call.task_id == task_id and (not actions or call.action in actions)]

    def done(self, task_id: str, *actions: str) -> list[HeardCall]:
        """Those of them that succeeded."""
        return [call for call in self.called(task_id, *actions) if call.done]

    def told(self, task_id: str) -> str:
        """The calls about a task, for a verdict."""
        calls = Counter(f"{call.action} {call.status or 'unanswered'}" for call in self.called(task_id))
        told = [call if count == 1 else f"{count} × {call}" for call, count in calls.items()]
        return ", ".join(told) or "no call about the task"
