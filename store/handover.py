"""A request is over while tasks are still asked to stop for it (1-dispatch §1.5).

Another open request that waits on the same desktop inherits them; the others may go on. The caller holds the tenant,
the victims and, by id, the tenant's open requests.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from uuid import UUID

import asyncpg

from domain.dispatch_settings import DispatchSettings
from domain.messages import SignalName, collect_now_workflow_id
from domain.preemption import choose_victims
from domain.protocol import Control
from store.controls import control_row
from store.database import Connection
from store.listen import REQUESTS, wake
from store.outbox import OutboxRow, signal, write_outbox
from store.preemption import full_platforms, lacking, running
from store.settings import read_dispatch_settings
from store.statements import statements

SQL, LOCKS = statements("handover"), statements("locks")


async def release_victims(connection: Connection, request_id: UUID, tenant_id: int) -> int:
    """Pass on or withdraw every interrupt of the request that has not settled; returns how many there were."""
    asked = await connection.fetch(SQL["find_asked"], request_id)
    if not asked:
        return 0
    heirs = await _choose_heirs(connection, request_id, tenant_id, asked)
    await _pass_on(connection, heirs)
    await _withdraw(connection, tenant_id, [row["id"] for row in asked if row["id"] not in heirs])
    await connection.execute(SQL["count_withdrawn"], request_id, len(asked))
    return len(asked)


async def _choose_heirs(
    connection: Connection, request_id: UUID, tenant_id: int, asked: Sequence[asyncpg.Record]
) -> dict[UUID, UUID]:
    """The request that inherits, by victim."""
    victims: defaultdict[UUID, list[asyncpg.Record]] = defaultdict(list)
    for row in asked:
        if row["status"] == "in_progress":
            victims[row["target_client_id"]].append(row)
    rows = await connection.fetch(SQL["find_heirs"], request_id, tenant_id, sorted(victims))
    settings = await read_dispatch_settings(connection)
    full = await full_platforms(connection, tenant_id, settings) if rows else set[str]()
    chosen: dict[UUID, UUID] = {}
    for heir in rows:
        left = [row for row in victims[heir["client_id"]] if row["id"] not in chosen]
        chosen |= dict.fromkeys(_inherited(heir, left, settings, full), heir["request_id"])
    return chosen


def _inherited(
    heir: asyncpg.Record, victims: Sequence[asyncpg.Record], settings: DispatchSettings, full: set[str]
) -> list[UUID]:
    """Whom the heir would have asked itself."""
    chosen = choose_victims(
        [running(row) for row in victims],
        policy=settings.preempt_policy,
        needed=lacking(heir, heir["tasks"], settings),
        max_preemptions=settings.max_preemptions,
        platforms=full.intersection(heir["platforms"]),
    )
    return [victim.task_id for victim in chosen]


async def _pass_on(connection: Connection, heirs: Mapping[UUID, UUID]) -> None:
    if not heirs:
        return
    rows = await connection.fetch(SQL["pass_on"], list(heirs), list(heirs.values()))
    await connection.execute(SQL["count_inherited"], list(heirs.values()))
    orders: defaultdict[tuple[UUID, UUID, int], list[asyncpg.Record]] = defaultdict(list)
    for row in rows:
        orders[row["interrupt_request_id"], row["target_client_id"], row["interrupt_generation"]].append(row)
    await write_outbox(connection, [_inherited_signal(orders[key]) for key in sorted(orders)])
    await wake(connection, REQUESTS)


def _inherited_signal(rows: Sequence[asyncpg.Record]) -> OutboxRow:
    """Rows of one heir, client and generation."""
    first = rows[0]
    payload = {
        "client_id": str(first["target_client_id"]),
        "generation": first["interrupt_generation"],
        "interrupts": len(rows),
        "asked_at": min(row["interrupted_at"] for row in rows).isoformat(),
    }
    workflow = collect_now_workflow_id(first["interrupt_request_id"])
    return signal(workflow, SignalName.INTERRUPTS_INHERITED, payload, first["tenant_id"])


async def _withdraw(connection: Connection, tenant_id: int, task_ids: Sequence[UUID]) -> None:
    if not task_ids:
        return
    generation = await connection.fetchval(LOCKS["next_generation"], tenant_id)
    rows = await connection.fetch(SQL["withdraw"], task_ids, generation)
    orders: list[OutboxRow] = [control_row(row, Control.INTERRUPT_WITHDRAWN, tenant_id) for row in rows]
    await write_outbox(connection, orders)
