"""Publishes committed effects to RabbitMQ, in order per client (2-desktop §2.1)."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID

import orjson

from activities.pump_loop import Round, run_pump
from broker.publisher import Outcome, Outgoing, Publisher
from domain.transport import DISPATCH_EXCHANGE, OUTBOX_ID_HEADER
from store.database import Pool
from store.listen import OUTBOX_AMQP, Listener
from store.outbox_pump import PendingOutbox, PendingRow, RowOutcome

log = logging.getLogger(__name__)

TAKE: Final = 200
# No further wave after this: what has been confirmed is written down, the rest is taken again. With the wave in flight
# and its own timeout (5 s) a round lasts 10 s at most, whatever the broker does.
ROUND_SECONDS: Final = 5.0

_SETTLED: Final = {
    Outcome.ROUTED: RowOutcome.DELIVERED,
    Outcome.UNROUTABLE: RowOutcome.UNROUTABLE,
    Outcome.REFUSED: RowOutcome.REFUSED,
}


class OutboxPump:
    """One resident's pump. Two at once do no harm: the frozen one's marks are fenced, receivers drop repetitions."""

    def __init__(self, pool: Pool, listener: Listener, publisher: Publisher) -> None:
        self._pool = pool
        self._listener = listener
        self._publisher = publisher

    async def run(self, name: str, epoch: int) -> None:
        """Pump until cancelled. Raises FencedOut once `resident_leases(name, epoch)` is no longer ours."""
        pending = PendingOutbox(self._pool, "amqp", name, epoch)
        await run_pump(self._listener, OUTBOX_AMQP, lambda: self._round(pending))

    async def _round(self, pending: PendingOutbox) -> Round:
        rows = await pending.take(TAKE)
        if not rows:
            return Round.IDLE
        outcomes = await self._publish(rows)
        settled = {row_id: _SETTLED[outcome] for row_id, outcome in outcomes.items() if outcome in _SETTLED}
        failed = [row_id for row_id, outcome in outcomes.items() if outcome is Outcome.FAILED]
        if not settled:
            # The broker, not these rows: none of them is put off, so all go as soon as it is back.
            return Round.AWAY
        await pending.record(settled, failed=failed)
        return Round.MOVED

    async def _publish(self, rows: Sequence[PendingRow]) -> dict[int, Outcome]:
        """Outcomes by row id. A client's later rows are not tried after a failure of an earlier one.

        Rows for which the round had no time have none.
        """
        clock = asyncio.get_running_loop().time
        ends = clock() + ROUND_SECONDS
        outcomes: dict[int, Outcome] = {}
        halted: set[UUID | None] = set()
        for wave in _waves(rows):
            going = [row for row in wave if row.client_id is None or row.client_id not in halted]
            # The clients of a wave are among those of the wave before it: when none is left, the rest is as empty.
            if not going or (outcomes and clock() > ends):
                break
            results = await self._publisher.publish_many([_outgoing(row) for row in going])
            for row, outcome in zip(going, results, strict=True):
                outcomes[row.id] = outcome
                if outcome is Outcome.FAILED:
                    halted.add(row.client_id)
        return outcomes


def _waves(rows: Sequence[PendingRow]) -> Iterator[list[PendingRow]]:
    """The first row of every client, then the second of every client: confirms are pipelined inside a wave alone."""
    waves: defaultdict[int, list[PendingRow]] = defaultdict(list)
    seen: defaultdict[UUID, int] = defaultdict(int)
    for row in rows:
        if row.client_id is None:
            waves[0].append(row)
        else:
            waves[seen[row.client_id]].append(row)
            seen[row.client_id] += 1
    return iter([waves[number] for number in sorted(waves)])


def _outgoing(row: PendingRow) -> Outgoing:
    body = orjson.dumps(row.payload)
    # A hint is worth nothing after a broker restart: the hubs' queues are gone with it.
    return Outgoing(DISPATCH_EXCHANGE, row.key, body, headers={OUTBOX_ID_HEADER: row.id}, persistent=False)
