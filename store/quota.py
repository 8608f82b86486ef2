"""Blocks of the cluster's minute that several coordinators share (1-dispatch §1.4).

One coordinator alone never comes here: the window is its own.
"""

from typing import Final

from domain.budgets import limits_of, with_floors
from domain.quota import Quota, ask, grant
from store.database import Connection
from store.settings import read_dispatch_settings
from store.statements import statements

SQL = statements("quota")

# A block that nobody used is the others' again after this.
BLOCK_SECONDS: Final = 3.0


async def take_block(connection: Connection, shard: int, epoch: int, lacking: Quota) -> Quota:
    """Permits for what a round lacked, as many as window and ceilings allow; replaces what was left of the last block.

    The caller has fenced its transaction, which should do nothing else: it holds up every other coordinator's.
    """
    settings = await read_dispatch_settings(connection)
    limits = with_floors(
        limits_of(settings, client_concurrency=None, client_queue_depth=None, platform=0), settings.normal_floor
    )
    await connection.execute(SQL["lock_quota"])
    await connection.execute(SQL["await_spending"], shard)
    row = await connection.fetchrow(SQL["read_quota"], shard)
    assert row is not None, "an aggregate has a row"
    granted = grant(
        Quota(row["used_scheduled"], row["used_high"]),
        Quota(row["others_scheduled"], row["others_high"]),
        limits,
        ask(lacking, limits, settings.coordinator_shards),
        normal_waits=lacking.scheduled > 0 or row["others_wait"],
    )
    await connection.execute(
        SQL["take_block"], shard, epoch, granted.scheduled, granted.high, BLOCK_SECONDS, lacking.scheduled > 0
    )
    return granted


async def held_permits(connection: Connection, shard: int, epoch: int) -> Quota:
    """The permits a round may use, locked until its end."""
    row = await connection.fetchrow(SQL["read_permits"], shard, epoch)
    return Quota() if row is None else Quota(row["scheduled_permits"], row["high_permits"])


async def promised_to_others(connection: Connection, shard: int) -> Quota:
    """What other coordinators than the shard's have been granted and may still dispatch."""
    row = await connection.fetchrow(SQL["read_quota"], shard)
    assert row is not None, "an aggregate has a row"
    return Quota(row["others_scheduled"], row["others_high"])


async def spend(connection: Connection, shard: int, epoch: int, used: Quota) -> None:
    """Take what a round dispatched from what it held, in its transaction."""
    await connection.execute(SQL["spend"], shard, epoch, used.scheduled, used.high)
