"""Making room on a client for a request: abort what is queued, interrupt what runs (1-dispatch §1.5 steps 6 and 7).

The caller holds the tenant, the client and, by id, the business tasks, execution tasks and requests concerned.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from uuid import UUID

import asyncpg

from domain.budgets import limits_of
from domain.dispatch_settings import DispatchSettings
from domain.messages import SignalName
from domain.phases import Phase
from domain.preemption import Running, choose_victims
from domain.protocol import Control
from store.client_choice import blocked_platforms
from store.controls import control_row
from store.database import Connection
from store.interrupts import take_over
from store.legacy_preemption import advise_leased, take_back_offers
from store.outbox import OutboxRow, signal, write_outbox
from store.settings import read_platform_limits
from store.statements import statements
from telemetry import metrics
from telemetry.effects import count

SQL = statements("preemption")


@dataclass(frozen=True, slots=True)
class Preemptor:
    """On whose behalf room is made."""

    tenant_id: int
    request_id: UUID
    client_id: UUID
    generation: int
    # High tasks that want a slot there; policy `needed` interrupts no more than they lack.
    tasks: int
    # Whether anything locked for it is on the legacy path; if not, nothing is asked there.
    legacy: bool = True


@dataclass(frozen=True, slots=True)
class RoomMade:
    """What was done; the counts of dispatch §17.1."""

    aborted_queued: int
    interrupted: int


async def make_room(connection: Connection, preemptor: Preemptor, settings: DispatchSettings) -> RoomMade:
    """Abort the queued scheduled tasks and interrupt running ones; tells the client and the batches concerned."""
    aborted = await connection.fetch(SQL["abort_queued"], preemptor.client_id, preemptor.request_id)
    victims = await _choose(connection, preemptor, settings)
    interrupted = await connection.fetch(SQL["interrupt_running"], victims, preemptor.generation, preemptor.request_id)
    # One that already gives way to another request is asked only once.
    count(metrics.preempt_requests, sum(row["former_request_id"] is None for row in interrupted))
    events = [_order(row, Control.CANCELED, preemptor) for row in aborted]
    events += [_order(row, Control.INTERRUPT_REQUESTED, preemptor) for row in interrupted]
    await write_outbox(connection, events)
    await take_over(connection, interrupted)
    withdrawn, advised = await _make_legacy_room(connection, preemptor, settings) if preemptor.legacy else ([], [])
    await _tell_batches(connection, preemptor, [*aborted, *interrupted, *withdrawn, *advised])
    return RoomMade(len(aborted) + len(withdrawn), len(interrupted))


async def _make_legacy_room(
    connection: Connection, preemptor: Preemptor, settings: DispatchSettings
) -> tuple[list[asyncpg.Record], list[asyncpg.Record]]:
    """Offers taken back, and leases advised to stop: advice is no interrupt that the request waits for."""
    withdrawn = await take_back_offers(connection, preemptor.client_id, preemptor.request_id)
    advised = await advise_leased(
        connection,
        preemptor.client_id,
        preemptor.request_id,
        preemptor.generation,
        settings,
        wanted=preemptor.tasks,
    )
    await write_outbox(connection, [_order(row, Control.INTERRUPT_REQUESTED, preemptor) for row in advised])
    return withdrawn, advised


async def _choose(connection: Connection, preemptor: Preemptor, settings: DispatchSettings) -> list[UUID]:
    rows = await connection.fetch(SQL["find_running"], preemptor.client_id, preemptor.request_id, preemptor.generation)
    if not rows:
        return []
    wanted = {row["ai_platform_id"] for row in rows if row["wanted"]}
    victims = choose_victims(
        [running(row) for row in rows],
        policy=settings.preempt_policy,
        needed=lacking(rows[0], preemptor.tasks, settings),
        max_preemptions=settings.max_preemptions,
        platforms=wanted and wanted & await full_platforms(connection, preemptor.tenant_id, settings),
    )
    return [victim.task_id for victim in victims]


def lacking(client: asyncpg.Record, tasks: int, settings: DispatchSettings) -> int:
    """How many slots of the client (`max_concurrent`, `busy`) so many high tasks lack."""
    own, busy = client["max_concurrent"], int(client["busy"])
    slots = limits_of(settings, client_concurrency=own, client_queue_depth=None, platform=0).client_concurrency
    return min(tasks, slots) - max(slots - busy, 0)


async def full_platforms(connection: Connection, tenant_id: int, settings: DispatchSettings) -> set[str]:
    """Platforms at their limit: a slot alone lets nothing go there."""
    return set(await blocked_platforms(connection, tenant_id, await read_platform_limits(connection, settings)))


def running(row: asyncpg.Record) -> Running:
    """A running task as the choice of victims sees it."""
    phase = Phase(row["phase"]) if row["phase"] else None
    return Running(row["id"], phase, row["started_at"], row["preemptions"], row["ai_platform_id"])


def _order(row: asyncpg.Record, control: Control, preemptor: Preemptor) -> OutboxRow:
    return control_row(row, control, preemptor.tenant_id, generation=preemptor.generation, reason="collect_now_preempt")


async def _tell_batches(connection: Connection, preemptor: Preemptor, rows: Iterable[asyncpg.Record]) -> None:
    counts: dict[int, int] = {}
    for row in rows:
        if row["batch_id"] is not None:
            counts[row["batch_id"]] = counts.get(row["batch_id"], 0) + 1
    await write_outbox(connection, [await _yield(connection, preemptor, *item) for item in sorted(counts.items())])


async def _yield(connection: Connection, preemptor: Preemptor, batch_id: int, count: int) -> OutboxRow:
    workflow = await connection.fetchval(
        SQL["record_yield"],
        batch_id,
        preemptor.client_id,
        preemptor.tenant_id,
        preemptor.generation,
        preemptor.request_id,
        count,
    )
    payload = {
        "client_id": str(preemptor.client_id),
        "generation": preemptor.generation,
        "request_id": str(preemptor.request_id),
        "count": count,
    }
    return signal(workflow, SignalName.PREEMPTED, payload, preemptor.tenant_id)


async def lock_tasks(connection: Connection, business_ids: Collection[int], client_id: UUID | None) -> bool:
    """Lock these business tasks and those the client holds, then the client's execution rows: each by id.

    Returns whether one of them is on the legacy path. The caller holds the tenant, and the client if there is one: so
    the client is offered and leases nothing more meanwhile.
    """
    rows = await connection.fetch(SQL["lock_business_tasks"], list(business_ids), client_id)
    await connection.execute(SQL["lock_execution_tasks"], list(business_ids), client_id)
    return any(row["legacy"] for row in rows)


async def lock_requests(connection: Connection, request_id: UUID, client_id: UUID) -> None:
    """Lock this request and those that have asked the client's tasks to stop, by id; after the tasks."""
    await connection.execute(SQL["lock_requests"], request_id, client_id)
