"""Pausing and draining by lane, tenant, platform and client (1-dispatch §1.3; dispatch §15.3).

A pause keeps new work away and lets run what runs. Draining also takes back what waits on desktops and has not started:
it goes back to its lane with its age, and the desktops are told.
"""

from dataclasses import dataclass
from typing import Final, assert_never

import asyncpg

from domain.errors import NotFound
from domain.pauses import PauseKind, PauseTarget
from domain.protocol import Control
from store.client_history import ClientEvent, note_event
from store.controls import control_row
from store.database import Connection, Pool, transaction
from store.listen import DISPATCH, wake
from store.outbox import OutboxRow, write_outbox
from store.releases import Release, lock_executions, release
from store.statements import statements

SQL = statements("pauses")

# Taken back in one transaction; the rest in further ones.
DRAIN_CHUNK: Final = 500


@dataclass(frozen=True, slots=True)
class Paused:
    """What a pause or resume did. `more`: the drain goes on (`drain_rest`)."""

    changed: bool
    taken_back: int = 0
    more: bool = False


async def pause(connection: Connection, target: PauseTarget, *, drain: bool, actor: str) -> Paused:
    """No new work for the target from this commit on; audited. Idempotent. NotFound when there is no such target.

    `drain`: also take back what waits on desktops, the first 500 in this transaction.
    """
    changed = await _set(connection, target, paused=True, actor=actor)
    taken, more = await _take_back(connection, target) if drain else (0, False)
    await _audit(connection, target, "paused", actor, {"changed": changed, "drain": drain, "taken_back": taken})
    await wake(connection, DISPATCH)
    return Paused(changed, taken, more)


async def resume(connection: Connection, target: PauseTarget, *, actor: str) -> Paused:
    """The target gets work again; audited. Idempotent. NotFound when there is no such target."""
    changed = await _set(connection, target, paused=False, actor=actor)
    await _audit(connection, target, "resumed", actor, {"changed": changed})
    await wake(connection, DISPATCH)
    return Paused(changed)


async def drain_rest(pool: Pool, target: PauseTarget) -> int:
    """Take back what still waits of a paused target, a transaction a chunk; returns how many. Idempotent."""
    total, more = 0, True
    while more:
        async with transaction(pool) as connection:
            taken, more = await _take_back(connection, target)
        total += taken
    return total


async def _set(connection: Connection, target: PauseTarget, *, paused: bool, actor: str) -> bool:
    """Whether it was otherwise before. Waits for the round under way."""
    await connection.execute(SQL["lock_rounds"])
    match target.kind:
        case PauseKind.LANE:
            statement = SQL["pause_lane"] if paused else SQL["resume_lane"]
            return await connection.fetchval(statement, target.key, actor) is not None
        case PauseKind.TENANT:
            row = await connection.fetchrow(SQL["set_tenant"], target.tenant_id, paused)
        case PauseKind.PLATFORM:
            row = await connection.fetchrow(SQL["set_platform"], target.platform, paused)
        case PauseKind.CLIENT:
            row = await connection.fetchrow(SQL["set_client"], target.client_id, paused)
        case _:
            assert_never(target.kind)
    if row is None:
        raise NotFound(f"no {target.kind.value} {target.key}")
    if target.client_id is not None and row["changed"]:
        detail = {"actor": actor, "changed": {"paused": [not paused, paused]}}
        await note_event(connection, target.client_id, ClientEvent.SETTINGS_CHANGED, detail)
    return bool(row["changed"])


async def _audit(
    connection: Connection, target: PauseTarget, action: str, actor: str, detail: dict[str, object]
) -> None:
    subject = f"{target.kind.value} {target.key}"
    await connection.execute(SQL["audit"], target.tenant_id, target.client_id, actor, action, subject, detail)


async def _take_back(connection: Connection, target: PauseTarget) -> tuple[int, bool]:
    """The first chunk of what waits, on both paths; returns how many, and whether another try may find more.

    None taken back: whatever else was found is on its way elsewhere, and trying again would never end.
    """
    where = (target.lane and target.lane.value, target.tenant_id, target.platform, target.client_id, DRAIN_CHUNK)
    queued = [row["id"] for row in await connection.fetch(SQL["find_queued"], *where)]
    locked = await lock_executions(connection, queued)
    waiting = [row["id"] for row in locked if row["status"] == "queued" and row["result_received_at"] is None]
    rows = await release(connection, waiting, Release.CANCELLED, error="paused by an operator")
    await write_outbox(connection, [_order(row) for row in rows])
    # Last, and waiting for nobody: these are business tasks too, and the first ones are locked already.
    offered = [row["id"] for row in await connection.fetch(SQL["find_offered"], *where)]
    withdrawn = await connection.fetch(SQL["withdraw_offers"], offered)
    taken = len(rows) + len(withdrawn)
    return taken, taken > 0 and max(len(offered), len(queued)) >= DRAIN_CHUNK


def _order(row: asyncpg.Record) -> OutboxRow:
    return control_row(row, Control.CANCELED, row["tenant_id"], reason="paused")
