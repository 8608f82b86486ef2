"""Collect-now over the legacy path: offers are taken back, leases are adopted or advised to stop (dispatch §16.1).

The caller holds the tenant, the client and, by id, the business tasks concerned.
"""

from collections.abc import Collection
from uuid import UUID

import asyncpg

from domain.budgets import limits_of
from domain.dispatch_settings import DispatchSettings, PreemptPolicy
from domain.protocol import Control
from store.controls import control_row
from store.database import Connection
from store.outbox import write_outbox
from store.statements import statements

SQL, OFFERS = statements("legacy_preemption"), statements("legacy_offers")


async def adopt(
    connection: Connection, task_ids: Collection[int], request_id: UUID, generation: int
) -> list[asyncpg.Record]:
    """Leased and received tasks of the scope become the request's where they are; returns them as orders need them."""
    rows: list[asyncpg.Record] = await connection.fetch(SQL["adopt"], list(task_ids), request_id, generation)
    return rows


async def take_back_offers(connection: Connection, client_id: UUID, request_id: UUID) -> list[asyncpg.Record]:
    """Scheduled work on offer to the client, outside the request, is on offer no more (`id`, `batch_id`).

    Nobody needs to be told: the desktop has nothing yet, and a pull finds only what stands on offer.
    """
    rows: list[asyncpg.Record] = await connection.fetch(OFFERS["withdraw_scheduled"], client_id, request_id)
    return rows


async def advise_leased(
    connection: Connection,
    client_id: UUID,
    request_id: UUID,
    generation: int,
    settings: DispatchSettings,
    *,
    wanted: int,
) -> list[asyncpg.Record]:
    """Ask leased scheduled tasks of the client to stop: all, or by policy `needed` as many as `wanted` high tasks lack.

    Advice only: a desktop that is past NAVIGATING runs on. So no slot is promised and nothing waits for an answer. When
    every slot is in use the request's hint says so.
    """
    rows = await connection.fetch(SQL["find_leased"], client_id, request_id, generation)
    if not rows:
        return []
    lacking = await _lacking(connection, client_id, request_id, settings, wanted)
    victims = _choose(rows, settings, lacking)
    told = await connection.fetch(SQL["interrupt_leased"], victims, generation, request_id)
    if lacking >= wanted:
        await connection.execute(SQL["hint_waiting"], request_id)
    return told


async def _lacking(
    connection: Connection, client_id: UUID, request_id: UUID, settings: DispatchSettings, wanted: int
) -> int:
    room = await connection.fetchrow(SQL["count_room"], client_id, request_id)
    assert room is not None, "the client is locked"
    own = room["max_concurrent"]
    slots = limits_of(settings, client_concurrency=own, client_queue_depth=None, platform=0).client_concurrency
    return wanted - max(slots - int(room["busy"]), 0)


def _choose(rows: list[asyncpg.Record], settings: DispatchSettings, lacking: int) -> list[int]:
    """A task preempted often enough is spared while another victim exists (1-dispatch §1.5 step 7)."""
    fresh = [row["id"] for row in rows if row["preemptions"] < settings.max_preemptions]
    candidates = fresh or [row["id"] for row in rows]
    return candidates if settings.preempt_policy is PreemptPolicy.ALL else candidates[: max(lacking, 0)]


async def withdraw_orders(connection: Connection, request_id: UUID, tenant_id: int) -> int:
    """The request is over: leased tasks that it asked to stop, and that have not, go on. Returns how many orders.

    Unless another open request waits on the same desktop: it inherits the advice.
    """
    rows = await connection.fetch(SQL["withdraw_orders"], request_id, tenant_id)
    return await write_outbox(connection, [control_row(row, Control.INTERRUPT_WITHDRAWN, tenant_id) for row in rows])
