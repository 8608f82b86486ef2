"""Writing effects to the outbox, inside the transaction that causes them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from store.database import Connection
from store.listen import wake
from store.statements import statements

SQL = statements("outbox")


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """One effect to send after commit. `kind` and `key`: see the table's comments (migration 0001)."""

    channel: str
    kind: str
    key: str
    payload: dict[str, Any]
    tenant_id: int | None = None
    client_id: UUID | None = None


async def write_outbox(connection: Connection, rows: Iterable[OutboxRow]) -> int:
    """Insert the rows in order and wake the pumps at commit; returns how many."""
    given = list(rows)
    if not given:
        return 0
    await connection.execute(
        SQL["insert_outbox"],
        [row.channel for row in given],
        [row.kind for row in given],
        [row.key for row in given],
        [row.payload for row in given],
        [row.tenant_id for row in given],
        [row.client_id for row in given],
    )
    for channel in sorted({row.channel for row in given}):
        await wake(connection, f"giveway_outbox_{channel}")
    return len(given)


def signal(workflow_id: str, name: str, payload: dict[str, Any], tenant_id: int) -> OutboxRow:
    """A signal for a workflow; the pump adds the row's id as `outbox_id`."""
    return OutboxRow("signal", name, workflow_id, payload, tenant_id)


def dispatch_event(kind: str, key: str, payload: dict[str, Any], tenant_id: int, client_id: UUID) -> OutboxRow:
    """A message to the hub that holds the client (`domain.messages.DispatchMessage` without its type)."""
    return OutboxRow("amqp", kind, key, {"type": kind, **payload}, tenant_id, client_id)
