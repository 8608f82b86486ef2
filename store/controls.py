"""Orders for a desktop about one execution task, as outbox rows."""

from collections.abc import Mapping
from typing import Any

import asyncpg

from domain.lanes import Lane, route_lane
from domain.protocol import Control
from store.outbox import OutboxRow, dispatch_event


def control_row(
    row: asyncpg.Record | Mapping[str, Any],
    control: Control,
    tenant_id: int,
    *,
    generation: int | None = None,
    reason: str | None = None,
) -> OutboxRow:
    """A `task_control` for the client of the execution row (`id`, `target_client_id`, `lane`).

    Of a legacy task the `id` is the one on the wire, `l-{number}`.

    `generation` and `reason` come from the row's `interrupt_generation` and `interrupt_reason` unless given.
    """
    client_id = row["target_client_id"]
    payload = {
        "client_id": str(client_id),
        "task_id": str(row["id"]),
        "control": control.value,
        "reason": row["interrupt_reason"] if reason is None else reason,
        "interrupt_generation": row["interrupt_generation"] if generation is None else generation,
    }
    key = f"monitor.{route_lane(Lane(row['lane']))}.{client_id}"
    return dispatch_event("task_control", key, payload, tenant_id, client_id)
