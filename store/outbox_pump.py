"""The pumps' side of the outbox: take what is undelivered, record what became of it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from store.database import Pool, transaction
from store.residents import hold
from store.statements import statements

SQL = statements("outbox")


class RowOutcome(StrEnum):
    """How a row left the outbox (column `outcome`)."""

    DELIVERED = "delivered"
    # amqp: no hub holds the client; its next snapshot covers it.
    UNROUTABLE = "unroutable"
    # signal: a newer row of the same kind was sent instead.
    COALESCED = "coalesced"
    # signal: the workflow has ended, or never was.
    GONE = "gone"
    # Cannot be sent, now or later; logged as an error.
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class PendingRow:
    """One undelivered effect; the columns of migration 0001."""

    id: int
    kind: str
    key: str
    payload: dict[str, Any]
    tenant_id: int | None
    client_id: UUID | None
    tries: int


class PendingOutbox:
    """The undelivered rows of one channel, as one epoch of its pump sees them."""

    def __init__(self, pool: Pool, channel: str, name: str, epoch: int) -> None:
        self._pool = pool
        self._channel = channel
        self._name = name
        self._epoch = epoch

    async def take(self, limit: int) -> list[PendingRow]:
        """The oldest rows that are due, in id order. Nothing is locked: there is one pump."""
        rows = await self._pool.fetch(SQL["take_undelivered"], self._channel, limit)
        return [PendingRow(**dict(row)) for row in rows]

    async def record(
        self,
        settled: Mapping[int, RowOutcome],
        *,
        failed: Collection[int] = (),
        deferred: Mapping[int, float] | None = None,
    ) -> None:
        """Write down one round, by row id: outcomes, failed tries (again after 0.2 s, doubling to 10 s), and rows that
        wait some seconds for their turn. Settling a row again changes nothing.

        Raises FencedOut, having written nothing.
        """
        later = deferred or {}
        async with transaction(self._pool) as connection:
            await hold(connection, self._name, self._epoch)
            values = [outcome.value for outcome in settled.values()]
            await connection.execute(SQL["mark_delivered"], list(settled), values)
            if failed:
                await connection.execute(SQL["postpone"], list(failed))
            if later:
                await connection.execute(SQL["defer"], list(later), list(later.values()))
