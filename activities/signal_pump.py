"""Sends committed effects to workflows as signals, coalesced (1-dispatch §1.5)."""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from pydantic import ValidationError
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from activities.pump_loop import Round, run_pump
from domain.messages import (
    ClientBound,
    ClientLost,
    Dispatched,
    InterruptSettled,
    InterruptsInherited,
    Message,
    Preempted,
    Progress,
    Resumed,
    SignalName,
    Superseded,
    TasksTerminal,
)
from store.database import Pool
from store.listen import OUTBOX_SIGNAL, Listener
from store.outbox_pump import PendingOutbox, PendingRow, RowOutcome

log = logging.getLogger(__name__)

TAKE: Final = 500
AT_ONCE: Final = 16
RPC_TIMEOUT: Final = timedelta(seconds=5)
SPACING_SECONDS: Final = 1.0

MODELS: Final[Mapping[str, type[Message]]] = {
    SignalName.DISPATCHED: Dispatched,
    SignalName.INTERRUPT_SETTLED: InterruptSettled,
    SignalName.INTERRUPTS_INHERITED: InterruptsInherited,
    SignalName.CLIENT_LOST: ClientLost,
    SignalName.CLIENT_BOUND: ClientBound,
    SignalName.TASKS_TERMINAL: TasksTerminal,
    SignalName.SUPERSEDED: Superseded,
    SignalName.PREEMPTED: Preempted,
    SignalName.RESUMED: Resumed,
    SignalName.PROGRESS: Progress,
}
# Of these every client and generation (or epoch) counts; of the others the newest row carries totals.
PER_CLIENT: Final = frozenset(
    {
        SignalName.INTERRUPT_SETTLED,
        SignalName.INTERRUPTS_INHERITED,
        SignalName.CLIENT_LOST,
        SignalName.CLIENT_BOUND,
        SignalName.PREEMPTED,
        SignalName.RESUMED,
    }
)

Stream = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that one signal answers: the newest is sent, the older ones are coalesced into it."""

    newest: PendingRow
    older: tuple[PendingRow, ...]

    @property
    def stream(self) -> Stream:
        """Workflow and kind: what the spacing applies to."""
        return (self.newest.key, self.newest.kind)


class SignalPump:
    """One resident's pump. A signal may arrive twice (a crash before the mark): handlers drop a known outbox id."""

    def __init__(self, pool: Pool, listener: Listener, temporal_client: Client) -> None:
        self._pool = pool
        self._listener = listener
        self._client = temporal_client
        # When each stream may send again, monotonic seconds.
        self._free_at: dict[Stream, float] = {}

    async def run(self, name: str, epoch: int) -> None:
        """Pump until cancelled. Raises FencedOut once `resident_leases(name, epoch)` is no longer ours."""
        pending = PendingOutbox(self._pool, "signal", name, epoch)
        await run_pump(self._listener, OUTBOX_SIGNAL, lambda: self._round(pending))

    async def _round(self, pending: PendingOutbox) -> Round:
        rows = await pending.take(TAKE)
        if not rows:
            return Round.IDLE
        due, early = self._by_turn(coalesce(rows))
        sent = await self._send_all(due)
        outcomes = {row_id: outcome for row_id, outcome in sent.items() if outcome is not None}
        coalesced = {
            row.id: RowOutcome.COALESCED for group in due if group.newest.id in outcomes for row in group.older
        }
        coalesced |= {row.id: RowOutcome.COALESCED for group, _wait in early for row in group.older}
        away = bool(due) and not outcomes
        failed = [] if away else [row_id for row_id, outcome in sent.items() if outcome is None]
        await pending.record(
            coalesced | outcomes, failed=failed, deferred={group.newest.id: wait for group, wait in early}
        )
        return Round.AWAY if away else Round.MOVED

    def _by_turn(self, groups: Sequence[Group]) -> tuple[list[Group], list[tuple[Group, float]]]:
        """Groups to send now, and those whose stream has sent within the second, with the seconds to wait."""
        now = time.monotonic()
        self._free_at = {stream: at for stream, at in self._free_at.items() if at > now}
        due: list[Group] = []
        early: list[tuple[Group, float]] = []
        turns = dict(self._free_at)
        for group in groups:
            turn = turns.get(group.stream, now)
            turns[group.stream] = turn + SPACING_SECONDS
            if turn <= now:
                due.append(group)
            else:
                early.append((group, turn - now))
        return due, early

    async def _send_all(self, groups: Sequence[Group]) -> dict[int, RowOutcome | None]:
        """Outcomes by the newest row's id, None for a failed try. One workflow's signals keep their order."""
        by_workflow: defaultdict[str, list[Group]] = defaultdict(list)
        for group in groups:
            by_workflow[group.newest.key].append(group)
        room = asyncio.Semaphore(AT_ONCE)
        outcomes: dict[int, RowOutcome | None] = {}

        async def send_in_order(queue: Sequence[Group]) -> None:
            async with room:
                for group in queue:
                    outcomes[group.newest.id] = outcome = await self._send(group)
                    if outcome is None:
                        return

        await asyncio.gather(*map(send_in_order, by_workflow.values()))
        return outcomes

    async def _send(self, group: Group) -> RowOutcome | None:
        row = group.newest
        try:
            argument = signal_argument(row)
        except ValidationError as error:
            log.error("outbox row %d (%s for %s) is no valid signal: %s", row.id, row.kind, row.key, error)
            return RowOutcome.REFUSED
        try:
            await self._client.get_workflow_handle(row.key).signal(row.kind, argument, rpc_timeout=RPC_TIMEOUT)
        except RPCError as error:
            return _outcome_of(error, row)
        self._free_at[group.stream] = time.monotonic() + SPACING_SECONDS
        return RowOutcome.DELIVERED


def _outcome_of(error: RPCError, row: PendingRow) -> RowOutcome | None:
    # NOT_FOUND also says that the workflow has completed.
    if error.status is RPCStatusCode.NOT_FOUND:
        return RowOutcome.GONE
    if error.status is RPCStatusCode.INVALID_ARGUMENT:
        log.error("Temporal refuses outbox row %d (%s for %s): %s", row.id, row.kind, row.key, error.message)
        return RowOutcome.REFUSED
    log.warning("signal %s for %s failed (%s); again later", row.kind, row.key, error.status.name)
    return None


def signal_argument(row: PendingRow) -> Message | dict[str, Any]:
    """What the handler gets: the kind's model, with the row's id. A kind this version does not know goes as it is.

    Raises pydantic.ValidationError.
    """
    payload = {**row.payload, "outbox_id": row.id}
    model = MODELS.get(row.kind)
    return payload if model is None else model.model_validate(payload)


def coalesce(rows: Sequence[PendingRow]) -> list[Group]:
    """Groups in the order of their newest rows; `rows` in id order."""
    members: defaultdict[tuple[object, ...], list[PendingRow]] = defaultdict(list)
    for row in rows:
        members[_subject(row)].append(row)
    groups = [Group(newest, tuple(older)) for *older, newest in members.values()]
    return sorted(groups, key=lambda group: group.newest.id)


def _subject(row: PendingRow) -> tuple[object, ...]:
    if row.kind not in PER_CLIENT:
        return (row.key, row.kind)
    version = row.payload.get("generation", row.payload.get("epoch"))
    return (row.key, row.kind, str(row.payload.get("client_id")), version)
