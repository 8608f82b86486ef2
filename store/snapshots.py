"""What a connected desktop gets: leases as tasks are pushed, and the snapshot of everything it should know.

2-desktop §2.1 (level-triggered), §2.2. Lock order: client, business tasks by id, execution tasks by id, requests.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

import asyncpg

from domain.hub_port import ClientIdentity, GrantAnswer, GrantRequest, HeartbeatRecord, SnapshotContent
from domain.ids import new_uuid
from domain.legacy import TaskId
from domain.phases import Phase
from domain.protocol import LEASE_SECONDS, Control, HeldAttempt, HeldTask, TaskAvailable, TaskControl
from store.clients import digest, new_token
from store.database import Connection, Pool, transaction
from store.progress import refresh_requests
from store.proxy_calls import read_open
from store.releases import lock_executions
from store.statements import statements

SQL = statements("snapshots")

# More than any counter reaches; what a broken desktop reports beyond it is not believed.
HIGHEST_BELIEVABLE: Final = 2**53
PHASES: Final = frozenset(phase.value for phase in Phase)


def parse_uuid(text: str) -> UUID | None:
    """The uuid, or None: an id that no row of ours can have, such as a legacy one."""
    try:
        return UUID(text)
    except ValueError:
        return None


def believable(generation: int) -> int:
    """A reported generation, or 0 when no counter of ours can have got there."""
    return generation if 0 <= generation <= HIGHEST_BELIEVABLE else 0


def held_rows(held: Iterable[HeldAttempt]) -> list[tuple[UUID, UUID, str | None]]:
    """Task, attempt and phase of what a client says it holds; ids and phases that cannot be ours are left out."""
    rows = [(parse_uuid(item.task_id), parse_uuid(item.attempt_id), item.phase) for item in held]
    return [
        (task, attempt, phase if phase in PHASES else None)
        for task, attempt, phase in rows
        if task is not None and attempt is not None
    ]


async def take_snapshot(
    pool: Pool, client: ClientIdentity, epoch: int, held: Sequence[HeldAttempt], highest_generation: int
) -> SnapshotContent:
    """Everything the client should know. Queued tasks it does not hold get a fresh lease; held ones keep theirs.

    Empty for a connection that a newer one has replaced.
    """
    async with transaction(pool) as connection:
        row = await connection.fetchrow(SQL["lock_client"], client.client_id, client.tenant_id, epoch)
        if row is None:
            return SnapshotContent(generation=0, available=[], controls=[], held=[])
        if (seen := believable(highest_generation)) > row["highest_generation_seen"]:
            await connection.execute(SQL["note_generation"], client.client_id, seen)
        live = await lock_live(connection, client) if row["works"] else []
        kept = await extend_held(connection, client, held) if live else {}
        waiting = [row["id"] for row in live if row["status"] == "queued" and row["id"] not in kept]
        return SnapshotContent(
            generation=row["interrupt_generation"],
            available=await _grant(connection, waiting),
            controls=await _pending_controls(connection, client) if row["works"] else [],
            held=[_verdict(item, kept) for item in held],
            proxies=await read_open(connection, client, epoch) if row["asked"] else [],
        )


async def lock_live(connection: Connection, client: ClientIdentity) -> list[asyncpg.Record]:
    """Lock the client's live tasks, business rows first; returns the execution rows."""
    await connection.execute(SQL["lock_business_of_client"], client.client_id, client.tenant_id)
    return await connection.fetch(SQL["lock_live_of_client"], client.client_id, client.tenant_id)


async def extend_held(
    connection: Connection, client: ClientIdentity, held: Sequence[HeldAttempt]
) -> dict[UUID, asyncpg.Record]:
    """Extend the client's leases of these attempts, `unknown` ones becoming in progress; the live ones by task id.

    The caller has locked the client's tasks (`lock_live`); an attempt of anybody else's is as good as unknown.
    """
    named = held_rows(held)
    if not named:
        return {}
    rows = await connection.fetch(
        SQL["extend_held"],
        [row[0] for row in named],
        [row[1] for row in named],
        [row[2] for row in named],
        LEASE_SECONDS,
        client.client_id,
        client.tenant_id,
    )
    return {row["id"]: row for row in rows}


def _verdict(item: HeldAttempt, kept: dict[UUID, asyncpg.Record]) -> HeldTask:
    task = parse_uuid(item.task_id)
    row = kept.get(task) if task is not None else None
    if row is None or str(row["attempt_id"]) != item.attempt_id.lower():
        return HeldTask(task_id=item.task_id, attempt_id=item.attempt_id, valid=False)
    return HeldTask(
        task_id=item.task_id,
        attempt_id=item.attempt_id,
        valid=True,
        lease_expires_at=row["lease_expires_at"],
        status=row["status"],
    )


async def find_taken_away(pool: Pool, beats: Sequence[HeartbeatRecord]) -> dict[UUID, frozenset[UUID]]:
    """By client, the attempts which its beat lists though the server has ended them: it does not know yet."""
    held = [
        (beat.client_id, attempt, item.phase if item.phase in PHASES else None)
        for beat in beats
        for item in [*beat.heartbeat.running, *beat.heartbeat.queued]
        if (attempt := parse_uuid(item.attempt_id)) is not None
    ]
    if not held:
        return {}
    clients, attempts, phases = zip(*held, strict=True)
    rows = await pool.fetch(SQL["find_taken_away"], clients, attempts, phases)
    taken: defaultdict[UUID, set[UUID]] = defaultdict(set)
    for row in rows:
        taken[row["client_id"]].add(row["attempt_id"])
    return {client_id: frozenset(ids) for client_id, ids in taken.items()}


async def _pending_controls(connection: Connection, client: ClientIdentity) -> list[TaskControl]:
    rows = await connection.fetch(SQL["pending_interrupts"], client.client_id, client.tenant_id)
    return [_control(row) for row in rows]


def _control(row: asyncpg.Record) -> TaskControl:
    return TaskControl(
        id=str(new_uuid()),
        kind=row["kind"],
        task_id=str(row["id"]),
        target_client_id=str(row["target_client_id"]),
        control=Control.INTERRUPT_REQUESTED,
        reason=row["interrupt_reason"],
        interrupt_generation=row["interrupt_generation"],
        replacement_task_id=None,
        updated_at=row["updated_at"],
    )


async def grant_leases(pool: Pool, requests: Sequence[GrantRequest]) -> list[GrantAnswer]:
    """Lease those of the tasks that still wait, unleased, for their clients; an answer a request, in their order.

    Many clients in one transaction that waits for no lock: what somebody else holds is `busy`. A hint that is
    delivered twice, or to a connection that was replaced, leases nothing more.
    """
    asked = [(each, task_id) for each in requests for task_id in each.task_ids if isinstance(task_id, UUID)]
    if not asked:
        return [GrantAnswer([]) for _ in requests]
    async with transaction(pool) as connection:
        rows = await connection.fetch(
            SQL["lock_grantable"],
            [task_id for _, task_id in asked],
            [each.client.client_id for each, _ in asked],
            [each.client.tenant_id for each, _ in asked],
            [each.epoch for each, _ in asked],
        )
        frames = await _grant(connection, [row["id"] for row in rows if row["locked"]])
    return _answers(requests, rows, frames)


def _answers(
    requests: Sequence[GrantRequest], rows: Sequence[asyncpg.Record], frames: Sequence[TaskAvailable]
) -> list[GrantAnswer]:
    """To each connection its own, in the frames' order: the rows are of the newest connections alone."""
    epochs = {row["target_client_id"]: row["epoch"] for row in rows}
    busy: defaultdict[tuple[UUID, int], list[TaskId]] = defaultdict(list)
    granted: defaultdict[tuple[UUID, int], list[TaskAvailable]] = defaultdict(list)
    for row in rows:
        if not row["locked"]:
            busy[row["target_client_id"], row["epoch"]].append(row["id"])
    for frame in frames:
        client_id = UUID(frame.target_client_id)
        granted[client_id, epochs[client_id]].append(frame)
    keys = [(each.client.client_id, each.epoch) for each in requests]
    return [GrantAnswer(granted.pop(key, []), tuple(busy.pop(key, ()))) for key in keys]


async def _grant(connection: Connection, task_ids: Sequence[UUID]) -> list[TaskAvailable]:
    if not task_ids:
        return []
    tokens = {task_id: new_token() for task_id in task_ids}
    attempts = [new_uuid() for _ in task_ids]
    hashes = [digest(token) for token in tokens.values()]
    rows = await connection.fetch(SQL["grant_leases"], list(tokens), attempts, hashes, LEASE_SECONDS)
    return [_available(row, tokens[row["id"]]) for row in rows]


def _available(row: asyncpg.Record, token: str) -> TaskAvailable:
    return TaskAvailable(
        id=str(new_uuid()),
        kind=row["kind"],
        task_id=str(row["id"]),
        target_client_id=str(row["target_client_id"]),
        priority=row["priority"],
        lane=row["lane"],
        lane_weight=row["lane_weight"],
        status=row["status"],
        scheduler_group_key=row["scheduler_group_key"],
        business_date=row["business_date"].isoformat(),
        interrupt_generation=row["interrupt_generation"],
        updated_at=row["updated_at"],
        enqueued_at=row["enqueued_at"],
        source=row["source"],
        owner=row["execution_owner"],
        attempt=row["attempt"],
        attempt_id=str(row["attempt_id"]),
        lease_token=token,
        lease_expires_at=row["lease_expires_at"],
        platform=row["ai_platform_id"],
        question=row["question"],
        collect_request_id=_optional(row["collect_request_id"]),
        payload=row["payload"],
    )


def _optional(value: Any) -> str | None:
    return None if value is None else str(value)


async def mark_pushed(pool: Pool, task_ids: Sequence[UUID]) -> None:
    """The frames are written: `pushed_at`, the business tasks' last dispatch, the requests' counters. Idempotent."""
    async with transaction(pool) as connection:
        await lock_executions(connection, task_ids)
        rows = await connection.fetch(SQL["mark_pushed"], list(task_ids))
        await refresh_requests(connection, {row["collect_request_id"] for row in rows} - {None})
