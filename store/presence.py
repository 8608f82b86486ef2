"""Who is connected, and what becomes of the work of those who are not (2-desktop §2.1, §2.2, 1-dispatch §1.5, §1.8).

Connections and heartbeats come from the hub; the sweeps are steps of the presence sweeper, each one transaction that
its caller fences, each idempotent and bounded.
"""

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

import asyncpg

from domain.errors import Unauthorized
from domain.hub_port import ClientIdentity, ConnectionEnd, HeartbeatRecord
from domain.lanes import Lane, route_lane
from domain.messages import SignalName, collect_now_workflow_id
from domain.protocol import LEASE_SECONDS, SILENCE_SECONDS, CloseCode, HeldAttempt, Hello
from store.clients import close_event
from store.database import Connection, Pool, transaction
from store.interrupts import lock_concerned_requests, resume_batches
from store.listen import DISPATCH, wake
from store.outbox import OutboxRow, dispatch_event, signal, write_outbox
from store.releases import Release, lock_executions, release
from store.settlement import fail_tasks
from store.snapshots import SQL as SNAPSHOTS
from store.snapshots import believable, extend_held, held_rows, lock_live
from store.statements import statements

SQL = statements("presence")

SWEEP_LIMIT: Final = 500
# A push takes milliseconds; a hint this old is lost.
HINT_SECONDS: Final = 10
# A request's workflow releases a lost client within milliseconds; after this the sweeper does.
RELEASE_SECONDS: Final = 5
# Ingest takes milliseconds, and minutes after an outage; a result older than this is lost.
INGEST_SECONDS: Final = 900
CLIENT_CONCURRENCY_RANGE: Final = (1, 64)
TEXT_LIMIT: Final = 100
SESSION_LIMIT: Final = 100


def clean_text(text: str) -> str:
    """What a client says about itself, as PostgreSQL takes it: no NUL, bounded."""
    return text.replace("\0", "")[:TEXT_LIMIT]


def clean_sessions(sessions: Mapping[str, str]) -> dict[str, str]:
    """Login health by platform, bounded: one client's beat must not spoil the statement of all the others."""
    kept = list(sessions.items())[:SESSION_LIMIT]
    return {clean_text(platform): clean_text(health) for platform, health in kept}


async def connect(pool: Pool, client: ClientIdentity, hello: Hello, *, hub: str | None = None) -> int:
    """A new connection of the client at `hub`: online, with the epoch that fences the older ones; returns the epoch.

    The hub itself tells the others to close theirs. Moves the tenant's generation past what the desktop has
    seen. Its started tasks are resolved: those it holds are in progress, the others are over (ADR 0026).
    Unauthorized when the client was revoked, or its token replaced, meanwhile.
    """
    async with transaction(pool) as connection:
        if seen := believable(hello.highest_generation):
            await connection.execute(SNAPSHOTS["move_generation_past"], client.tenant_id, seen)
        connected = await _connect(connection, client, hello, seen, hub)
        if connected is None:
            raise Unauthorized(f"the token of client {client.client_id} is over")
        if connected["works"]:
            await _resolve_by_hello(connection, client, hello.held)
        epoch: int = connected["connection_epoch"]
        return epoch


async def _connect(
    connection: Connection, client: ClientIdentity, hello: Hello, seen: int, hub: str | None
) -> asyncpg.Record | None:
    least, most = CLIENT_CONCURRENCY_RANGE
    slots = None if hello.max_concurrent is None else min(max(hello.max_concurrent, least), most)
    return await connection.fetchrow(
        SQL["connect_client"],
        client.client_id,
        client.tenant_id,
        clean_sessions(hello.platform_sessions),
        clean_text(hello.protocol),
        clean_text(hello.version),
        slots,
        seen,
        hub,
        sum(item.state != "queued" for item in hello.held),
        sum(item.state == "queued" for item in hello.held),
        client.token_hash,
        DISPATCH,
    )


async def _resolve_by_hello(connection: Connection, client: ClientIdentity, held: Sequence[HeldAttempt]) -> None:
    live = await lock_live(connection, client)
    await extend_held(connection, client, held)
    named = {(task, attempt) for task, attempt, _ in held_rows(held)}
    over = [
        row
        for row in live
        if row["status"] in ("in_progress", "unknown")
        and row["result_received_at"] is None
        and (row["id"], row["attempt_id"]) not in named
    ]
    # Leased over an older connection, all of them: this one has not been given anything yet. What was asked to stop and
    # runs no more has stopped.
    gave_way = {row["id"] for row in over if not row["leased"] or row["interrupt_requested"]}
    await _end_unknown(
        connection, lost=[row["id"] for row in over if row["id"] not in gave_way], revoked=sorted(gave_way)
    )


async def _end_unknown(connection: Connection, *, lost: Sequence[UUID], revoked: Sequence[UUID]) -> None:
    """Lost ones count an attempt; revoked ones gave way, which counts none, and what was never leased has none."""
    if lost and revoked:
        # Two effects in one transaction: what both change is locked at once, or the order by id would not hold.
        both = [*lost, *revoked]
        owners = await connection.fetchval(SQL["requests_of_executions"], both)
        await lock_concerned_requests(connection, owners, both)
        await connection.execute(SQL["lock_batches_of_executions"], both)
    await release(connection, revoked, Release.PREEMPTED, error="gave way, or did not in time")
    await fail_tasks(connection, lost, "the desktop no longer runs it", outcome="lease_expired")


async def record_heartbeats(pool: Pool, beats: Sequence[HeartbeatRecord]) -> None:
    """The newest beat of each client, in one statement: presence, sessions, phases, and every lease listed extended.

    Wakes the coordinator when what a desktop can do has changed. A connection that is over and still sends beats missed
    the order to close: it gets it again.
    """
    newest = {beat.client_id: beat for beat in sorted(beats, key=lambda beat: beat.epoch)}
    clients = list(newest.values())
    held = [(beat.client_id, *item) for beat in clients for item in held_rows(_listed(beat))]
    found = await pool.fetch(
        SQL["record_heartbeats"],
        [beat.client_id for beat in clients],
        [beat.epoch for beat in clients],
        [clean_sessions(beat.heartbeat.platform_sessions) for beat in clients],
        [beat.heartbeat.healthy for beat in clients],
        [item[0] for item in held],
        [item[1] for item in held],
        [item[2] for item in held],
        [item[3] for item in held],
        LEASE_SECONDS,
        DISPATCH,
        [len(beat.heartbeat.running) for beat in clients],
        [len(beat.heartbeat.queued) for beat in clients],
    )
    over = [row for row in found if row["id"] is not None]
    if over:
        async with transaction(pool) as connection:
            await write_outbox(connection, [_closing(row, newest[row["id"]].epoch) for row in over])


def _closing(client: asyncpg.Record, epoch: int) -> OutboxRow:
    """Closes what is older than the newest connection; all of it where the database knows less than the hub."""
    current = client["connection_epoch"]
    code, before = CloseCode.REPLACED, current
    if client["revoked"]:
        code = CloseCode.REVOKED
    elif epoch > current:
        code, before = CloseCode.SERVER_ERROR, None
    return close_event(ClientIdentity(client["id"], client["tenant_id"]), code, before)


def _listed(beat: HeartbeatRecord) -> list[HeldAttempt]:
    return [*beat.heartbeat.running, *beat.heartbeat.queued]


async def disconnect(pool: Pool, ends: Sequence[ConnectionEnd]) -> None:
    """These connections closed: offline at once, lost only after 30 s. The end of an older epoch changes nothing."""
    # The newest of each client: a join with two rows of one client would take either.
    newest = {end.client_id: end for end in sorted(ends, key=lambda end: end.epoch)}
    closed = list(newest.values())
    await pool.execute(
        SQL["disconnect_clients"], list(newest), [end.epoch for end in closed], [end.code for end in closed]
    )


async def mark_lost(connection: Connection) -> int:
    """Clients silent for 30 s: offline, and the workflows of open requests bound to them are told. Returns how many."""
    rows = await connection.fetch(SQL["mark_lost"], SILENCE_SECONDS, SWEEP_LIMIT)
    if rows:
        lost = {row["id"]: row for row in rows}
        requests = await connection.fetch(SQL["requests_of_clients"], list(lost))
        await write_outbox(connection, [_lost_signal(row, lost[row["client_id"]]) for row in requests])
        await wake(connection, DISPATCH)
    return len(rows)


def _lost_signal(request: asyncpg.Record, client: asyncpg.Record) -> OutboxRow:
    payload = {
        "client_id": str(client["id"]),
        "epoch": client["connection_epoch"],
        "lost_at": client["lost_at"].isoformat(),
    }
    return signal(collect_now_workflow_id(request["id"]), SignalName.CLIENT_LOST, payload, request["tenant_id"])


async def return_queued_of_lost(connection: Connection) -> int:
    """Scheduled work that waits on a lost client goes back to the queue; high work too, after RELEASE_SECONDS.

    Until then it is its request's workflow's. The coordinator then binds it to another client.
    """
    rows = await connection.fetch(SQL["queued_of_lost"], SWEEP_LIMIT, RELEASE_SECONDS)
    return await _release_queued(connection, [row["id"] for row in rows], Release.CANCELLED, "the client is lost")


async def return_expired_queued(connection: Connection) -> int:
    """Leases that ran out before the start: back to the queue, nothing counted."""
    rows = await connection.fetch(SQL["expired_queued"], SWEEP_LIMIT)
    locked = await lock_executions(connection, [row["id"] for row in rows])
    ids = [row["id"] for row in locked if row["status"] == "queued" and row["expired"]]
    return len(await release(connection, ids, Release.LEASE_EXPIRED, error="the lease ran out before the start"))


async def _release_queued(connection: Connection, ids: Sequence[UUID], why: Release, error: str) -> int:
    locked = await lock_executions(connection, ids)
    queued = [row["id"] for row in locked if row["status"] == "queued"]
    return len(await release(connection, queued, why, error=error))


async def make_expired_unknown(connection: Connection) -> int:
    """Leases that ran out in progress: `unknown`. The slot is free, the business task waits until somebody knows."""
    rows = await connection.fetch(SQL["expired_running"], SWEEP_LIMIT)
    if not rows:
        return 0
    ids = [row["id"] for row in rows]
    await lock_executions(connection, ids)
    changed = await connection.fetch(SQL["make_unknown"], ids)
    await wake(connection, DISPATCH)
    return len(changed)


async def resolve_unknown(connection: Connection) -> int:
    """Unknown tasks whose end is certain: a counted failure, or preempted where the lease had been revoked."""
    return len(await end_resolvable(connection, SWEEP_LIMIT))


async def end_resolvable(connection: Connection, limit: int) -> list[asyncpg.Record]:
    """The same, at most `limit`; returns the execution rows that ended (`id`, `tenant_id`)."""
    found = await connection.fetch(SQL["resolvable_unknown"], None, limit, LEASE_SECONDS)
    if not found:
        return []
    await lock_executions(connection, [row["id"] for row in found])
    # Again under the locks: a heartbeat may have named one in between.
    over = await connection.fetch(SQL["resolvable_unknown"], [row["id"] for row in found], limit, LEASE_SECONDS)
    await _end_unknown(
        connection,
        lost=[row["id"] for row in over if not row["revoked"]],
        revoked=[row["id"] for row in over if row["revoked"]],
    )
    return over


async def fail_never_ingested(connection: Connection) -> int:
    """Results received that never came to ingest: a counted failure. One that comes after all is still taken."""
    return len(await end_never_ingested(connection, SWEEP_LIMIT))


async def end_never_ingested(connection: Connection, limit: int) -> list[asyncpg.Record]:
    """The same, at most `limit`; returns the execution rows that ended (`id`, `tenant_id`)."""
    found = await connection.fetch(SQL["never_ingested"], INGEST_SECONDS, limit, None)
    if not found:
        return []
    await lock_executions(connection, [row["id"] for row in found])
    # Again under the locks: ingest may have come in between.
    rows = await connection.fetch(SQL["never_ingested"], INGEST_SECONDS, limit, [row["id"] for row in found])
    await fail_tasks(connection, [row["id"] for row in rows], "its result was received, but never ingested")
    return rows


async def repeat_lost_hints(connection: Connection) -> int:
    """Tasks that wait unleased on a connected client get their hint again: the first one was lost on its way."""
    rows = await connection.fetch(SQL["unhinted"], HINT_SECONDS, SWEEP_LIMIT)
    if rows:
        await connection.execute(SQL["touch_tasks"], [row["id"] for row in rows])
        await write_outbox(connection, [_hint(row) for row in rows])
    return len(rows)


def _hint(row: asyncpg.Record) -> OutboxRow:
    client = row["target_client_id"]
    payload = {"task_id": str(row["id"]), "client_id": str(client)}
    key = f"monitor.{route_lane(Lane(row['lane']))}.{client}"
    return dispatch_event("task_available", key, payload, row["tenant_id"], client)


async def forget_histories(connection: Connection) -> int:
    """Histories of desktops that were revoked over a month ago; those of the others are bounded rings."""
    return len(await connection.fetch(SQL["forget_histories"], SWEEP_LIMIT))


async def resume_all_batches(connection: Connection) -> int:
    """The safety net under `resume_batches`: no batch waits for a desktop that is free."""
    return await resume_batches(connection)
