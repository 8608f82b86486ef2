"""Batches as their tenant, and operators, see them (1-dispatch §1.6)."""

from store.catalog import Reach, Record
from store.database import Pool
from store.statements import statements

SQL = statements("batch_reads")


async def list_batches(
    pool: Pool, reach: Reach, brand_id: int | None, status: str | None, before: int | None, limit: int
) -> list[Record]:
    """Of one brand or of all in reach, in one status or in any; newest first, before the given id."""
    workspaces = list(reach.workspace_ids)
    return await pool.fetch(SQL["list_batches"], reach.tenant_id, workspaces, brand_id, status, before, limit)


async def find_batch(pool: Pool, reach: Reach, batch_id: int) -> Record | None:
    """One batch with what runs and what is held; None for one that is missing or out of reach."""
    return await pool.fetchrow(SQL["find_batch"], reach.tenant_id, list(reach.workspace_ids), batch_id)


async def list_all_batches(
    pool: Pool, tenant_id: int | None, status: str | None, before: int | None, limit: int
) -> list[Record]:
    """For operators: of one tenant or of all; newest first, before the given id."""
    return await pool.fetch(SQL["list_all_batches"], tenant_id, status, before, limit)


async def find_any_batch(pool: Pool, batch_id: int) -> Record | None:
    """For operators: one batch of whichever tenant; None for one that is missing."""
    return await pool.fetchrow(SQL["find_any_batch"], batch_id)


async def list_all_plans(pool: Pool, tenant_id: int | None, after: int, limit: int) -> list[Record]:
    """For operators: plans of one tenant or of all, by id after the given one."""
    return await pool.fetch(SQL["list_all_plans"], tenant_id, after, limit)


async def find_any_plan(pool: Pool, plan_id: int) -> Record | None:
    """For operators: a plan's tenant, workspace and state; None for one that is missing."""
    return await pool.fetchrow(SQL["find_any_plan"], plan_id)


async def newest_batch_of_plan(pool: Pool, plan_id: int, after: int) -> Record | None:
    """The newest batch that the plan became, if it is newer than the given one; a backfill is none of its runs."""
    return await pool.fetchrow(SQL["newest_batch_of_plan"], plan_id, after)
