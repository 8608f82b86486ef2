"""Offers of the legacy path: the coordinator names a desktop for a task, which then pulls it (1-dispatch §1.4, §1.7).

An offer is no lease: it holds nothing, is taken back by one UPDATE, and says nothing to anybody but its desktop.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import asyncpg

from domain.hub_port import ClientIdentity, GrantRequest
from domain.ids import new_uuid
from domain.lanes import Kind, Lane, route_lane, rule_of
from domain.legacy import OFFER_SECONDS, ExecutionOwner, wire_id
from domain.protocol import TaskAvailable
from domain.rounds import Pick
from store.database import Connection, Pool
from store.listen import DISPATCH, wake
from store.outbox import OutboxRow, dispatch_event, write_outbox
from store.statements import statements

SQL = statements("legacy_offers")

SWEEP_LIMIT: Final = 500
# A push takes milliseconds; a hint this old is lost.
HINT_SECONDS: Final = 10


async def offer(connection: Connection, picks: Sequence[Pick]) -> int:
    """Offer the picks whose task is legacy and still what the round read; their desktops are told. Returns how many."""
    if not picks:
        return 0
    rows = await connection.fetch(
        SQL["offer"],
        [pick.task.task_id for pick in picks],
        [pick.client_id for pick in picks],
        [pick.task.lane.value for pick in picks],
        [pick.task.bound_to for pick in picks],
        OFFER_SECONDS,
    )
    return await write_outbox(connection, [_hint(row) for row in rows])


def _hint(row: asyncpg.Record) -> OutboxRow:
    client_id = row["target_client_id"]
    payload = {"task_id": wire_id(row["id"]), "client_id": str(client_id)}
    key = f"monitor.{route_lane(Lane(row['lane']))}.{client_id}"
    return dispatch_event("task_available", key, payload, row["tenant_id"], client_id)


async def read_offers(pool: Pool, client: ClientIdentity, epoch: int) -> list[TaskAvailable]:
    """Everything on offer to this connection, most urgent first; leases nothing."""
    return [_announced(row) for row in await _read(pool, [(client, epoch, None)])]


async def read_announced(pool: Pool, requests: Sequence[GrantRequest]) -> list[list[TaskAvailable]]:
    """Of the legacy tasks that these connections were told of, those on offer to each, in the order of the requests."""
    asked = [
        (each.client, each.epoch, number) for each in requests for number in each.task_ids if isinstance(number, int)
    ]
    frames: defaultdict[tuple[UUID, int], list[TaskAvailable]] = defaultdict(list)
    for row in await _read(pool, asked) if asked else []:
        frames[row["target_client_id"], row["epoch"]].append(_announced(row))
    return [frames.pop((each.client.client_id, each.epoch), []) for each in requests]


async def _read(pool: Pool, asked: Sequence[tuple[ClientIdentity, int, int | None]]) -> list[asyncpg.Record]:
    return await pool.fetch(
        SQL["read_offers"],
        [client.client_id for client, _, _ in asked],
        [client.tenant_id for client, _, _ in asked],
        [epoch for _, epoch, _ in asked],
        [number for _, _, number in asked],
    )


def _announced(row: asyncpg.Record) -> TaskAvailable:
    """Without attempt and token: those come with the pull. Until `lease_expires_at` it can be pulled."""
    return TaskAvailable(
        **described(row),
        status="pending",
        attempt=0,
        attempt_id="",
        lease_token="",
        lease_expires_at=row["legacy_offer_expires_at"],
    )


def described(row: asyncpg.Record) -> dict[str, Any]:
    """What every frame about a legacy task says of it."""
    lane, request = Lane(row["dispatch_lane"]), row["collect_request_id"]
    return {
        "id": str(new_uuid()),
        "kind": Kind.MONITOR.value,
        "task_id": wire_id(row["id"]),
        "target_client_id": str(row["target_client_id"]),
        "priority": row["dispatch_priority"],
        "lane": lane.value,
        "lane_weight": rule_of(Kind.MONITOR, lane).weight,
        "scheduler_group_key": f"qid:{row['question_id']}",
        "business_date": row["business_date"].isoformat(),
        "interrupt_generation": row["interrupt_generation"],
        "updated_at": row["updated_at"],
        "enqueued_at": row["enqueued_at"],
        "source": _source(lane, request),
        "owner": ExecutionOwner.LEGACY.value,
        "platform": row["ai_platform_id"],
        "question": row["question"],
        "collect_request_id": None if request is None else str(request),
    }


def _source(lane: Lane, request: object) -> str:
    if lane is Lane.HIGH and request is not None:
        return "collect_now"
    return "retry_recovery" if lane is Lane.RETRY else "daily_schedule"


async def withdraw_stale(connection: Connection) -> int:
    """Offers that ran out, or whose desktop is lost: the tasks may go to anybody again. Bounded; idempotent."""
    rows = await connection.fetch(SQL["withdraw_stale"], SWEEP_LIMIT)
    if rows:
        await wake(connection, DISPATCH)
    return len(rows)


async def repeat_hints(connection: Connection) -> int:
    """Offers that a connected desktop has not taken for a while are hinted at again: the first one may be lost."""
    rows = await connection.fetch(SQL["unheard"], HINT_SECONDS, SWEEP_LIMIT)
    return await write_outbox(connection, [_hint(row) for row in rows])
