"""What the CollectNow workflow knows of its request, and when something is due."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from domain.messages import (
    AcceptOutcome,
    AcceptResult,
    ClientLost,
    CollectNowAnswer,
    InterruptSettled,
    InterruptsInherited,
    RequestCounters,
    TasksTerminal,
)

WARN_UNDISPATCHED_AFTER: Final = timedelta(seconds=30)
# After a cancel: a running task whose attempt fails waits again, so look again; each time twice as late.
FIRST_RECHECK: Final = timedelta(seconds=30)
OPEN_STATUSES: Final = frozenset({"starting", "accepted", "dispatching", "running"})
BEFORE_ALL: Final = datetime.min.replace(tzinfo=UTC)


@dataclass
class Interrupt:
    """Orders to stop, given to one client at one generation.

    `soft_ms` and `hard_ms`: when to look again, counted from `asked_at`; None: as the accept said.
    """

    asked_at: datetime
    outstanding: int
    soft_noted: bool = False
    released: bool = False
    soft_ms: int | None = None
    hard_ms: int | None = None

    def waited_ms(self, now: datetime) -> int:
        """How long the victims have had, by the workflow's clock."""
        return max(int((now - self.asked_at) / timedelta(milliseconds=1)), 0)

    def look_again(self, counters: RequestCounters, now: datetime) -> None:
        """Take over the timeouts that are set now: another moment may be the first at which somebody is late."""
        waited = self.waited_ms(now)
        if counters.soft_in_ms is not None and not self.soft_noted:
            self.soft_ms = waited + counters.soft_in_ms
        if counters.hard_in_ms is not None:
            self.hard_ms = waited + counters.hard_in_ms


@dataclass
class RequestState:
    """Everything the workflow knows of its request."""

    accepted: AcceptResult | None = None
    status: str = "starting"
    hint: str | None = None
    requested: int = 0
    dispatched: int = 0
    completed: int = 0
    failed: int = 0
    returned: int = 0
    client_id: UUID | None = None
    generation: int = 0
    accepted_at: datetime | None = None
    warned: bool = False
    superseded_by: UUID | None = None
    # A signal says that nothing is left; the row decides.
    said_to_end: bool = False
    lost_clients: list[UUID] = field(default_factory=list)
    losses: dict[UUID, tuple[int, datetime]] = field(default_factory=dict)
    interrupts: dict[tuple[UUID, int], Interrupt] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    recheck_at: datetime | None = None
    recheck_after: timedelta = FIRST_RECHECK

    @property
    def ended(self) -> bool:
        """The row is terminal."""
        return self.status not in OPEN_STATUSES

    @property
    def searchable(self) -> tuple[str, UUID | None, int]:
        """What operators search by: status, client, generation."""
        return self.status, self.client_id, self.generation

    @property
    def awaits_victims(self) -> bool:
        """Whether somebody was asked to stop and is not known to have stopped or been revoked."""
        return any(asked.outstanding and not asked.released for asked in self.interrupts.values())

    # --- the accept and the signals; signals may come first -----------------------------------------------------

    def record_accept(self, result: AcceptResult, now: datetime) -> None:
        """Take over what the accept transaction did; signals that came before it know better."""
        if self.accepted is not None:
            return
        self.accepted = result
        if result.outcome is not AcceptOutcome.ACCEPTED or result.answer is None:
            return
        answer = result.answer
        self.status, self.hint, self.accepted_at = result.status, result.hint, now
        if self.ended:
            # Accepted again by a run that was reset: the row has the counters too.
            self.status, self.said_to_end = "running", True
        self.requested = self.requested or answer.affected_task_count
        self.generation = max(self.generation, answer.interrupt_generation)
        if self.generation == answer.interrupt_generation:
            self.client_id = answer.target_client_id
        if answer.interrupt_requested_count and answer.target_client_id is not None:
            asked = Interrupt(now, answer.interrupt_requested_count)
            self.interrupts.setdefault((answer.target_client_id, answer.interrupt_generation), asked)

    def first_time(self, outbox_id: int) -> bool:
        """Whether this outbox row was not handled before; 0 is no row's."""
        if outbox_id in self.seen:
            return False
        if outbox_id:
            self.seen.add(outbox_id)
        return True

    def dispatch(self, count: int) -> None:
        """The first frame was written, `count` so far; the row may be further already."""
        self.dispatched = max(self.dispatched, count)
        if self.status == "accepted":
            self.status = "dispatching"

    def settle(self, signal: InterruptSettled, now: datetime) -> None:
        """Totals of one client's generation; before the accept is known they are all that is known."""
        key = (signal.client_id, signal.generation)
        if self.accepted is None:
            self.interrupts.setdefault(key, Interrupt(now, signal.outstanding))
        if key in self.interrupts:
            asked = self.interrupts[key]
            asked.outstanding = min(asked.outstanding, signal.outstanding)

    def lose(self, signal: ClientLost) -> None:
        """The client is lost; a silence of an epoch already seen, or an older one, is ignored."""
        loss = (signal.epoch, signal.lost_at or BEFORE_ALL)
        if loss > self.losses.get(signal.client_id, (-1, BEFORE_ALL)):
            self.losses[signal.client_id] = loss
            self.lost_clients.append(signal.client_id)

    def bind(self, client_id: UUID, generation: int, interrupts: int, now: datetime) -> None:
        """Bound to a client, unless a newer binding is known."""
        if generation <= self.generation:
            return
        self.client_id, self.generation = client_id, generation
        if interrupts:
            self.interrupts.setdefault((client_id, generation), Interrupt(now, interrupts))

    def inherit(self, signal: InterruptsInherited, now: datetime) -> None:
        """A request that is over has left its victims on this client to us."""
        key = (signal.client_id, signal.generation)
        asked = self.interrupts.setdefault(key, Interrupt(min(signal.asked_at or now, now), 0))
        asked.outstanding += signal.interrupts
        # Others at this generation may have lost their leases before; these have not.
        asked.released = False

    def count(self, signal: TasksTerminal) -> None:
        """Totals of the request."""
        self.completed, self.failed, self.returned = signal.completed, signal.failed, signal.returned
        self.requested = signal.completed + signal.failed + signal.remaining + signal.returned
        self.said_to_end = self.said_to_end or signal.remaining == 0
        if self.status in ("accepted", "dispatching") and signal.completed + signal.failed:
            self.status = "running"

    def take_over(self, counters: RequestCounters) -> None:
        """The request as an effect left it."""
        self.status, self.hint = counters.status, counters.hint
        self.requested, self.dispatched = counters.requested, max(self.dispatched, counters.dispatched)
        self.completed, self.failed, self.returned = counters.completed, counters.failed, counters.returned

    # --- when something is due -------------------------------------------------------------------------------------

    def deadlines(self) -> list[datetime]:
        """Every moment at which something is to be done if nothing comes before."""
        if self.recheck_at is not None:
            return [self.hard_end_at, self.recheck_at]
        times = [self.hard_end_at]
        if not self.dispatched:
            times += [self.ttl_at] if self.warned else [self.warn_at, self.ttl_at]
        for asked in self.interrupts.values():
            if asked.outstanding and not asked.soft_noted:
                times.append(self.soft_at(asked))
            if asked.outstanding and not asked.released:
                times.append(self.hard_at(asked))
        return times

    def withdraw_is_due(self, now: datetime) -> bool:
        """Whether the cancel is to be applied now: at once, then again at growing distances."""
        if self.recheck_at is not None and now < self.recheck_at:
            return False
        self.recheck_at = now + self.recheck_after
        self.recheck_after *= 2
        return True

    @property
    def waits_for_safe_point(self) -> bool:
        """Whether an interrupt is past its soft timeout, not settled, and its victim not revoked."""
        return any(asked.outstanding and asked.soft_noted and not asked.released for asked in self.interrupts.values())

    @property
    def _answer(self) -> CollectNowAnswer:
        assert self.accepted is not None
        assert self.accepted.answer is not None
        return self.accepted.answer

    @property
    def ttl_at(self) -> datetime:
        """Nothing dispatched until then: timed out."""
        return self._answer.ttl_expires_at

    @property
    def warn_at(self) -> datetime:
        """Nothing dispatched until then: a warning and a hint."""
        assert self.accepted_at is not None
        return min(self.accepted_at + WARN_UNDISPATCHED_AFTER, self.ttl_at)

    @property
    def hard_end_at(self) -> datetime:
        """The end of the request, whatever is left."""
        assert self.accepted is not None
        return self.accepted.hard_deadline or self.ttl_at

    def soft_at(self, asked: Interrupt) -> datetime:
        """The victim should have reached a safe point."""
        assert self.accepted is not None
        after = self.accepted.soft_timeout_ms if asked.soft_ms is None else asked.soft_ms
        return asked.asked_at + timedelta(milliseconds=after)

    def hard_at(self, asked: Interrupt) -> datetime:
        """The victim's lease is revoked."""
        assert self.accepted is not None
        after = self.accepted.hard_timeout_ms if asked.hard_ms is None else asked.hard_ms
        return asked.asked_at + timedelta(milliseconds=after)

    def summary(self) -> str:
        """Markdown for the Temporal UI's current details."""
        waiting = sum(asked.outstanding for asked in self.interrupts.values())
        lines = [
            f"**{self.status}**: {self.completed} completed, {self.failed} failed of {self.requested} tasks",
            f"- client: `{self.client_id or 'none online'}`, generation {self.generation}",
            f"- dispatched: {self.dispatched}; interrupts not settled: {waiting}",
        ]
        if self.returned:
            lines.append(f"- returned to scheduled work: {self.returned}")
        if self.hint:
            lines.append(f"- hint: {self.hint}")
        if self.superseded_by:
            lines.append(f"- superseded by `{self.superseded_by}`")
        return "\n".join(lines)
