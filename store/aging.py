"""Aging of work that waits: a scan in one short transaction (1-dispatch §1.4; dispatch §9.4)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from domain.aging import MOST_PROMOTIONS_A_SCAN, promotions
from domain.dispatch_settings import DispatchSettings
from domain.lanes import Lane
from domain.shards import Shard
from store.database import Connection
from store.settings import read_dispatch_settings
from store.statements import statements

SQL = statements("aging")

# A tenth of so many fills a scan: more need not be counted.
COUNTED: Final = 10 * MOST_PROMOTIONS_A_SCAN
# Boosted tasks raised further by one scan.
MOST_RAISED_A_SCAN: Final = 1000
AGEING_LANES: Final = (Lane.NORMAL, Lane.RETRY)


@dataclass(frozen=True, slots=True)
class Aged:
    """What one scan did, and in how many seconds the next is due."""

    promoted: int
    raised: int
    next_scan: float


@dataclass(frozen=True, slots=True)
class Waiting:
    """One tenant's work that has waited long enough: how much, counted up to 10,000, and since when."""

    tenant_id: int
    ready: int
    oldest: datetime


async def age(connection: Connection, index: int | None = None) -> Aged:
    """Promote the oldest tenth of each tenant's work that waited long enough; raise what was promoted before.

    Of one coordinator's own tenants, or of all (`index` None). At most 1,000 promotions. A paused lane neither gives
    nor gets.
    """
    settings = await read_dispatch_settings(connection)
    shard = Shard() if index is None else Shard(index, settings.coordinator_shards)
    raised = await connection.fetch(SQL["raise_boosted"], shard.index, shard.of, MOST_RAISED_A_SCAN)
    promoted = await _promote(connection, settings, shard)
    return Aged(promoted, len(raised), settings.aging_scan_seconds)


async def _promote(connection: Connection, settings: DispatchSettings, shard: Shard) -> int:
    lanes = [lane.value for lane in AGEING_LANES if lane not in settings.paused_lanes]
    if Lane.NORMAL_BOOSTED in settings.paused_lanes or not lanes:
        return 0
    waited = float(settings.aging_wait_seconds)
    rows = await connection.fetch(SQL["count_aged"], shard.index, shard.of, waited, COUNTED, lanes)
    waiting = [Waiting(row["tenant_id"], row["ready"], row["oldest"]) for row in rows]
    given = share_promotions(waiting, MOST_PROMOTIONS_A_SCAN // shard.of)
    return len(await connection.fetch(SQL["promote"], list(given), list(given.values()), waited, lanes))


def share_promotions(waiting: Sequence[Waiting], budget: int) -> dict[int, int]:
    """How many each tenant may promote: small wants whole, large ones an equal part of what is left.

    Where the budget has not one for everybody, who has waited longest comes first.
    """
    wants = {one.tenant_id: promotions(one.ready, budget=budget) for one in waiting}
    asking = sorted(waiting, key=lambda one: (wants[one.tenant_id], one.oldest, one.tenant_id))
    given, left = {}, budget
    for position, one in enumerate(asking):
        equal = max(left // (len(asking) - position), 1)
        given[one.tenant_id] = min(wants[one.tenant_id], equal, left)
        left -= given[one.tenant_id]
    return {tenant_id: most for tenant_id, most in given.items() if most}
