"""What desktops say they hold of the legacy path, in hello, sync and heartbeats (2-desktop §2.1, §2.2)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg

from domain.hub_port import ClientIdentity, HeartbeatRecord, SnapshotContent
from domain.ids import new_uuid
from domain.lanes import Kind
from domain.legacy import parse_task_id
from domain.protocol import LEASE_SECONDS, Control, HeldAttempt, HeldTask, TaskControl
from store.database import Connection, Pool, transaction
from store.legacy_ends import fail_attempts, give_back
from store.legacy_offers import read_offers
from store.releases import Release
from store.statements import statements

SQL = statements("legacy_leases")


@dataclass(frozen=True, slots=True)
class HeldLegacy:
    """One attempt of a legacy task that a client lists."""

    number: int
    attempt_id: UUID


def held_legacy(held: Iterable[HeldAttempt]) -> list[HeldLegacy]:
    """The legacy ones of what a client lists; ids that cannot be ours are left out."""
    pairs = [(parse_task_id(item.task_id), parse_task_id(item.attempt_id)) for item in held]
    return [
        HeldLegacy(number, attempt)
        for number, attempt in pairs
        if isinstance(number, int) and isinstance(attempt, UUID)
    ]


async def complete(
    pool: Pool, client: ClientIdentity, epoch: int, held: Sequence[HeldAttempt], content: SnapshotContent
) -> SnapshotContent:
    """The snapshot with what concerns the legacy path: offers, orders, and a verdict on each legacy attempt listed.

    Apart from the transaction of the rest, which has execution tasks locked; unchanged for a replaced connection.
    """
    concerns = await pool.fetchrow(SQL["concerns"], client.client_id, client.tenant_id, epoch)
    if concerns is None:
        return content
    offers = await read_offers(pool, client, epoch) if concerns["offered"] else []
    orders = await _pending_orders(pool, client) if concerns["leased"] else []
    verdicts = await _judge(pool, client, epoch, held)
    judged = {verdict.task_id for verdict in verdicts}
    return SnapshotContent(
        generation=content.generation,
        available=[*content.available, *offers],
        controls=[*content.controls, *orders],
        held=[*(each for each in content.held if each.task_id not in judged), *verdicts],
        proxies=content.proxies,
    )


async def _judge(pool: Pool, client: ClientIdentity, epoch: int, held: Sequence[HeldAttempt]) -> list[HeldTask]:
    """Extend the leases of the legacy attempts that this connection lists; a verdict on each of them."""
    named = held_legacy(held)
    if not named:
        return []
    numbers, attempts = [each.number for each in named], [each.attempt_id for each in named]
    leased = await _extend(pool, named, [client.client_id] * len(named), {client.client_id: epoch})
    received = await pool.fetch(SQL["received_held"], numbers, attempts, client.client_id)
    kept = {row["attempt_id"]: row["lease_expires_at"] for row in leased}
    safe = {row["attempt_id"] for row in received}
    return [_verdict(each, kept, safe) for each in held if isinstance(parse_task_id(each.task_id), int)]


def _verdict(item: HeldAttempt, kept: Mapping[UUID, datetime], safe: Collection[UUID]) -> HeldTask:
    attempt = parse_task_id(item.attempt_id)
    expires = kept.get(attempt) if isinstance(attempt, UUID) else None
    status = "leased" if expires is not None else "received" if attempt in safe else None
    return HeldTask(
        task_id=item.task_id,
        attempt_id=item.attempt_id,
        valid=status is not None,
        lease_expires_at=expires,
        status=status,
    )


async def extend_beats(pool: Pool, beats: Sequence[HeartbeatRecord]) -> None:
    """Extend the legacy leases that these beats list; no statement at all when they list none."""
    named = [
        (beat.client_id, each)
        for beat in beats
        for each in held_legacy([*beat.heartbeat.running, *beat.heartbeat.queued])
    ]
    if named:
        epochs = {beat.client_id: beat.epoch for beat in beats}
        await _extend(pool, [each for _, each in named], [client for client, _ in named], epochs)


async def _extend(
    pool: Pool, named: Sequence[HeldLegacy], clients: Sequence[UUID], epochs: dict[UUID, int]
) -> list[asyncpg.Record]:
    rows: list[asyncpg.Record] = await pool.fetch(
        SQL["extend_held"],
        [each.number for each in named],
        [each.attempt_id for each in named],
        list(clients),
        LEASE_SECONDS,
        list(epochs),
        list(epochs.values()),
    )
    return rows


async def end_unlisted(pool: Pool, client: ClientIdentity, epoch: int, held: Sequence[HeldAttempt]) -> None:
    """A hello says all that a desktop has: other legacy leases of it are over, with an attempt counted if it had begun.

    So a pull whose answer was lost does not keep its slots for a lease's length. Nothing ends for a connection that a
    newer one has replaced, and no lease that was given since it was looked at.
    """
    asked = (client.client_id, client.tenant_id, [each.attempt_id for each in held_legacy(held)], epoch)
    found = await pool.fetch(SQL["unlisted"], *asked)
    # A transaction each: either ends with locks of batches and their yields, which the other would take out of order.
    for begun in (False, True):
        seen = {row["attempt_id"]: row["id"] for row in found if row["begun"] is begun}
        if seen:
            async with transaction(pool) as connection:
                await connection.execute(SQL["lock_tasks"], list(seen.values()))
                rows = await connection.fetch(SQL["unlisted"], *asked)
                # What has been started since is alive.
                rows = [row for row in rows if row["attempt_id"] in seen and row["begun"] is begun]
                await (_fail(connection, rows) if begun else _return(connection, rows))


async def _fail(connection: Connection, rows: Sequence[asyncpg.Record]) -> None:
    await fail_attempts(connection, [row["attempt_id"] for row in rows], "the desktop no longer runs it")


async def _return(connection: Connection, rows: Sequence[asyncpg.Record]) -> None:
    await give_back(connection, [row["id"] for row in rows], Release.RETURNED, error="the desktop does not hold it")


async def _pending_orders(pool: Pool, client: ClientIdentity) -> list[TaskControl]:
    """Orders to stop that the client may still follow."""
    rows = await pool.fetch(SQL["pending_interrupts"], client.client_id, client.tenant_id)
    return [
        TaskControl(
            id=str(new_uuid()),
            kind=Kind.MONITOR.value,
            task_id=row["id"],
            target_client_id=str(row["target_client_id"]),
            control=Control.INTERRUPT_REQUESTED,
            reason="collect_now_preempt",
            interrupt_generation=row["interrupt_generation"],
            replacement_task_id=None,
            updated_at=row["updated_at"],
        )
        for row in rows
    ]
