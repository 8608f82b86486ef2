"""What a desktop tells about itself while it works: the demo and the benchmarks read these, never its log.

Each event carries both clocks: `monotonic` (seconds, `time.monotonic`) for intervals, `wall` (UTC) to compare with
the server's rows.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import TypedDict, Unpack

from domain.phases import Phase, SafePoint
from domain.protocol import Control, TaskAvailable

log = logging.getLogger(__name__)


class EventKind(StrEnum):
    """The catalogue of events; the fields named are set beside the task's own."""

    CONNECTED = "connected"
    RECONNECTING = "reconnecting"  # detail: why; interval_ms: the wait
    REFUSED = "refused"  # detail: the close code's name
    FRAME_RECEIVED = "frame_received"  # frame; control and generation of a task_control; at the moment of recv
    PULLED = "pulled"  # a legacy task that was on offer, with its lease
    ORDER_TAKEN = "order_taken"  # control, generation: the flag is set or cleared
    ORDER_STALE = "order_stale"  # generation older than the last seen: ignored
    NO_SLOT = "no_slot"
    STARTED = "started"  # the server answered the start call
    SAFE_POINT_PASSED = "safe_point_passed"  # safe_point, interval_ms since the one before
    PHASE_ENTERED = "phase_entered"  # phase
    GAVE_WAY = "gave_way"  # safe_point, generation, phase, interval_ms
    RETURNED = "returned"  # a queued task went back to the server; generation
    ACKED_UNHELD = "acked_unheld"  # an order for work this desktop does not run; generation
    FINISHED = "finished"  # outcome: succeeded | failed; detail: accepted | kept | discarded
    DROPPED = "dropped"  # detail: lease_lost, canceled, …
    RESULT_ACCEPTED = "result_accepted"
    RESULT_KEPT = "result_kept"  # on disk, to be sent again
    RESULT_DISCARDED = "result_discarded"  # detail: the refusal


@dataclass(frozen=True, slots=True)
class Moment:
    """One instant on both clocks."""

    monotonic: float = field(default_factory=time.monotonic)
    wall: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass(frozen=True, slots=True, kw_only=True)
class DesktopEvent:
    """Something that happened on one desktop. Intervals in milliseconds."""

    kind: EventKind
    client_id: str
    monotonic: float
    wall: datetime
    task_id: str | None = None
    attempt_id: str | None = None
    lane: str | None = None
    frame: str | None = None
    control: Control | None = None
    phase: Phase | None = None
    safe_point: SafePoint | None = None
    generation: int | None = None
    interval_ms: float | None = None
    outcome: str | None = None
    detail: str | None = None


Observer = Callable[[DesktopEvent], None]


class Details(TypedDict, total=False):
    """The optional fields of an event."""

    task_id: str | None
    attempt_id: str | None
    lane: str | None
    frame: str | None
    control: Control | None
    phase: Phase | None
    safe_point: SafePoint | None
    generation: int | None
    interval_ms: float | None
    outcome: str | None
    detail: str | None


class Reporter:
    """Stamps events with client and time and hands them to the observer."""

    def __init__(self, client_id: str, observer: Observer | None = None) -> None:
        self.client_id = client_id
        self._observer = observer

    def emit(self, kind: EventKind, at: Moment | None = None, **details: Unpack[Details]) -> None:
        """Report one event. An observer that raises is logged: it must not stop the desktop."""
        if self._observer is None:
            return
        at = at or Moment()
        event = DesktopEvent(kind=kind, client_id=self.client_id, monotonic=at.monotonic, wall=at.wall, **details)
        try:
            self._observer(event)
        except Exception:
            log.exception("desktop %s: the observer failed on %s", self.client_id, kind)

    def task(
        self, kind: EventKind, frame: TaskAvailable, /, at: Moment | None = None, **details: Unpack[Details]
    ) -> None:
        """Report an event of one task."""
        details["task_id"], details["attempt_id"], details["lane"] = frame.task_id, frame.attempt_id, frame.lane
        self.emit(kind, at, **details)
