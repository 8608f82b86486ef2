"""Counting from the database what a run must not have lost or done twice."""

from dataclasses import dataclass

from store.database import Pool
from store.statements import statements

SQL = statements("audit")


@dataclass(frozen=True, slots=True)
class Integrity:
    """Recounted for one tenant, never assumed.

    `lost`: business tasks that are neither finished nor waiting nor held by a live execution task, that wait in high
    for a request that is over, or are completed without their run. `duplicated`: results counted twice, or two live
    leases on one task.
    """

    lost: int
    duplicated: int
    # Requests or batches whose counters differ from a recount.
    miscounted: int
    # Leases and execution rows that outlive what they were for.
    overhanging: int = 0


async def check_integrity(pool: Pool, tenant_id: int) -> Integrity:
    """Recount the tenant's tasks, runs, attempts and counters."""
    row = await pool.fetchrow(SQL["check_integrity"], tenant_id)
    assert row is not None
    return Integrity(row["lost"], row["duplicated"], row["miscounted"], row["overhanging"])
