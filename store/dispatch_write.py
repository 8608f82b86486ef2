"""A round's one effect: picks become execution tasks, or offers of the legacy path (1-dispatch §1.4, §1.7)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from domain.ids import new_uuid
from domain.round_state import Pick
from store.database import Connection
from store.legacy_offers import offer
from store.statements import statements
from telemetry import metrics
from telemetry.effects import count

SQL = statements("dispatch_write")


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a round's picks, by business task.

    `barred`: is as the round read it, and yet has a live execution task that it does not know: only reconcile helps.
    The others had changed meanwhile.
    """

    dispatched: frozenset[int] = frozenset()
    barred: frozenset[int] = frozenset()


async def write_round(connection: Connection, picks: Sequence[Pick], generations: Mapping[int, int]) -> Written:
    """Write the picks: execution tasks, `active_task_id`, outbox rows, the windows' ledger.

    A tenant with an accept since the reading is left to the next round; so is a task that changed meanwhile.
    """
    pushed = await _push(connection, [pick for pick in picks if not pick.task.legacy], generations)
    offered = await _offer(connection, [pick for pick in picks if pick.task.legacy], generations)
    dispatched = pushed.dispatched | offered
    count(metrics.dispatches, len(dispatched))
    return Written(dispatched, pushed.barred)


async def _push(connection: Connection, picks: Sequence[Pick], generations: Mapping[int, int]) -> Written:
    if not picks:
        return Written()
    tenants = sorted({pick.task.tenant_id for pick in picks})
    row = await connection.fetchrow(
        SQL["write_picks"],
        [pick.task.task_id for pick in picks],
        [new_uuid() for _ in picks],
        [pick.client_id for pick in picks],
        [pick.task.lane.value for pick in picks],
        [pick.task.bound_to for pick in picks],
        tenants,
        [generations[tenant] for tenant in tenants],
    )
    assert row is not None, "a select without from has a row"
    return Written(frozenset(row["dispatched"]), frozenset(row["barred"]))


async def _offer(connection: Connection, picks: Sequence[Pick], generations: Mapping[int, int]) -> frozenset[int]:
    if not picks:
        return frozenset()
    by_tenant: dict[int, list[Pick]] = defaultdict(list)
    for pick in picks:
        by_tenant[pick.task.tenant_id].append(pick)
    rows = await connection.fetch(
        SQL["share_unchanged_tenants"], list(by_tenant), [generations[tenant] for tenant in by_tenant]
    )
    valid = [pick for row in rows for pick in by_tenant[row["id"]]]
    await offer(connection, valid)
    return frozenset(await connection.fetchval(SQL["count_offers"], [pick.task.task_id for pick in valid]))
